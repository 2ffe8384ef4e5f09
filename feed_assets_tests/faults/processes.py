"""Processes that kill themselves with SIGKILL. Not here: where they do it."""

from __future__ import annotations

import multiprocessing
import os
import signal
from collections.abc import Callable
from typing import Any

LOADED = ["feed_assets.definitions", "feed_assets_tests.faults.killed_runs", "feed_assets_tests.faults.killed_ticks"]
"""Loaded once, in a process that the others are forked from: loading takes seconds."""


def run_until_killed(work: Callable[..., None], *arguments: Any) -> None:
    """Call a function in a process of its own, which must be killed before the function ends."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(LOADED)
    process = context.Process(target=work, args=arguments)
    process.start()
    process.join(120)
    assert process.exitcode == -signal.SIGKILL


def die() -> None:
    """Kill this process, as the kernel does when memory runs out."""
    os.kill(os.getpid(), signal.SIGKILL)
