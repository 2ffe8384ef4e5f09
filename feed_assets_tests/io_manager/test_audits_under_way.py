"""An input whose update another run has staged and not audited yet, as in a backfill of Dagster's."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from uuid import UUID

import dagster as dg
import pytest
from dagster._core.test_utils import create_run_for_test

from feed_assets.feed_events.triggers import DAGSTERS_BACKFILL_TAG
from feed_assets.file_feed import Feed, publish, reject
from feed_assets.io_manager.audits_under_way import wait_for_audit
from feed_assets_tests.harness import (
    ADS,
    CLICKS,
    DAY,
    EFFECTIVENESS,
    Installation,
    Interposed,
    ads,
    click,
    messages,
    using_board,
)
from feed_assets_tests.waiting import HANGS

RECORDS = f"{CLICKS}/.feed/records/{DAY}/"
MAKER, READER = str(UUID(int=1)), str(UUID(int=2))
LOG = logging.getLogger("test")


@dataclass
class Reader:
    """One that found no valid update of clean clicks."""

    desk: Installation
    caplog: pytest.LogCaptureFixture

    def waits(self, meanwhile: Callable[[], object] = lambda: None, *, longest: float = HANGS) -> bool:
        """Whether it has to wait; `meanwhile` is called when it has begun to."""
        self.caplog.clear()

        def look(operation: str, key: str) -> None:
            del key
            if operation == "read" and self._has_begun() and not done:
                done.append(meanwhile())

        done: list[object] = []
        feed = Feed(Interposed(self.desk.board, look), CLICKS)
        given = {"longest": timedelta(seconds=longest), "every": timedelta(milliseconds=1)}
        wait_for_audit(feed, DAY, self.desk.instance, READER, LOG, **given)
        return self._has_begun()

    def _has_begun(self) -> bool:
        return "waits for its audit" in self.caplog.text


@pytest.fixture
def reader(desk: Installation, caplog: pytest.LogCaptureFixture) -> Reader:
    caplog.set_level(logging.INFO, LOG.name)
    return Reader(desk, caplog)


@pytest.mark.parametrize("in_backfill", [False, True], ids=["the first update", "a newer one in a backfill"])
def test_a_run_whose_input_another_run_still_audits_waits_for_it(in_backfill, shop):
    shop.land(ads(3))
    shop.land_clicks([click("k1")])
    assert shop.run("clean_ads", *(["clean_clicks"] if in_backfill else [])).success
    results: list[dg.ExecuteInProcessResult] = []
    looked = threading.Event()
    later = shop.at(shop.now + timedelta(minutes=1))
    tags = {DAGSTERS_BACKFILL_TAG: "backfill"} if in_backfill else {}

    def look(operation: str, key: str) -> None:
        if threading.current_thread() is reading and operation == "read" and key.startswith(RECORDS):
            looked.set()
        if operation == "create" and key.startswith(f"{CLICKS}/{DAY}/") and key.endswith("_SUCCESS"):
            reading.start()
            assert looked.wait(HANGS)

    both = using_board(later, Interposed(shop.board, look))
    reading = threading.Thread(target=lambda: results.append(both.run("ad_effectiveness", tags=tags)))
    auditing = both.run("clean_clicks")
    reading.join(HANGS)

    assert auditing.success, messages(auditing)
    assert [result.success for result in results] == [True], messages(results[0])
    made = shop.latest(CLICKS)
    assert shop.record(CLICKS).facts.run_id == auditing.run_id
    told = f"update {made} waits for its audit in run {auditing.run_id}"
    assert [told in entry.user_message for entry in shop.instance.all_logs(results[0].run_id)].count(True) == 1
    read = {each.feed: each.update for each in shop.record(EFFECTIVENESS).facts.inputs if each.partition == DAY}
    assert read == {ADS: shop.latest(ADS), CLICKS: made}


@pytest.mark.parametrize("end", [publish, partial(reject, reason="bad data")], ids=["published", "rejected"])
def test_a_reader_waits_until_the_audit_of_a_live_run_has_published_or_rejected(end, desk, reader):
    create_run_for_test(desk.instance, run_id=MAKER, status=dg.DagsterRunStatus.STARTED)
    staged = desk.stage(CLICKS, DAY, run_id=MAKER)

    assert reader.waits(lambda: end(staged, now=desk.now))


def test_a_reader_waits_no_longer_than_the_run_lives(desk, reader):
    run = create_run_for_test(desk.instance, run_id=MAKER, status=dg.DagsterRunStatus.STARTED)
    desk.stage(CLICKS, DAY, run_id=MAKER)

    assert reader.waits(lambda: desk.instance.report_run_failed(run))
    assert not reader.waits()


def test_a_reader_gives_up_when_an_audit_does_not_end(desk, reader):
    create_run_for_test(desk.instance, run_id=MAKER, status=dg.DagsterRunStatus.STARTED)
    staged = desk.stage(CLICKS, DAY, run_id=MAKER)

    assert reader.waits(longest=0)
    told = f"{CLICKS} {DAY}: the audit of update {staged.claim.name} has not ended. This step goes on without it."
    assert told in reader.caplog.text


@pytest.mark.parametrize("run_id", [READER, MAKER, ""], ids=["its own", "of another installation", "of no run"])
def test_nobody_waits_for_an_update_that_no_other_run_of_this_instance_audits(run_id, desk, reader):
    create_run_for_test(desk.instance, run_id=READER, status=dg.DagsterRunStatus.STARTED)
    desk.stage(CLICKS, DAY, run_id=run_id)

    assert not reader.waits()


def test_a_newer_update_that_was_rejected_does_not_hide_the_one_that_is_audited(desk, reader):
    create_run_for_test(desk.instance, run_id=MAKER, status=dg.DagsterRunStatus.STARTED)
    staged = desk.stage(CLICKS, DAY, run_id=MAKER)
    later = desk.at(desk.now + timedelta(minutes=1))
    reject(later.stage(CLICKS, DAY, run_id="other"), reason="bad data", now=later.now)

    assert reader.waits(lambda: publish(staged, now=desk.now))
