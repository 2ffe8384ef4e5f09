"""Processes of steps, which Dagster's multiprocess executor starts for a run: they end with the worker of the run.

Here: noticing the end of the worker. Not here: workers (`feed_assets.warm_runs`).
"""

from __future__ import annotations

import os
from multiprocessing import parent_process
from threading import Thread
from typing import Final

WORKER: Final = "feed_assets worker"
"""The name of a worker's process."""


def end_with_worker() -> None:
    """If a worker has started this process, end it as soon as the worker ends: Dagster tries its run again.

    Dagster's own processes of steps notice only that nobody reads their events.
    """
    parent = parent_process()
    if parent is None or parent.name != WORKER:
        return

    def watch() -> None:
        parent.join()
        os._exit(os.EX_UNAVAILABLE)

    Thread(target=watch, name="watch-worker", daemon=True).start()
