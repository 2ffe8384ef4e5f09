"""Run one turn of Dagster's sensor daemon, and the runs it requests, in this process.

Here: real ticks and runs for the demo, within seconds. Not here: the usual daemon, which `make dev` starts. Dagster's
own code writes ticks, cursors, logs and runs to the instance. It has no public name, hence the private imports.
"""

from __future__ import annotations

import logging
import sys
from contextlib import redirect_stderr
from io import StringIO
from pathlib import Path

import dagster as dg
from dagster._core.remote_origin import InProcessCodeLocationOrigin
from dagster._core.types.loadable_target_origin import LoadableTargetOrigin
from dagster._core.workspace.context import WorkspaceProcessContext
from dagster._core.workspace.load_target import InProcessWorkspaceLoadTarget
from dagster._daemon.sensor import execute_sensor_iteration

MODULE = "feed_assets.definitions"
"""The module, and its name in `workspace.yaml`, so that the UI shows the ticks with its sensors."""

IN_THIS_PROCESS = {
    "run_launcher": {
        "module": "dagster._core.launcher.sync_in_memory_run_launcher",
        "class": "SyncInMemoryRunLauncher",
    },
    "run_coordinator": {
        "module": "dagster._core.run_coordinator.sync_in_memory_run_coordinator",
        "class": "SyncInMemoryRunCoordinator",
    },
    # No daemon is there to repeat a run. The sensors of the next demo would wait for the repetition.
    "run_retries": {"enabled": False},
}
"""Settings of an instance that executes launched runs in this process, one after the other."""


def tick_sensors(instance: dg.DagsterInstance) -> list[dg.DagsterRun]:
    """Evaluate every sensor that is due and execute the requested runs. Returns these runs, oldest first."""
    newest = instance.get_run_records(limit=1)
    since = dg.RunsFilter(created_after=newest[0].create_timestamp) if newest else None
    origin = InProcessCodeLocationOrigin(
        loadable_target_origin=LoadableTargetOrigin(
            executable_path=sys.executable, module_name=MODULE, working_directory=str(Path.cwd())
        ),
        location_name=MODULE,
    )
    # The UI shows the sensors' logs; the terminal shows the story only.
    with (
        redirect_stderr(StringIO()),
        WorkspaceProcessContext(instance, InProcessWorkspaceLoadTarget(origin)) as workspace,
    ):
        for error in execute_sensor_iteration(workspace, logging.getLogger("feed_assets.ads.demo"), None, None):
            if error is not None:
                raise dg.DagsterInvariantViolationError(f"A sensor failed: {error}")
    # Two processes of an earlier backfill begin runs at once: the newest run may not have the latest time of all.
    return [run for run in reversed(instance.get_runs(since)) if "dagster/sensor_name" in run.tags]
