"""Workers whose Spark computes on a standalone cluster, where an application takes all cores that are free."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from feed_assets_tests.harness import DAY, write_sources
from feed_assets_tests.servers.spark_cluster import SparkCluster
from feed_assets_tests.waiting import until
from feed_assets_tests.warm_runs.running import SUCCESS, Run, Workers, running

pytestmark = pytest.mark.slow

PROJECT = "feed_assets_tests.warm_runs.spark_project"
NEVER = "100000"
"""Seconds until an idle worker gives its application back by itself."""


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkCluster]:
    cluster = SparkCluster(tmp_path_factory.mktemp("cluster") / "workers")
    cluster.start()
    yield cluster
    cluster.stop()


@pytest.fixture
def workers(tmp_path: Path, cluster: SparkCluster) -> Iterator[Workers]:
    environment = {
        "FEED_ASSETS_BASE": str(tmp_path / "base"),
        "FEED_ASSETS_SOURCES": str(write_sources(tmp_path / "sources")),
        "FEED_ASSETS_FIRST_DAY": DAY,
        "FEED_ASSETS_AS_OF": "2019-12-01",
        "FEED_ASSETS_SPARK_LOG_LEVEL": "off",  # as for commands
        **cluster.environment,
    }
    with running(tmp_path / "home", PROJECT, environment, ["--idle", NEVER]) as workers:
        yield workers


def launched(workers: Workers, asset: str, finds: Path, **config: str) -> Run:
    return workers.launch(asset, config={"ops": {asset: {"config": {"finds": str(finds), **config}}}})


def test_of_two_runs_at_once_the_second_waits_audibly_and_gets_the_cores_as_soon_as_the_first_has_ended(
    workers, tmp_path
):
    first = launched(workers, "endless", tmp_path / "first", waits_for=str(tmp_path / "go"))
    until((tmp_path / "first").exists)
    second = launched(workers, "kept", tmp_path / "second")
    log = workers.home / "workers.log"
    until(lambda: "Initial job has not accepted any resources" in log.read_text())
    assert "main ERROR" not in log.read_text()  # of log4j about its configuration
    (tmp_path / "go").touch()
    assert (first.status, second.status) == (SUCCESS, SUCCESS)
    # The worker of the first is still there, and starts another application.
    again = [launched(workers, "kept", tmp_path / name) for name in ("third", "fourth")]
    assert [run.status for run in again] == [SUCCESS, SUCCESS]
    assert {run.worker for run in again} == {first.worker, second.worker}


def test_a_master_that_was_started_again_gives_the_next_run_an_application_that_it_knows(workers, cluster, tmp_path):
    assert launched(workers, "kept", tmp_path / "first").status == SUCCESS
    until(cluster.executors)
    cluster.restart_master()
    until(lambda: not cluster.executors())  # the new master does not know their application
    until(cluster.executors)  # of the worker that takes the place of the first

    assert launched(workers, "kept", tmp_path / "second").status == SUCCESS
