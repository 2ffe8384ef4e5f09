"""The run launcher that hands runs to the pool of workers.

Here: which runs a worker takes. Not here: the pool. If no pool answers, Dagster's default launcher starts a process for
the run.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import dagster as dg

from feed_assets.warm_runs.requests import ask


class WorkerRunLauncher(dg.DefaultRunLauncher):
    """Dagster's default launcher, except that a worker that is warm already takes the run, if there is one."""

    def launch_run(self, context: Any) -> None:
        """Hand the run to the pool; without a pool for its module, start a process for it."""
        run = context.dagster_run
        origin = context.job_code_origin
        module = getattr(origin.repository_origin.code_pointer, "module", None) if origin else None
        # A worker's Spark has started, so a run cannot configure it any more.
        own_resources = bool(run.run_config.get("resources"))
        if module is None or own_resources or not self._taken(run.run_id, module):
            super().launch_run(context)

    def terminate(self, run_id: str) -> bool:
        """End the run: its worker ends, and the jobs of its Spark with it."""
        if not self._ask(holds=run_id).get("holds"):
            default: Any = super()
            return bool(default.terminate(run_id))
        run = self._instance.get_run_by_id(run_id)
        if run is None or run.is_finished:
            return False
        self._instance.report_run_canceling(run)
        return bool(self._ask(terminate=run_id).get("terminated"))

    def pool(self) -> Mapping[str, Any]:
        """The `module` of the pool and its number of `warm_runs`; empty if there is no pool."""
        return self._ask(holds="")

    def _taken(self, run_id: str, module: str) -> bool:
        try:
            return bool(self._ask(launch=run_id, module=module).get("launched"))
        except TimeoutError:
            # A pool that is late may take the run yet, and two processes must not execute it. If the run does not
            # begin, Dagster's monitoring fails it and tries it again.
            return True

    def _ask(self, **request: str) -> Mapping[str, Any]:
        return ask(Path(self._instance.root_directory), **request)
