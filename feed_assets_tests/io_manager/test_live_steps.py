"""Steps while they run: how far they are, and what is left of those that fail or are killed."""

from __future__ import annotations

import json
import logging
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from threading import Barrier, Thread

import dagster as dg
import pytest
from click.testing import CliRunner

from feed_assets.cli.main import main
from feed_assets.io_manager.live_steps import live_steps
from feed_assets.run_history.live import SILENT_AFTER, LiveStep
from feed_assets.run_history.tables import live_steps as kept_steps
from feed_assets.run_history.tables import running_now
from feed_assets.run_history.watching import Watch
from feed_assets.sensors.alerts import alert_of
from feed_assets_tests.faults.killed_runs import MADE, WHEN_SEEN, run_in_a_process_that_is_killed
from feed_assets_tests.harness import DAY, messages
from feed_assets_tests.io_manager.halting_project import HALTED, MODULE, PARTS, ROWS, definitions
from feed_assets_tests.waiting import until

QUICK = timedelta(milliseconds=50)
FIGURES = {"stages done": 1, "stages": 2, "tasks": 1 + PARTS, "rows read": ROWS}


@pytest.fixture
def halting(shop, monkeypatch):
    """Makes an installation of the project, whose steps are looked at often."""
    for name, value in {
        "BASE": shop.base,
        "FIRST_DAY": "2019-11-20",
        "STATE": shop.settings.state,
        "SOURCES": shop.settings.sources_directory,
        "MODULE": MODULE,
    }.items():
        monkeypatch.setenv(f"FEED_ASSETS_{name}", str(value))

    def made(meanwhile=lambda _: None, *, bad=7, every=QUICK):
        there = definitions(shop.settings, meanwhile, bad, live_steps=live_steps(every))
        return replace(shop, cursors={}, _definitions=there)

    return made


def kept(installation):
    return kept_steps(installation.store, installation.board.uri(""))


def command(*arguments):
    result = CliRunner().invoke(main, arguments)
    assert result.exit_code == 0, (result.output, result.exception)
    return result.stdout


def test_a_step_that_fails_keeps_the_rows_bytes_and_tasks_of_its_last_moment_w24(halting):
    there = halting()
    assert there.run("numbers").success

    result = there.run("halted")

    (event,) = [each for each in result.all_events if each.is_step_failure]
    assert event.step_failure_data.error.cause.cls_name.startswith("SparkRuntimeException"), messages(result)
    shown = {name: each.value for name, each in event.step_failure_data.user_failure_data.metadata.items()}
    assert {name: shown[name] for name in FIGURES} == FIGURES
    assert 1 <= shown["tasks done"] < 1 + PARTS
    assert shown["bytes read"] > 0
    (step,) = kept(there)
    assert (step.run, step.step, step.feeds, step.first, step.last) == (result.run_id, "halted", (HALTED,), DAY, DAY)
    assert step.state(datetime.now(UTC)) == "failed"
    assert f"after {step.figures}" == shown["progress"]
    assert f"stage 2 of 2, {shown['tasks done']} of 6 tasks, 1,000 rows and " in step.figures
    explained = " ".join(command("explain", DAY).split())
    assert f"run {result.run_id}: halted {DAY} failed after {step.figures}." in explained
    assert [[each["state"] for each in story["steps"]] for story in json.loads(command("explain", DAY, "--json"))] == [
        [],
        ["failed"],
    ]
    assert "is not true" in event.step_failure_data.user_failure_data.description
    told = alert_of(there.instance, there.instance.get_run_by_id(result.run_id), "").reasons
    assert told[-1] == f"halted failed after {step.figures}"


def has_read(step):
    return step.progress is not None and step.progress.rows_read == ROWS


def test_a_step_is_shown_while_it_runs_and_leaves_nothing_when_it_succeeds(halting):
    seen = []

    def meanwhile(rows):
        rows.count()
        until(lambda: any(map(has_read, running_now(there.store, there.board.uri(""), datetime.now(UTC)))))
        seen.extend(json.loads(command("running", "--json")))
        seen.append(command("running"))

    there = halting(meanwhile, bad=-1)
    assert there.run("numbers").success
    result = there.run("halted")

    assert result.success, messages(result)
    step, shown = seen
    assert (step["run"], step["feeds"], step["state"], step["first"]) == (result.run_id, [HALTED], "running", DAY)
    assert step["progress"]["rows_read"] == ROWS
    assert shown.startswith(f"{result.run_id[:8]}  halted {DAY} has run for ")
    assert kept(there) == []
    assert command("running") == ""
    logged = [each.user_message for each in there.instance.all_logs(result.run_id) if each.user_message]
    assert any(each.startswith(f"halted {DAY} has run for ") and ": stage " in each for each in logged)


def test_a_function_of_a_user_that_fails_has_its_figures_in_an_event_of_the_step(halting):
    def meanwhile(rows):
        rows.count()
        until(lambda: any(map(has_read, kept(there))))
        raise ValueError("no")

    there = halting(meanwhile)
    assert there.run("numbers").success
    result = there.run("halted")

    assert not result.success
    (step,) = kept(there)
    events = there.instance.all_logs(result.run_id, of_type=dg.DagsterEventType.ENGINE_EVENT)
    shown = [each.dagster_event.engine_event_data.metadata for each in events if each.step_key == "halted"]
    assert [each["progress"].value for each in shown] == [f"after {step.figures}"]
    assert step.progress.rows_read == ROWS


def test_a_quick_step_costs_no_job_and_no_write(halting, spark):
    def jobs():
        return len(spark.sparkContext.statusTracker().getJobIdsForGroup(None))

    before, quick = jobs(), halting(every=timedelta(seconds=60))
    assert quick.run("numbers").success
    assert not quick.run("halted").success
    of_quick = jobs() - before
    assert not quick.store.exists()

    slow = halting()
    assert slow.run("numbers").success
    assert not slow.run("halted").success
    assert jobs() - before == 2 * of_quick
    assert slow.store.exists()


def test_a_killed_process_keeps_the_figures_of_its_last_moment(desk, spark):
    with dg.instance_for_test() as instance:
        run = run_in_a_process_that_is_killed(desk.settings, instance, spark, DAY, WHEN_SEEN)

    step = kept(desk)[-1]
    assert (step.run, step.step, step.feeds) == (run.run_id, "made_audit", (MADE,))
    assert step.progress.tasks_done == step.progress.tasks > 0
    later = datetime.now(UTC) + SILENT_AFTER
    assert not step.runs(later)
    assert step.progress.sentence in step.sentence(later)
    assert "was probably killed" in step.sentence(later)


def watch(store, run):
    now = datetime.now(UTC)
    known = LiveStep(run, "made", (MADE,), DAY, DAY, 1, "here", now, now, now)
    return Watch(known, lambda: store, "file:///", logging.getLogger("feed_assets_tests"), every=QUICK)


def test_runs_in_one_spark_see_only_their_own_figures_side_by_side_and_in_turn(desk, spark):
    together, found, at_once = Barrier(2), {}, []

    def work(rows, meet):
        watched = watch(desk.store, f"run {rows}")
        watched.begin()
        session = watched.session(spark)
        meet()
        session.range(rows, numPartitions=4).selectExpr("sum(id)").collect()
        until(lambda: any(each.run == f"run {rows}" for each in kept_steps(desk.store, "file:///")))
        meet()
        at_once.append(len(running_now(desk.store, "file:///", datetime.now(UTC))))
        meet()
        found[rows] = watched.end(succeeded=False)

    threads = [Thread(target=work, args=(rows, together.wait)) for rows in (100, 2000)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    work(30_000, lambda: None)
    work(400_000, lambda: None)

    assert {rows: each.progress.rows_read for rows, each in found.items()} == {rows: rows for rows in found}
    assert len(found) == 4
    assert at_once[:2] == [2, 2]
