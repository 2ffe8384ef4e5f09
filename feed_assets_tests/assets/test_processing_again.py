"""A day that is processed again, whole or from any step, has the same content; a failed step repeats none before it."""

from __future__ import annotations

import hashlib
import json
import random
from collections.abc import Callable
from datetime import timedelta
from itertools import count

import dagster as dg
import pytest

from feed_assets.checks import Limits
from feed_assets.file_feed import update_name
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


@pytest.fixture(scope="module")
def day(shared_shop, tmp_path_factory) -> Installation:
    """A day with everything that a partner can do wrong, in files of two deliveries; and a catalog of ads."""
    shop = shared_shop
    records = dirty(random.Random(7), 50)
    for name, part in {"a": records[:20], "b": records[20:]}.items():
        for kind in ("ads", "clicks"):
            shop.land([row for of, row in part if of == kind], f"{kind}/shop_{kind}", name)
    shop.publish("ad-catalog/v1.0", None, {"ads.csv": "ad_id,name\na1,First\n"}, tmp_path_factory.mktemp("catalog"))
    return shop.using(limits=Limits(quarantined_share=1.0))


@pytest.fixture(scope="module")
def later(day) -> Callable[[], Installation]:
    """The same day ten seconds later each time: no two runs begin an update in one second."""
    moments = count(1)
    return lambda: day.at(AS_OF + timedelta(seconds=10 * next(moments)))


@pytest.fixture(scope="module")
def processed(later) -> dict[str, str]:
    """The content of the day after its first run."""
    return content(run_whole(later()))


def run_whole(installation: Installation) -> Installation:
    result = installation.run(*ALL)
    assert result.success, messages(result)
    return installation


def content(installation: Installation) -> dict[str, str]:
    """A digest of the sorted rows of each feed, and of each quarantine."""
    found = {location: installation.rows(location) for location in FEEDS.values()}
    found |= {f"quarantine of {location}": quarantined(installation, location)[1] for location in (ADS, CLICKS)}
    return {
        name: hashlib.sha256(json.dumps(sorted(map(repr, rows))).encode()).hexdigest() for name, rows in found.items()
    }


def test_every_asset_has_the_same_content_after_one_run_and_after_many(processed, later) -> None:
    again = [content(run_whole(later())) for _ in range(2)]

    assert again == [processed] * 2
    assert len(set(processed.values())) == len(processed)


@pytest.mark.parametrize("failing", FEEDS)
def test_a_run_that_failed_at_a_step_goes_on_there_and_comes_to_the_same_content(processed, later, failing) -> None:
    def fail(operation: str, key: str) -> None:
        if operation == "create" and key.startswith(FEEDS[failing]):
            raise RuntimeError("the step fails")

    at = later()
    failed = using_board(at, Interposed(at.board, fail)).run(*ALL)
    assert not failed.success
    done = {event.step_key for event in failed.all_events if event.is_step_success}

    afterwards = later()
    again = afterwards.reexecute(failed.run_id)

    assert again.success
    started = {event.step_key for event in again.all_events if event.event_type == dg.DagsterEventType.STEP_START}
    assert failing in started
    assert not started & done
    assert afterwards.latest(FEEDS[failing]) == update_name(afterwards.now)
    assert content(afterwards) == processed
