"""Runs in processes beside each other: one Spark, each result told, and nothing left behind."""

from __future__ import annotations

import multiprocessing
import os
import signal
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from threading import Thread
from typing import Any

import dagster as dg
import pytest
from pyspark.sql import SparkSession

from feed_assets.feed_events.triggers import BACKFILL_ID_TAG, BACKFILL_TAG, GOES_ON_TAG
from feed_assets.operations.day_runs import PartitionResult, backfill
from feed_assets.operations.side_by_side import EndedError, Processes
from feed_assets.resources.spark import SparkResource
from feed_assets.sensors.busy import WILL_RETRY
from feed_assets_tests.waiting import until

DAYS = [f"2019-11-{day}" for day in range(24, 29)]

Behaviour = Callable[[Path, str], None]


def definitions(folder: Path, behaviour: Behaviour) -> dg.Definitions:
    """Two daily assets in a row. The first one behaves so; both leave the number of their process in the folder."""
    daily = dg.DailyPartitionsDefinition("2019-11-24", end_date="2019-11-30")

    @dg.asset(partitions_def=daily)
    def first(context):
        (folder / f"first {context.partition_key}").write_text(str(os.getpid()))
        behaviour(folder, context.partition_key)
        print("from an asset")

    @dg.asset(partitions_def=daily, deps=[first])
    def second(context):
        names = "\n".join(path.name for path in folder.glob("first*"))
        (folder / f"second {context.partition_key}").write_text(names)

    return dg.Definitions([first, second])


def begun(folder: Path) -> int:
    return len(list(folder.glob("first*")))


def meet(folder: Path, _day: str) -> None:
    """Go on when another day is under way, too."""
    until(lambda: begun(folder) > 1)


def be_killed(_folder: Path, day: str) -> None:
    if day == DAYS[1]:
        os.kill(os.getpid(), signal.SIGKILL)


def fail(_folder: Path, day: str) -> None:
    if day == DAYS[1]:
        raise ValueError(day)


def sleep(folder: Path, day: str) -> None:
    (folder / f"asleep {day}").touch()
    time.sleep(600)


class Sleeper:
    """Sleeps when it is let go: Python drops the errors of such a callback."""

    def __init__(self, folder: Path, day: str) -> None:
        self._where = folder, day

    def __del__(self) -> None:
        sleep(*self._where)


def sleep_in_a_callback(folder: Path, day: str) -> None:
    Sleeper(folder, day)
    time.sleep(600)


def ask_spark(folder: Path, day: str) -> None:
    session = SparkSession.builder.getOrCreate()
    session.conf.set("spark.sql.shuffle.partitions", day[-2:])
    rows = session.createDataFrame([(1,), (2,)], "number int").count()
    meet(folder, day)
    values = session.sparkContext.applicationId, session.conf.get("spark.sql.shuffle.partitions"), rows
    (folder / f"spark {day}").write_text(" ".join(map(str, values)))


def unloadable() -> dg.Definitions:
    raise SystemExit(3)


@pytest.fixture
def instance() -> Iterator[dg.DagsterInstance]:
    with dg.instance_for_test(overrides={"run_retries": {"enabled": True, "max_retries": 1}}) as instance:
        yield instance
    assert multiprocessing.active_children() == []


def run(
    folder: Path, behaviour: Behaviour, instance: dg.DagsterInstance, *, spark: Any = None
) -> list[PartitionResult]:
    load = partial(definitions, folder, behaviour)
    with Processes.started(2, spark, load, instance, {}) as processes:
        return list(backfill(load(), instance, DAYS, run_config={}, execute=processes.execute))


def test_two_runs_are_under_way_at_once_and_a_stage_begins_after_the_one_before(tmp_path: Path, instance, capfd):
    results = run(tmp_path, meet, instance)

    assert sorted((each.assets, each.day) for each in results) == [
        ((name,), day) for name in ("first", "second") for day in DAYS
    ]
    assert all(each.success for each in results)
    processes = {path.read_text() for path in tmp_path.glob("first*")}
    assert len(processes) == 2
    assert str(os.getpid()) not in processes
    for day in DAYS:
        assert (tmp_path / f"second {day}").read_text().count("first") == len(DAYS)
    runs = {each.run_id: each for each in instance.get_runs()}
    assert {each.run_id: each.partition for each in results} == {
        run_id: each.tags["dagster/partition"] for run_id, each in runs.items()
    }
    assert {each.tags[BACKFILL_TAG] for each in runs.values()} == {f"{DAYS[0]}/{DAYS[-1]}"}
    assert len({each.tags[BACKFILL_ID_TAG] for each in runs.values()}) == 1
    (last,) = [each for each in runs.values() if each.tags[GOES_ON_TAG] == "false"]
    assert (last.asset_selection, last.tags["dagster/partition"]) == ({dg.AssetKey("second")}, DAYS[-1])
    assert {each.status for each in runs.values()} == {dg.DagsterRunStatus.SUCCESS}
    assert "from an asset" not in capfd.readouterr().out


def test_a_failed_day_holds_back_only_what_depends_on_it(tmp_path: Path, instance):
    results = run(tmp_path, fail, instance)

    assert [(each.assets, each.day) for each in results if each.skipped] == [(("second",), DAYS[1])]
    (failed,) = [each for each in results if not each.success and not each.skipped]
    assert (failed.assets, failed.day) == (("first",), DAYS[1])
    assert "ValueError" in failed.failures[0]
    assert len(results) == 2 * len(DAYS)


def test_the_run_of_a_killed_process_has_failed_and_another_process_goes_on(tmp_path: Path, instance):
    results = run(tmp_path, be_killed, instance)

    (killed,) = [each for each in results if not each.success and not each.skipped]
    assert killed.day == DAYS[1]
    assert "exit code -9" in killed.failures[0]
    assert instance.get_run_by_id(killed.run_id).status == dg.DagsterRunStatus.FAILURE
    assert {each.day for each in results if each.success and each.assets == ("second",)} == {*DAYS} - {DAYS[1]}


def test_a_process_that_cannot_begin_ends_the_backfill_with_its_exit_code(tmp_path: Path, instance):
    whole = definitions(tmp_path, meet)
    with (
        pytest.raises(EndedError, match=r"exit code 3 before it began the run of 2019-11-2[45]"),
        Processes.started(2, None, unloadable, instance, {}) as processes,
    ):
        list(backfill(whole, instance, DAYS, run_config={}, execute=processes.execute))


@pytest.mark.parametrize("behaviour", [sleep, sleep_in_a_callback])
def test_ctrl_c_ends_all_runs_and_processes_and_none_is_tried_again(tmp_path: Path, instance, behaviour: Behaviour):
    def interrupt() -> None:
        until(lambda: len(list(tmp_path.glob("asleep*"))) == 2)
        os.kill(os.getpid(), signal.SIGINT)

    Thread(target=interrupt).start()
    with pytest.raises(KeyboardInterrupt):
        run(tmp_path, behaviour, instance)

    runs = instance.get_runs()
    assert [each.status for each in runs] == [dg.DagsterRunStatus.FAILURE] * 2
    assert instance.get_runs(dg.RunsFilter(tags={WILL_RETRY: "true"})) == []
    assert begun(tmp_path) == 2


def test_all_processes_use_one_spark_and_each_has_settings_of_its_own(tmp_path: Path, instance, spark):
    results = run(tmp_path, ask_spark, instance, spark=SparkResource.on("local[2]"))

    assert all(each.success for each in results), results
    written = {path.name.split()[1]: path.read_text() for path in tmp_path.glob("spark*")}
    assert written == {day: f"{spark.sparkContext.applicationId} {day[-2:]} 2" for day in DAYS}
