"""Runs with Spark in workers come to the same as runs without, whatever happened to the worker before."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from importlib import import_module
from pathlib import Path

import dagster as dg
import pytest

from feed_assets.engine.class_archive import archive_options
from feed_assets.engine.session import QUICKLY
from feed_assets.resources.settings import Settings
from feed_assets_tests.faults.killed_runs import IN_THE_AUDIT, MADE, Point, published_once
from feed_assets_tests.harness import (
    ADS,
    ALL,
    CLICKS,
    DAY,
    EFFECTIVENESS,
    NEXT_DAY,
    SHOP_ADS,
    SHOP_CLICKS,
    Installation,
    ads,
    click,
    settings_below,
    write_sources,
)
from feed_assets_tests.waiting import until
from feed_assets_tests.warm_runs.running import CANCELED, FAILURE, SUCCESS, Workers, is_running, running

pytestmark = pytest.mark.slow

PROJECT = "feed_assets_tests.warm_runs.spark_project"
FEEDS = {"clean_ads": ADS, "clean_clicks": CLICKS, "ad_effectiveness": EFFECTIVENESS}


@pytest.fixture(scope="module")
def workers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Workers]:
    folder = tmp_path_factory.mktemp("warm")
    settings = settings_below(folder / "base", write_sources(folder / "sources", SHOP_ADS, SHOP_CLICKS))
    environment = {
        "FEED_ASSETS_BASE": settings.base,
        "FEED_ASSETS_SOURCES": str(settings.sources_directory),
        "FEED_ASSETS_FIRST_DAY": str(settings.first_day),
        "FEED_ASSETS_AS_OF": settings.as_of.isoformat() if settings.as_of else "",
        "FEED_ASSETS_SPARK_MASTER": "local[2]",
        "SPARK_SUBMIT_OPTS": archive_options(),  # without what tests add: workers choose Java's compiler themselves
    }
    _small_day_lands(settings)
    with running(folder / "home", PROJECT, environment) as workers:
        yield workers


def _small_day_lands(settings: Settings) -> None:
    with dg.DagsterInstance.ephemeral() as instance:
        Installation(settings, instance).land(ads(3, day="2019-10-10"))


@pytest.fixture(scope="module")
def warm(workers: Workers) -> Installation:
    """The installation on which the workers work."""
    spark_project = import_module(PROJECT)  # reads the environment
    installation = Installation(replace(spark_project.settings, scan_seconds=0), workers.instance)
    return replace(installation, _definitions=spark_project.defs)


def test_an_update_is_the_same_as_without_workers(workers, warm, shop):
    for each in (warm, shop):
        each.land([*ads(50), *ads(2), *(row | {"cost": "?"} for row in ads(1, start=60))])
        each.land_clicks([click("k1", user="u7"), click("k1", user="u7"), click("k2", impression="i3")])
    run = workers.launch(*ALL, day=DAY)
    assert shop.run(*ALL).success
    assert run.status == SUCCESS, run.messages
    assert run.worker

    for name, location in FEEDS.items():
        there, here = (each.record(location) for each in (warm, shop))
        assert (there.state, there.update) == (here.state, here.update)
        # Raw files and runs have names of their own.
        facts = [replace(each.facts, run_id="", root_run_id="", inputs=(), details={}) for each in (there, here)]
        assert facts[0] == facts[1]
        assert warm.rows(location) == shop.rows(location)
        shown = [each.instance.get_latest_materialization_event(dg.AssetKey(name)) for each in (warm, shop)]
        reported = [dict(each.asset_materialization.metadata) for each in shown]
        assert reported[0].keys() == reported[1].keys()


def test_a_run_finds_nothing_that_an_earlier_run_left_in_spark(workers, tmp_path):
    found = []
    for number in range(2):
        file = tmp_path / str(number)
        run = workers.launch("kept", config={"ops": {"kept": {"config": {"finds": str(file)}}}})
        assert run.status == SUCCESS
        found.append(json.loads(file.read_text()))
    assert found[0] == found[1]
    assert (found[0]["views"], found[0]["cached"], found[0]["group"]) == ([], 0, None)


def test_workers_compile_quickly_where_days_are_small(workers, tmp_path):
    file = tmp_path / "found"
    assert workers.launch("kept", config={"ops": {"kept": {"config": {"finds": str(file)}}}}).status == SUCCESS
    java = json.loads(file.read_text())["java"]
    assert QUICKLY.split()[0] in Path(f"/proc/{java}/cmdline").read_text().split("\0")


def test_a_run_that_the_ui_terminates_ends_its_jobs_and_no_others(workers, tmp_path):
    def launch(name: str, **config: str):
        file = tmp_path / name
        run = workers.launch("endless", config={"ops": {"endless": {"config": {"finds": str(file), **config}}}})
        return run, file

    stopped, its = launch("stopped")
    other, others = launch("other", waits_for=str(tmp_path / "go"))
    java, another = (until(lambda file=file: file.exists() and json.loads(file.read_text())) for file in (its, others))
    stopped.terminate()
    assert stopped.status == CANCELED
    assert 'Execution of step "endless" failed.' in stopped.messages, "it ended by itself, and was not killed"
    until(lambda: not is_running(java["java"]))
    assert is_running(another["java"])
    (tmp_path / "go").touch()
    assert other.status == SUCCESS


@pytest.mark.parametrize(
    ("victim", "point", "day"),
    [
        ("Spark", Point("replace", f"{MADE}/.feed/records/"), DAY),
        ("the process", IN_THE_AUDIT, NEXT_DAY),
    ],
    ids=["Spark, between stage and publish", "the process, in the audit"],
)
def test_dagsters_retry_of_a_killed_run_ends_with_one_update_reported_once(workers, warm, victim, point, day):
    from feed_assets_tests.warm_runs.spark_project import plan_to_kill  # noqa: PLC0415 - reads the environment

    plan_to_kill(victim, point)
    run = workers.launch("made", "copied", day=day)
    assert run.status == FAILURE
    before = warm.tick("new_manifests")
    assert day not in before.asked
    again = workers.retry(run)
    assert again.status == SUCCESS, again.messages
    assert None not in {run.worker, again.worker}
    assert again.worker != run.worker
    published_once(warm, day)
