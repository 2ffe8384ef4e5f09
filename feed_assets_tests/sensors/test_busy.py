"""What counts as under way: hours as hours, backfills while their process lives, and no longer."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace

import dagster as dg
import pytest
from dagster._core.test_utils import create_run_for_test, freeze_time

from feed_assets.ads.schemas import AD_CATALOG
from feed_assets.feed_events.declarations import feed_metadata
from feed_assets.feed_events.triggers import BACKFILL_ID_TAG, BACKFILL_TAG, GOES_ON_TAG
from feed_assets.sensors import liveness
from feed_assets.sensors.asset_graph import AssetFeedGraph
from feed_assets.sensors.busy import NEXT_RUN_WITHIN, RETRY_WITHIN, WILL_RETRY, busy_partitions, goes_on
from feed_assets.sensors.liveness import ALIVE_TAG, DEAD_AFTER_SECONDS, alive, fail_dead_runs, first_tags
from feed_assets_tests.harness import DAY, NEXT_DAY, between
from feed_assets_tests.waiting import HANGS

HOURLY, DAILY = dg.AssetKey("hourly"), dg.AssetKey("daily")
RUN = "00000000-0000-0000-0000-000000000001"


@pytest.fixture
def feeds():
    hours = dg.HourlyPartitionsDefinition("2019-11-20-00:00", end_date="2019-12-01-00:00")
    days = dg.DailyPartitionsDefinition("2019-11-20", end_date="2019-12-01")

    @dg.asset(key=HOURLY, partitions_def=hours, metadata=feed_metadata("hourly/v1", AD_CATALOG))
    def hourly(): ...

    @dg.asset(key=DAILY, partitions_def=days, metadata=feed_metadata("daily/v1", AD_CATALOG))
    def daily(): ...

    return AssetFeedGraph.of(dg.Definitions([hourly, daily]).get_repository_def())


def of_another_machine(monkeypatch, *, ago=0.0):
    """The tags of a run that was begun so long ago on a machine whose clock is ten minutes behind."""
    with monkeypatch.context() as there:
        clock = SimpleNamespace(time=lambda: time.time() - 600 - ago, monotonic=lambda: time.monotonic() - 600 - ago)
        there.setattr(liveness, "time", clock)
        there.setattr(liveness, "this_boot", lambda: "of-another-machine", raising=False)
        return first_tags(RUN)


def started(instance, tags, *assets):
    return create_run_for_test(
        instance,
        run_id=RUN,
        status=dg.DagsterRunStatus.STARTED,
        tags=tags,
        asset_selection=frozenset(assets) or None,
    )


def test_a_range_of_hours_is_these_hours_and_no_days(dagster_instance, feeds):
    started(dagster_instance, between(f"{DAY}-22:00", f"{NEXT_DAY}-01:00"), HOURLY)

    busy = busy_partitions(dagster_instance, feeds)

    assert sorted(busy) == [f"{DAY}-22:00", f"{DAY}-23:00", f"{NEXT_DAY}-00:00", f"{NEXT_DAY}-01:00"]
    assert set(busy.values()) == {frozenset({HOURLY})}


def test_a_range_that_names_no_partitions_of_an_asset_is_nothing_of_it(dagster_instance, feeds):
    started(dagster_instance, between(DAY, NEXT_DAY))

    assert busy_partitions(dagster_instance, feeds) == {DAY: frozenset({DAILY}), NEXT_DAY: frozenset({DAILY})}


def test_a_backfill_keeps_all_its_days_while_its_process_gives_signs_of_life(dagster_instance, feeds):
    tags = {"dagster/partition": DAY, BACKFILL_TAG: f"{DAY}/{NEXT_DAY}", **first_tags(RUN)}
    started(dagster_instance, tags, DAILY)

    assert sorted(busy_partitions(dagster_instance, feeds)) == [DAY, NEXT_DAY]
    assert fail_dead_runs(dagster_instance) == []


def of_a_backfill(goes_on, run_id=RUN):
    covers = {"dagster/partition": DAY, BACKFILL_TAG: f"{DAY}/{NEXT_DAY}"}
    return {**covers, BACKFILL_ID_TAG: "a command", GOES_ON_TAG: goes_on, **first_tags(run_id)}


@pytest.mark.parametrize("end", ["report_run_failed", "report_run_canceled"])
def test_a_backfill_keeps_its_days_until_its_next_run_had_time_to_begin(dagster_instance, feeds, monkeypatch, end):
    getattr(dagster_instance, end)(started(dagster_instance, of_a_backfill("true"), DAILY))
    now = time.monotonic()

    def looked_at(seconds):
        monkeypatch.setattr(liveness, "time", SimpleNamespace(monotonic=lambda: now + seconds))
        return sorted(busy_partitions(dagster_instance, feeds))

    kept = [DAY, NEXT_DAY] if end == "report_run_failed" else []
    assert looked_at(0) == looked_at(NEXT_RUN_WITHIN.total_seconds() - 5) == kept
    assert looked_at(NEXT_RUN_WITHIN.total_seconds() + 5) == []


def test_a_backfill_keeps_no_day_when_its_last_run_has_ended(dagster_instance, feeds):
    dagster_instance.report_run_failed(started(dagster_instance, of_a_backfill("true"), DAILY))
    last = create_run_for_test(dagster_instance, tags=of_a_backfill("false", "another-run"))
    assert sorted(busy_partitions(dagster_instance, feeds)) == [DAY, NEXT_DAY]

    dagster_instance.report_run_failed(last)

    assert busy_partitions(dagster_instance, feeds) == {}


def test_a_repetition_of_a_run_of_a_backfill_keeps_nothing_when_it_has_ended(dagster_instance, feeds):
    again = create_run_for_test(dagster_instance, tags=of_a_backfill("true", "another-run"))
    dagster_instance.report_run_failed(again)

    assert busy_partitions(dagster_instance, feeds) == {}


def test_a_backfill_whose_process_is_gone_keeps_no_day_and_its_run_is_reported_as_failed(
    dagster_instance, feeds, monkeypatch
):
    tags = {"dagster/partition": DAY, BACKFILL_TAG: f"{DAY}/{NEXT_DAY}", **first_tags(RUN)}
    started(dagster_instance, tags, DAILY)
    now = time.monotonic() + DEAD_AFTER_SECONDS + 5
    monkeypatch.setattr(liveness, "time", SimpleNamespace(monotonic=lambda: now))

    assert busy_partitions(dagster_instance, feeds) == {}
    assert fail_dead_runs(dagster_instance) == [RUN]
    run = dagster_instance.get_run_by_id(RUN)
    assert run is not None
    assert run.status == dg.DagsterRunStatus.FAILURE
    assert fail_dead_runs(dagster_instance) == []


def test_a_backfill_of_a_machine_whose_clock_differs_is_dead_only_after_its_sign_has_stood_still(
    dagster_instance, feeds, monkeypatch
):
    started(dagster_instance, {"dagster/partition": DAY, **of_another_machine(monkeypatch, ago=40)}, DAILY)
    now = time.monotonic()

    def looked_at(seconds):
        monkeypatch.setattr(liveness, "time", SimpleNamespace(time=time.time, monotonic=lambda: now + seconds))
        return sorted(busy_partitions(dagster_instance, feeds)), fail_dead_runs(dagster_instance)

    assert looked_at(0) == ([DAY], [])
    assert looked_at(DEAD_AFTER_SECONDS - 5) == ([DAY], [])
    dagster_instance.add_run_tags(RUN, of_another_machine(monkeypatch, ago=20))
    assert looked_at(DEAD_AFTER_SECONDS + 5) == ([DAY], [])
    assert looked_at(2 * DEAD_AFTER_SECONDS) == ([DAY], [])
    assert looked_at(2 * DEAD_AFTER_SECONDS + 10) == ([], [RUN])


def test_a_retry_of_such_a_run_is_its_own_day_and_not_dead_for_the_tags_it_inherits(dagster_instance, feeds):
    tags = {"dagster/partition": DAY, BACKFILL_TAG: f"{DAY}/{NEXT_DAY}", ALIVE_TAG: "another-run 17"}
    started(dagster_instance, tags, DAILY)

    assert sorted(busy_partitions(dagster_instance, feeds)) == [DAY]
    assert fail_dead_runs(dagster_instance) == []


def test_a_failed_run_waits_for_its_retry_also_if_the_clock_of_its_machine_is_behind(
    dagster_instance, feeds, monkeypatch
):
    with freeze_time(datetime.now(UTC) - timedelta(minutes=10)):
        run = started(dagster_instance, {"dagster/partition": DAY, WILL_RETRY: "true"}, DAILY)
        dagster_instance.report_run_failed(run)
    now, failed = time.monotonic(), dagster_instance.get_run_by_id(RUN)

    def waits(seconds):
        monkeypatch.setattr(liveness, "time", SimpleNamespace(monotonic=lambda: now + seconds))
        return sorted(busy_partitions(dagster_instance, feeds)), goes_on(dagster_instance, failed)

    assert waits(0) == waits(RETRY_WITHIN.total_seconds() - 5) == ([DAY], True)
    assert waits(RETRY_WITHIN.total_seconds() + 5) == ([], False)


@pytest.mark.parametrize("dagster_instance", ["sqlite"], indirect=True)  # of two threads, one waits for the other there
def test_the_sign_of_life_is_renewed_until_the_run_ends(dagster_instance, monkeypatch):
    monkeypatch.setattr("feed_assets.sensors.liveness.BEAT_SECONDS", 0.01)
    started(dagster_instance, {ALIVE_TAG: f"{RUN} 17"})

    with alive(dagster_instance, RUN):
        for _ in range(1000):
            run = dagster_instance.get_run_by_id(RUN)
            if run is not None and run.tags[ALIVE_TAG] != f"{RUN} 17":
                break
            time.sleep(0.01)

    assert int(run.tags[ALIVE_TAG].split()[2]) > time.monotonic() - 60
    assert fail_dead_runs(dagster_instance) == []


def test_a_sign_of_life_that_could_not_be_given_is_not_the_last(dagster_instance, monkeypatch):
    monkeypatch.setattr("feed_assets.sensors.liveness.BEAT_SECONDS", 0.01)
    started(dagster_instance, {ALIVE_TAG: f"{RUN} 17"})
    given = []

    class Locked:
        def add_run_tags(self, run_id, tags):
            given.append((run_id, tags))
            if len(given) == 1:
                message = "database is locked"
                raise OSError(message)

    with alive(Locked(), RUN):
        while len(given) < 2:
            time.sleep(0.01)


KILLED = """
import os, signal, sys
from pathlib import Path
import dagster as dg
from feed_assets.operations.day_runs import backfill, instance_at

@dg.asset(partitions_def=dg.DailyPartitionsDefinition("2019-11-24", end_date="2019-11-30"))
def slow(context):
    os.kill(os.getpid(), signal.SIGKILL)

with instance_at(Path(sys.argv[1]), {}) as instance:
    list(backfill(dg.Definitions([slow]), instance, ["2019-11-24", "2019-11-25"], run_config={}))
"""


def test_a_backfill_that_was_killed_leaves_a_run_that_is_given_up_by_its_sign_of_life(tmp_path, monkeypatch):
    done = subprocess.run([sys.executable, "-c", KILLED, str(tmp_path)], timeout=HANGS, check=False)
    assert done.returncode == -signal.SIGKILL

    with dg.DagsterInstance.from_config(str(tmp_path)) as instance:
        (run,) = instance.get_runs()
        assert run.status == dg.DagsterRunStatus.STARTED
        assert int(run.tags["dagster/max_runtime"]) > 24 * 60 * 60
        assert fail_dead_runs(instance) == []
        monkeypatch.setattr("feed_assets.sensors.liveness.DEAD_AFTER_SECONDS", -1)
        assert fail_dead_runs(instance) == [run.run_id]
