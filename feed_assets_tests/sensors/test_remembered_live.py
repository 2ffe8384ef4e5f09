"""A tick during its run under Dagster's own daemon: it is remembered, and starts once, after that run."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import dagster as dg
import pytest

from feed_assets.blackboard.local import LocalBlackboard
from feed_assets.feed_events.scheduled import UNFINISHED
from feed_assets.run_history.tables import remembered
from feed_assets.state.store import Store
from feed_assets_tests import ROOT
from feed_assets_tests.waiting import HANGS, until

pytestmark = pytest.mark.slow


def test_a_tick_during_its_run_starts_once_after_that_run(tmp_path):
    home, base = tmp_path / "home", tmp_path / "base"
    home.mkdir()
    base.mkdir()
    (home / "dagster.yaml").write_text("telemetry: {enabled: false}\n")
    environment = {**os.environ, "DAGSTER_HOME": str(home), "FEED_ASSETS_BASE": str(base)}
    command = [sys.executable, "-m", "dagster._daemon", "run", "-m", "feed_assets_tests.sensors.minutely_project"]
    store, uri = Store(f"sqlite:///{base}/state.db"), LocalBlackboard(base).uri("")
    with (tmp_path / "log").open("wb") as log, dg.DagsterInstance.from_config(str(home)) as instance:
        daemon = subprocess.Popen(
            command, env=environment, stdout=log, stderr=subprocess.STDOUT, start_new_session=True, cwd=ROOT
        )
        try:
            until(lambda: remembered(store, uri))
            (first,) = instance.get_runs()
            assert first.status is dg.DagsterRunStatus.STARTED
            wanted = remembered(store, uri)[0].partition

            (base / "go").touch()
            until(lambda: wanted not in {each.partition for each in remembered(store, uri)})
            until(lambda: not instance.get_runs(dg.RunsFilter(statuses=UNFINISHED)))
        finally:
            os.killpg(daemon.pid, signal.SIGINT)
            daemon.wait(HANGS)

        runs = {each.dagster_run.tags["dagster/partition"]: each for each in ended(instance)}
        assert len(runs) == len(ended(instance))
        late = runs[wanted]
        assert late.start_time >= runs[first.tags["dagster/partition"]].end_time
        assert late.dagster_run.tags["dagster/sensor_name"] == "remembered_ticks"


def ended(instance):
    """The runs that succeeded."""
    return instance.get_run_records(dg.RunsFilter(statuses=[dg.DagsterRunStatus.SUCCESS]))
