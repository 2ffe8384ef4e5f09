"""Dagster's own sensor daemon on an instance on disk, ticked by a test in its own process. Not here: any test."""

from __future__ import annotations

import logging
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import dagster as dg
from dagster._core.instance.ref import InstanceRef
from dagster._core.remote_origin import InProcessCodeLocationOrigin
from dagster._core.types.loadable_target_origin import LoadableTargetOrigin
from dagster._core.workspace.context import WorkspaceProcessContext
from dagster._core.workspace.load_target import InProcessWorkspaceLoadTarget
from dagster._daemon.sensor import execute_sensor_iteration

from feed_assets.ads.demo.daemon import IN_THIS_PROCESS
from feed_assets.resources.settings import Settings
from feed_assets_tests.harness import AS_OF

LOADED = """\
from feed_assets.ads.definitions import build_definitions
from feed_assets.resources.settings import Settings

defs = build_definitions(Settings.from_environment({environment!r}))
"""


class Daemon:
    """An instance on disk and a code location, whose sensors are ticked in this process.

    The instance executes the runs in this process, too, unless it has other `overrides`.
    """

    def __init__(self, settings: Settings, home: Path, overrides: Mapping[str, Any] = IN_THIS_PROCESS) -> None:
        self.instance = dg.DagsterInstance.from_ref(InstanceRef.from_dir(str(home), overrides=dict(overrides)))
        environment = {
            "FEED_ASSETS_BASE": settings.base,
            "FEED_ASSETS_FIRST_DAY": "2019-11-20",
            "FEED_ASSETS_AS_OF": AS_OF.isoformat(),
            "FEED_ASSETS_SOURCES": str(settings.sources_directory),
            "FEED_ASSETS_SPARK_MASTER": "local[2]",
            # So that every iteration of a test is a tick.
            "FEED_ASSETS_SENSOR_SECONDS": "1",
        }
        path = home / "location.py"
        path.write_text(LOADED.format(environment=environment), encoding="utf-8")
        self.origin = InProcessCodeLocationOrigin(
            loadable_target_origin=LoadableTargetOrigin(executable_path=sys.executable, python_file=str(path)),
            location_name="shop",
        )

    def tick(self, crashes: Mapping[str, Any] | None = None) -> list[dg.DagsterRun]:
        """All sensors once; the runs they made, oldest first. `crashes` are Dagster's own points to crash at."""
        before = {run.run_id for run in self.instance.get_runs()}
        with WorkspaceProcessContext(self.instance, InProcessWorkspaceLoadTarget(self.origin)) as workspace:
            ticked = execute_sensor_iteration(workspace, logging.getLogger("daemon"), None, None, None, crashes)
            errors = [error for error in ticked if error is not None]
        assert errors == []
        self.let_the_interval_pass()
        return [run for run in reversed(self.instance.get_runs()) if run.run_id not in before]

    def let_the_interval_pass(self) -> None:
        """Date the last ticks back, instead of waiting until the sensors are due again."""
        for state in self.instance.all_instigator_state():
            data = state.instigator_data
            if data is not None and data.last_tick_start_timestamp:
                earlier = data.last_tick_start_timestamp - 60
                changed = data._replace(last_tick_timestamp=earlier, last_tick_start_timestamp=earlier)
                self.instance.update_instigator_state(state.with_data(changed))

    def statuses(self) -> set[str]:
        """What the ticks came to."""
        return {
            tick.status.value
            for state in self.instance.all_instigator_state()
            for tick in self.instance.get_ticks(state.instigator_origin_id, state.selector_id)
        }
