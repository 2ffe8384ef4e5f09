"""The commands that the README begins with, from their start to their end: the demo, and all tests.

Here: running them as a user does. Not here: what they show. With `quick` they are left out: each takes minutes.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from feed_assets_tests import ROOT
from feed_assets_tests.benchmarks.results import LEFT_OUT, Comparison, Report, Row, timed

DEMO_GOAL, TESTS_GOAL = 45.0, 720.0


def measure_demo(scratch: Path, *, quick: bool = False) -> Report:
    """Seconds of `make demo` after the set-up of its environment."""
    places = {"FEED_ASSETS_BASE": str(scratch / "base"), "DAGSTER_HOME": str(scratch / "home")}
    (scratch / "home").mkdir()
    return _measured("demo", [sys.executable, "-m", "feed_assets.cli", "demo"], scratch, places, DEMO_GOAL, quick=quick)


def measure_tests(scratch: Path, *, quick: bool = False) -> Report:
    """Seconds of `make test` after the set-up of its environment."""
    return _measured("test", ["make", "test"], ROOT, {"TMPDIR": str(scratch)}, TESTS_GOAL, quick=quick)


def _measured(
    target: str, command: Sequence[str], folder: Path, places: Mapping[str, str], goal: float, *, quick: bool
) -> Report:
    title = f"`make {target}` after set-up"
    if quick:
        return Report(target, title, (), (), [LEFT_OUT])

    def run() -> None:
        done = subprocess.run(
            command, check=False, cwd=folder, env={**os.environ, **places}, capture_output=True, text=True
        )
        if done.returncode:
            message = f"{' '.join(command)} failed:\n{done.stdout[-3000:]}\n{done.stderr[-3000:]}"
            raise AssertionError(message)

    seconds = timed(run)
    rows = [Row("all", title, {"seconds": seconds})]
    return Report(target, title, rows, [Comparison(f"{title}, seconds", seconds, f"<= {goal:g}", seconds <= goal)])
