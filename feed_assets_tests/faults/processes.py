"""Processes that kill themselves with SIGKILL. Not here: where they do it."""

from __future__ import annotations

import multiprocessing
import os
import signal
from collections.abc import Callable
from typing import Any

from feed_assets_tests.forked import start_server


def run_until_killed(work: Callable[..., None], *arguments: Any) -> None:
    """Call a function in a process of its own, which must be killed before the function ends."""
    start_server()
    process = multiprocessing.get_context("forkserver").Process(target=work, args=arguments)
    process.start()
    process.join(120)
    assert process.exitcode == -signal.SIGKILL


def die() -> None:
    """Kill this process, as the kernel does when memory runs out."""
    os.kill(os.getpid(), signal.SIGKILL)
