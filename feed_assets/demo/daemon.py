"""One turn of Dagster's own sensor daemon in this process, its runs executed here as well.

Here: what lets the demo show real ticks and runs within seconds. Not here: how Dagster runs otherwise: `make dev`
starts its daemon as everyone does. Ticks, cursors, logs and runs land on the instance exactly as it leaves them,
because its own code runs; Dagster has no public name for that, hence the private imports of this module.
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
"""The module, and the name under which `workspace.yaml` loads it: ticks are shown with the sensors of that location."""

IN_THIS_PROCESS = {
    "run_launcher": {
        "module": "dagster._core.launcher.sync_in_memory_run_launcher",
        "class": "SyncInMemoryRunLauncher",
    },
    "run_coordinator": {
        "module": "dagster._core.run_coordinator.sync_in_memory_run_coordinator",
        "class": "SyncInMemoryRunCoordinator",
    },
}
"""Settings of an instance whose launched runs are executed here, one after the other."""


def tick_sensors(instance: dg.DagsterInstance) -> list[dg.DagsterRun]:
    """Evaluate every sensor that is due, and execute the runs they request; those runs, oldest first."""
    newest = instance.get_run_records(limit=1)
    since = dg.RunsFilter(created_after=newest[0].create_timestamp) if newest else None
    origin = InProcessCodeLocationOrigin(
        loadable_target_origin=LoadableTargetOrigin(
            executable_path=sys.executable, module_name=MODULE, working_directory=str(Path.cwd())
        ),
        location_name=MODULE,
    )
    # What sensors log is on the instance, where the UI shows it; the terminal is the story's.
    with (
        redirect_stderr(StringIO()),
        WorkspaceProcessContext(instance, InProcessWorkspaceLoadTarget(origin)) as workspace,
    ):
        for error in execute_sensor_iteration(workspace, logging.getLogger("feed_assets.demo"), None, None):
            if error is not None:
                raise dg.DagsterInvariantViolationError(f"A sensor could not be evaluated: {error}")
    return list(reversed(instance.get_runs(since)))
