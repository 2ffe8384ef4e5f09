"""Many days in one process; what a command line shows of it is tested there."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from datetime import date
from pathlib import Path

import dagster as dg
import pytest

from feed_assets.blackboard.port import UnavailableError
from feed_assets.feed_events.failures import root_cause
from feed_assets.operations.day_runs import SelectionError, backfill, count_partitions, known_days, stages
from feed_assets.operations.failed_runs import failed_runs
from feed_assets.sensors.busy import WILL_RETRY
from feed_assets_tests.waiting import HANGS

DAYS = ["2019-11-24", "2019-11-25", "2019-11-26"]


def test_ctrl_c_ends_the_backfill_and_not_only_its_run_which_is_not_tried_again():
    begun = []

    @dg.asset(partitions_def=dg.DailyPartitionsDefinition("2019-11-24", end_date="2019-11-30"))
    def slow(context):
        begun.append(context.partition_key)
        if context.partition_key == DAYS[1]:
            os.kill(os.getpid(), signal.SIGINT)
            time.sleep(60)

    with dg.instance_for_test(overrides={"run_retries": {"enabled": True, "max_retries": 1}}) as instance:
        with pytest.raises(KeyboardInterrupt):
            list(backfill(dg.Definitions([slow]), instance, DAYS, run_config={}))
        to_be_retried = instance.get_runs(dg.RunsFilter(tags={WILL_RETRY: "true"}))
        runs = {run.tags["dagster/partition"]: run.status for run in instance.get_runs()}
        (stopped,) = failed_runs(instance, DAYS[1])

    assert to_be_retried == []
    assert stopped.reasons == ("the run was stopped before its end, as by Ctrl-C",)
    assert begun == DAYS[:2]
    assert runs == {DAYS[0]: dg.DagsterRunStatus.SUCCESS, DAYS[1]: dg.DagsterRunStatus.FAILURE}


def test_each_run_names_the_assets_and_the_partition_that_it_makes_and_leaves_stdout_to_the_results(capsys):
    days = dg.DailyPartitionsDefinition("2019-11-24", end_date="2019-11-30")

    @dg.asset(partitions_def=days)
    def first():
        print("from an asset")

    @dg.asset(partitions_def=days, deps=[first])
    def second(): ...

    with dg.DagsterInstance.ephemeral() as instance:
        results = list(backfill(dg.Definitions([first, second]), instance, DAYS[:1], run_config={}))
        runs = {run.run_id: run for run in instance.get_runs()}

    assert [(result.assets, result.success) for result in results] == [(("first",), True), (("second",), True)]
    for result in results:
        run = runs[result.run_id]
        assert {key.to_user_string() for key in run.asset_selection} == set(result.assets)
        assert run.tags["dagster/partition"] == result.partition == DAYS[0]
    printed = capsys.readouterr()
    assert printed.out == ""
    assert "from an asset" in printed.err


def test_a_failed_asset_holds_back_only_the_assets_that_depend_on_it():
    days = dg.DailyPartitionsDefinition("2019-11-24", end_date="2019-11-30")
    hours = dg.HourlyPartitionsDefinition("2019-11-24-00:00", end_date="2019-11-24-01:00")

    @dg.asset(partitions_def=days)
    def clean(): ...

    @dg.asset(partitions_def=hours)
    def hourly():
        raise ValueError

    @dg.asset(partitions_def=days, deps=[clean])
    def kept(): ...

    @dg.asset(partitions_def=days, deps=[hourly, clean])
    def spoiled(): ...

    @dg.asset(partitions_def=days, deps=[spoiled])
    def last(): ...

    with dg.DagsterInstance.ephemeral() as instance:
        definitions = dg.Definitions([clean, hourly, kept, spoiled, last])
        results = list(backfill(definitions, instance, DAYS[:1], run_config={}))

    assert sum(len(result.assets) for result in results) == count_partitions(definitions, stages(definitions), DAYS[:1])
    assert [result.assets for result in results if result.success] == [("clean",), ("kept",)]
    assert [result.assets for result in results if result.skipped] == [("spoiled",), ("last",)]


def test_a_failed_asset_holds_back_no_asset_of_the_other_assets_of_its_run():
    days = dg.DailyPartitionsDefinition("2019-11-24", end_date="2019-11-30")

    @dg.asset(partitions_def=days)
    def good(): ...

    @dg.asset(partitions_def=days)
    def broken():
        raise ValueError

    @dg.asset(partitions_def=days)
    def rejected(): ...

    @dg.asset_check(asset=rejected, blocking=True)
    def audit():
        return dg.AssetCheckResult(passed=False)

    @dg.asset(partitions_def=days, deps=[good])
    def kept(): ...

    @dg.asset(partitions_def=days, deps=[good, broken])
    def spoiled(): ...

    @dg.asset(partitions_def=days, deps=[rejected])
    def unfounded(): ...

    with dg.DagsterInstance.ephemeral() as instance:
        assets = [good, broken, rejected, kept, spoiled, unfounded]
        definitions = dg.Definitions(assets=assets, asset_checks=[audit])
        results = list(backfill(definitions, instance, DAYS[:1], run_config={}))

    assert [result.failed for result in results] == [("broken", "rejected"), ("spoiled", "unfounded"), ()]
    assert [result.assets for result in results if result.success] == [("kept",)]


def chain(fails: dict[str, str]) -> dg.Definitions:
    """Two daily assets in a row, one of two hours, and one of names; a day in `fails` ends with that message."""
    daily = dg.DailyPartitionsDefinition("2019-11-24", end_date="2019-11-30")

    @dg.asset(partitions_def=daily)
    def first(context) -> None:
        if message := fails.get(context.partition_key):
            raise ValueError(message)

    @dg.asset(partitions_def=daily, deps=[first])
    def second() -> None: ...

    @dg.asset(partitions_def=dg.HourlyPartitionsDefinition("2019-11-24-00:00", end_date="2019-11-24-02:00"))
    def hourly() -> None: ...

    @dg.asset(partitions_def=dg.StaticPartitionsDefinition(["a"]))
    def named() -> None: ...

    return dg.Definitions([first, second, hourly, named])


def test_only_selected_assets_are_made_and_each_run_is_announced():
    announced = []
    with dg.DagsterInstance.ephemeral() as instance:
        results = list(
            backfill(
                chain({}),
                instance,
                DAYS[:2],
                run_config={},
                selection="first",
                starting=lambda day, assets: announced.append((day, *assets)),
            )
        )

    assert [(each.partition, each.assets) for each in results] == [(day, ("first",)) for day in DAYS[:2]]
    assert announced == [(day, "first") for day in DAYS[:2]]


def test_hours_are_made_on_their_day_and_named_partitions_are_not_made():
    with dg.DagsterInstance.ephemeral() as instance:
        results = list(backfill(chain({}), instance, DAYS[:2], run_config={}))

    hours = [f"{DAYS[0]}-{hour:02}:00" for hour in range(2)]
    assert [each.partition for each in results if each.assets == ("hourly",)] == hours
    assert {each.day for each in results if each.assets == ("hourly",)} == {DAYS[0]}
    assert [each.partition for each in results if each.assets == ("second",)] == DAYS[:2]
    assert all(each.success for each in results)
    assert known_days(chain({})) == (date(2019, 11, 24), date(2019, 11, 29))


def test_a_day_has_its_partitions_of_every_name_and_names_that_only_dagster_knows_are_not_made():
    days = dg.DailyPartitionsDefinition("2019-11-24", end_date="2019-11-30")
    areas = dg.MultiPartitionsDefinition({"day": days, "area": dg.StaticPartitionsDefinition(["us & ca", "eu"])})
    campaigns = dg.MultiPartitionsDefinition({"day": days, "campaign": dg.DynamicPartitionsDefinition(name="c")})

    @dg.asset(partitions_def=areas)
    def by_area(context) -> str:
        return context.partition_key.keys_by_dimension["area"]

    @dg.asset(partitions_def=campaigns)
    def by_campaign() -> None: ...

    definitions = dg.Definitions([by_area, by_campaign])
    with dg.DagsterInstance.ephemeral() as instance:
        instance.add_dynamic_partitions("c", ["summer"])
        results = list(backfill(definitions, instance, DAYS[:2], run_config={}))

    made = {(each.day, each.partition) for each in results if each.success}
    assert made == {(day, f"{area}|{day}") for day in DAYS[:2] for area in ("eu", "us & ca")}
    assert len(results) == count_partitions(definitions, stages(definitions), DAYS[:2]) == len(made)
    assert known_days(definitions) == (date(2019, 11, 24), date(2019, 11, 29))


@pytest.mark.parametrize("zone", ["Europe/Berlin", "America/Los_Angeles", "Pacific/Kiritimati"])
def test_a_day_is_one_of_the_time_zone_of_the_partitions(zone):
    days = dg.DailyPartitionsDefinition("2024-03-30", end_date="2024-04-02", timezone=zone)

    @dg.asset(partitions_def=days)
    def local() -> None: ...

    definitions = dg.Definitions([local])
    wanted = ["2024-03-30", "2024-03-31", "2024-04-01"]  # Berlin's summer time begins on the second
    with dg.DagsterInstance.ephemeral() as instance:
        results = list(backfill(definitions, instance, wanted, run_config={}))

    assert [each.partition for each in results] == [each.day for each in results] == wanted
    assert known_days(definitions) == (date(2024, 3, 30), date(2024, 4, 1))


def test_a_selection_takes_the_syntax_of_the_ui_and_says_what_is_wrong_with_it():
    definitions = chain({})

    def names(selection: str) -> list[list[str]]:
        return [[key.to_user_string() for key in level] for level in stages(definitions, selection)]

    assert names("+second") == [["first"], ["second"]]
    assert names("key:sec*") == [["second"]]
    assert names("second, first") == [["first"], ["second"]]
    assert names("first,hourly,named") == [["first"], ["hourly"]]
    for selection, part in (
        ("third", "no valid selection of assets"),
        ("named", "no asset that can be backfilled"),
        ("((", "no valid selection"),
    ):
        with pytest.raises(SelectionError, match=part):
            stages(definitions, selection)


def test_a_failed_run_is_told_until_a_later_one_has_made_it_good():
    fails = {DAYS[0]: "no such thing"}
    with dg.DagsterInstance.ephemeral() as instance:
        list(backfill(chain(fails), instance, DAYS[:2], run_config={}, selection="+second"))
        (failed,) = failed_runs(instance, DAYS[0])
        assert failed.assets == ("first",)
        assert "no such thing" in failed.reasons[0]
        assert failed_runs(instance, DAYS[1]) == []

        fails.clear()
        list(backfill(chain(fails), instance, DAYS[:1], run_config={}, selection="first"))
        assert failed_runs(instance, DAYS[0]) == []


def test_of_an_error_that_says_what_to_do_the_cause_is_not_told():
    @dg.asset(partitions_def=dg.DailyPartitionsDefinition(DAYS[0], end_date="2019-11-30"))
    def refused():
        raise UnavailableError("Could not create x. Allow it.", transient=False) from OSError("AccessDenied")

    with dg.DagsterInstance.ephemeral() as instance:
        list(backfill(dg.Definitions([refused]), instance, DAYS[:1], run_config={}))
        (failed,) = failed_runs(instance, DAYS[0])

    assert failed.reasons == ("Could not create x. Allow it.",)


def test_of_an_error_of_javas_the_last_cause_is_told():
    message = (
        "Py4JJavaError: An error occurred while calling o1.save.\n: org.x.E: m\n\tat a.b\nCaused by: x.Y: disk\n\tat"
    )

    assert root_cause(message) == "x.Y: disk"
    assert root_cause("ValueError: one\ntwo") == "ValueError: one"
    assert root_cause("") == "no reason known"


def test_of_a_file_that_spark_cannot_read_the_name_is_told_too():
    message = (
        "Py4JJavaError: An error occurred while calling o1.save.\n: org.x.E: [FAILED_READ_FILE.NO_HINT] Encountered "
        "error while reading file file:///data/a%20b.parquet.  SQLSTATE: KD001\n\tat a.b\nCaused by: x.Y: Index 0\n\tat"
    )

    assert root_cause(message) == "file:///data/a%20b.parquet: x.Y: Index 0"


OPENS = """
import sys, time
from pathlib import Path
from feed_assets.operations.day_runs import instance_at
time.sleep(max(0, float(sys.argv[2]) - time.time()))
with instance_at(Path(sys.argv[1]), {}) as instance:
    print(len(instance.get_runs()))
"""


def test_commands_that_begin_at_once_in_a_new_dagster_home_all_find_it_in_order(tmp_path: Path):
    together = str(time.time() + 6)  # when all have loaded Dagster
    commands = [
        subprocess.Popen([sys.executable, "-c", OPENS, tmp_path, together], stdout=subprocess.PIPE, text=True)
        for _ in range(4)
    ]
    assert [(command.communicate(timeout=HANGS)[0], command.returncode) for command in commands] == [("0\n", 0)] * 4
