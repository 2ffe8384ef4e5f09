"""Many days by one `feed-assets backfill`, beside a `dagster asset materialize` for each day.

Here: both as commands, each on a base and a Dagster home of its own. Not here: whether they come to the same; the
command that takes the days one by one cannot know the clicks of the next day yet.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from datetime import date, timedelta
from functools import partial
from pathlib import Path

from feed_assets_tests import ROOT
from feed_assets_tests.benchmarks.generated import portal_sources, write_day
from feed_assets_tests.benchmarks.results import Comparison, Report, Row, timed
from feed_assets_tests.harness import ALL

FIRST = date(2019, 11, 1)
AS_OF = "2019-12-15T00:00:00"
IMPRESSIONS = 26_000
"""About as many as a day of the real log has."""
DAYS, MEASURED = 30, 3
QUICK_DAYS = 1
GOAL, DAY_GOAL = 40.0, 2.8
"""How many times faster than Dagster's default executor; seconds a day."""

DEFAULT, OURS = "feed_assets_tests.benchmarks.default_executor", "feed_assets.definitions"


def measure(scratch: Path, *, quick: bool = False) -> Report:
    """Seconds for all days, and for each day by itself under two executors, which `quick` leaves out."""
    count = QUICK_DAYS if quick else DAYS
    days = [FIRST + timedelta(days=offset) for offset in range(count)]
    raw, sources = scratch / "generated", portal_sources(scratch / "sources")
    for day in days:
        write_day(raw, day, IMPRESSIONS)
    backfill = ["feed_assets.cli", "backfill", "--from", str(days[0]), "--to", str(days[-1])]
    together = timed(lambda: run_command(_home(scratch, "backfill", raw), sources, backfill))
    rows = [_row("feed-assets backfill: one Spark", count, together, count)]
    a_day = together / count
    # The goal is for days that share one start.
    goal_of_a_day = None if quick else DAY_GOAL
    comparisons = [Comparison.at_most("feed-assets backfill, seconds a day", a_day, goal_of_a_day)]
    executors = {} if quick else {DEFAULT: "Dagster's default executor", OURS: "the project's executor"}
    for module, executor in executors.items():
        home = _home(scratch, module, raw)
        apart = sum(timed(partial(_materialize, home, sources, module, day)) for day in days[:MEASURED])
        scaled = apart / MEASURED * count
        rows.append(_row(f"dagster asset materialize, {executor}", MEASURED, apart, count))
        title, ratio = f"{executor}, a command a day / backfill", scaled / together
        goal = module == DEFAULT
        comparisons.append(
            Comparison(title, ratio, f">= {GOAL:g}", ratio >= GOAL) if goal else Comparison(title, ratio)
        )
    notes = [
        (
            f"Days of {IMPRESSIONS:,} impressions; clean ads, clean clicks and effectiveness, all audited; starting "
            "Python, Dagster and Spark is part of every command."
        ),
        *(f"`dagster asset materialize`, {each}: {MEASURED} days, scaled to {count}." for each in executors.values()),
    ]
    return Report("backfill", f"{count} days from raw data to effectiveness", rows, comparisons, notes)


def _row(subject: str, measured: int, seconds: float, count: int) -> Row:
    values = {
        "days_measured": measured,
        "measured_seconds": seconds,
        "a_day_seconds": seconds / measured,
        "all_days_seconds": seconds / measured * count,
    }
    return Row(f"{count} days", subject, values)


def _home(scratch: Path, name: str, raw: Path) -> Path:
    """A base with the raw data, and Dagster's own state beside it."""
    home = scratch / name
    shutil.copytree(raw, home / "base")
    shutil.copy(ROOT / "dagster.yaml", home)
    return home


def _materialize(home: Path, sources: Path, module: str, day: date) -> None:
    select = ["--select", ",".join(ALL), "--partition", str(day)]
    run_command(home, sources, ["dagster", "asset", "materialize", "-m", module, *select])


def run_command(home: Path, sources: Path, module_and_arguments: Sequence[str]) -> None:
    """Run a module as a command, with its data and its Dagster state in this home."""
    environment = {
        **os.environ,
        "DAGSTER_HOME": str(home),
        "FEED_ASSETS_BASE": str(home / "base"),
        "FEED_ASSETS_SOURCES": str(sources),
        "FEED_ASSETS_FIRST_DAY": str(FIRST),
        "FEED_ASSETS_AS_OF": AS_OF,
        "FEED_ASSETS_LOG_LEVEL": "ERROR",
    }
    command = [sys.executable, "-m", *module_and_arguments]
    done = subprocess.run(command, check=False, cwd=ROOT, env=environment, capture_output=True, text=True)
    if done.returncode:
        message = f"{' '.join(command)} failed:\n{done.stdout[-3000:]}\n{done.stderr[-3000:]}"
        raise AssertionError(message)
