"""A day that is processed again, whole or from any step, has the same content; a failed step repeats none before it."""

from __future__ import annotations

import hashlib
import json
import random
from datetime import timedelta

import dagster as dg
import pytest

from feed_assets.checks import Limits
from feed_assets_tests.assets.test_checked_hours import dirty
from feed_assets_tests.assets.test_dirty_days import quarantined
from feed_assets_tests.harness import (
    ADS,
    ALL,
    AS_OF,
    CLICKS,
    EFFECTIVENESS,
    Installation,
    Interposed,
    messages,
    using_board,
)

FEEDS = {"clean_ads": ADS, "clean_clicks": CLICKS, "ad_effectiveness": EFFECTIVENESS}


@pytest.fixture
def day(shop: Installation, tmp_path) -> Installation:
    """A day with everything that a partner can do wrong, in files of two deliveries; and a catalog of ads."""
    records = dirty(random.Random(7), 50)
    for name, part in {"a": records[:20], "b": records[20:]}.items():
        for kind in ("ads", "clicks"):
            shop.land([row for of, row in part if of == kind], f"{kind}/shop_{kind}", name)
    shop.publish("ad-catalog/v1.0", None, {"ads.csv": "ad_id,name\na1,First\n"}, tmp_path / "catalog")
    return shop.using(limits=Limits(quarantined_share=1.0))


def content(installation: Installation) -> dict[str, str]:
    """A digest of the sorted rows of each feed, and of each quarantine."""
    found = {location: installation.rows(location) for location in FEEDS.values()}
    found |= {f"quarantine of {location}": quarantined(installation, location)[1] for location in (ADS, CLICKS)}
    return {
        name: hashlib.sha256(json.dumps(sorted(map(repr, rows))).encode()).hexdigest() for name, rows in found.items()
    }


def test_every_asset_has_the_same_content_after_one_run_and_after_many(day) -> None:
    contents = []
    for second in range(3):
        at = day.at(AS_OF + timedelta(seconds=second))
        result = at.run(*ALL)
        assert result.success, messages(result)
        contents.append(content(at))

    assert contents[0] == contents[1] == contents[2]
    assert len(set(contents[0].values())) == len(contents[0])


@pytest.mark.parametrize("failing", FEEDS)
def test_a_run_that_failed_at_a_step_goes_on_there_and_comes_to_the_same_content(day, failing) -> None:
    at = day.at(AS_OF + timedelta(seconds=10))
    assert at.run(*ALL).success
    expected = content(at)
    later = day.at(AS_OF + timedelta(seconds=20))

    def fail(operation: str, key: str) -> None:
        if operation == "create" and key.startswith(FEEDS[failing]):
            raise RuntimeError("the step fails")

    failed = using_board(later, Interposed(later.board, fail)).run(*ALL)
    assert not failed.success
    done = {event.step_key for event in failed.all_events if event.is_step_success}

    again = day.at(AS_OF + timedelta(seconds=30)).reexecute(failed.run_id)

    assert again.success
    started = {event.step_key for event in again.all_events if event.event_type == dg.DagsterEventType.STEP_START}
    assert failing in started
    assert not started & done
    assert content(day.at(AS_OF + timedelta(seconds=30))) == expected
