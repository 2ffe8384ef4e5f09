"""How long tests wait for what they started. Not here: measures of speed, which are benchmarks."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, Final

import pytest

HANGS: Final = 600.0
"""Seconds after which a process is taken to hang. A busy machine with a cold disk needs minutes for what takes seconds
on another."""


def until(look: Callable[[], Any], *, every: float = 0.05) -> Any:
    """The first answer that says something; `every` is in seconds. Fails if there is none before HANGS."""
    deadline = time.monotonic() + HANGS
    while time.monotonic() < deadline:
        if answer := look():
            return answer
        time.sleep(every)
    pytest.fail(f"nothing within {HANGS} s")
