"""The process from which the processes of a backfill are forked. It loads their libraries once.

Here: starting it, which a command does before it loads the same libraries itself. So this module loads nothing large.
Not here: the forked processes (`side_by_side`).
"""

from __future__ import annotations

from multiprocessing import forkserver, resource_tracker
from typing import Final

from feed_assets.processes.signals import interrupts_blocked

LOADED: Final = ("feed_assets.operations.side_by_side", "duckdb")
"""What every process imports; none of it is the user's code."""
LOADED_FOR_BUCKETS: Final = ("dagster_aws.s3",)
"""Modules that every process also imports if the data is in a bucket."""


def start_loading(base: str, count: int) -> None:
    """Start the process from which `count` others are forked, for data below this base. Returns while it loads.

    Does nothing if it runs already, or if there will be one process only, which is the command itself.
    """
    if count == 1:
        return
    forkserver.set_forkserver_preload([*LOADED, *(LOADED_FOR_BUCKETS if base.startswith("s3://") else ())])
    resource_tracker.ensure_running()  # first: as it starts, it lifts the block of Ctrl-C
    with interrupts_blocked():
        forkserver.ensure_running()
