"""The process that others are forked from, with their modules loaded once. Not here: the processes forked from it.

Python starts one such process, and whoever is the first to need it decides what it loads, for all who come later.
"""

from __future__ import annotations

import sys
from multiprocessing import forkserver

NEEDED = {
    "feed_assets.operations.side_by_side": ["duckdb"],
    "feed_assets_tests.faults.killed_runs": ["feed_assets.definitions"],
    "feed_assets_tests.faults.killed_ticks": ["feed_assets.definitions"],
    # The others are loaded at the start of a receiver, which takes longer than all the rest of it.
    "feed_assets_tests.receiving.light": ["sqlite3", "uvicorn.lifespan.on"],
    "feed_assets_tests.serving.greeting": ["uvicorn.lifespan.on"],
    "feed_assets_tests.workflow.killed": [],
}
"""The modules that fork processes, and what their processes load besides."""


def start_server() -> None:
    """Start the process, unless it runs, with what those of these modules need that this process has loaded."""
    if loaded := [module for module in NEEDED if module in sys.modules]:
        forkserver.set_forkserver_preload([*loaded, *(each for module in loaded for each in NEEDED[module])])
        forkserver.ensure_running()
