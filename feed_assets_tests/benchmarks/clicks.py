"""From a click in the UI of `feed-assets dev`, or from a sensor's tick that sees a late file, to published updates.

Here: real runs of a small day, launched as the UI launches them, by workers that stay up and by Dagster's default
launcher. Not here: what a run costs without Dagster's processes (see `pipelines`).
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import date, timedelta
from pathlib import Path
from statistics import median
from typing import Any

import yaml

from feed_assets_tests.benchmarks.backfills import run_command
from feed_assets_tests.benchmarks.generated import portal_sources, write_day
from feed_assets_tests.benchmarks.results import LEFT_OUT, Comparison, Report, Row, timed
from feed_assets_tests.dev import ROOT, Dev
from feed_assets_tests.harness import ALL

FIRST = date(2019, 11, 1)
LATE_DAY = "2019-12-10"
"""In the sources' lookback. The other days are older, so that no sensor asks for them."""
AS_OF = "2019-12-15T12:00:00"
IMPRESSIONS = 4_000
LATER, QUICK_LATER = 5, 1
LATE_DAYS = [f"2019-12-{number:02}" for number in range(8, 15)]
AT_ONCE_GOAL = 2.5
"""How many times as long seven days may take as one."""
LATE_HOURS = ("19", "20", "21")
SENSOR_SECONDS = 5

TICKS = """
{ repositoriesOrError { ... on RepositoryConnection { nodes { sensors {
    name sensorState { ticks(limit: 20) { timestamp status runIds } } } } } } }
"""


RUNS = "{ runsOrError(limit: 200) { ... on Runs { results { status endTime } } } }"


def measure(scratch: Path, *, quick: bool = False) -> Report:
    """Seconds from a click to three published assets, and from a tick to effectiveness with the late file."""
    later = QUICK_LATER if quick else LATER
    # Not neighbours: the effectiveness of a day is computed again if the next day comes.
    days = [str(FIRST + timedelta(days=3 * offset)) for offset in range(later)]
    raw = scratch / "generated"
    for day in (*days, LATE_DAY):
        write_day(raw, date.fromisoformat(day), IMPRESSIONS)
    rows = []
    with _dev(scratch / "warm", raw, days) as dev:
        first, *others = [_click(dev, day) for day in days]
        others.append(_land_and_click(dev, raw, LATE_DAY))
        late = _late(dev, raw)
    rows += [
        _row("first click after the start", [first]),
        _row("later clicks", others),
        _row("late file, from the tick", [late]),
    ]
    if not quick:
        with _dev(scratch / "cold", raw, days, warm=False) as dev:
            rows.append(_row("a click, Dagster's default launcher", [_click(dev, days[0])]))
    found = {"first click": (first, 12.0), "later clicks": (median(others), 5.0), "late file": (late, 6.0)}
    comparisons = [
        Comparison(f"{name}, seconds", seconds, f"<= {goal:g}", seconds <= goal)
        for name, (seconds, goal) in found.items()
    ]
    notes = [
        "From the request of the UI to the end of the run: clean ads, clean clicks and effectiveness, all audited.",
        "The first click comes as soon as the UI answers.",
    ]
    return Report(
        "clicks", f"{IMPRESSIONS:,} impressions, from a click or a late file to published", rows, comparisons, notes
    )


def measure_reprocess(scratch: Path, *, quick: bool = False) -> Report:
    """Seconds until all that depends on one late day, or on seven, is made again: by hand, and by the sensors."""
    if quick:
        return Report("reprocess", "days processed again", [], [], [LEFT_OUT])
    raw = scratch / "generated"
    for day in LATE_DAYS:
        write_day(raw, date.fromisoformat(day), IMPRESSIONS)
    rows, comparisons = [], []
    for way, measured in {"by hand": _by_hand, "by the sensors": _by_the_sensors}.items():
        one, seven = (measured(scratch / f"{len(days)} {way}", raw, days) for days in ([LATE_DAY], LATE_DAYS))
        rows += [_row(f"one day, {way}", [one]), _row(f"seven days, {way}", [seven])]
        comparisons.append(Comparison.at_most(f"{way}: seven days / one day", seven / one, AT_ONCE_GOAL))
    notes = [
        "By hand: `feed-assets backfill`; starting Python, Dagster and Spark is part of it.",
        (
            "By the sensors, from the tick that finds the late files: a run for each day, as many at a time as "
            "`dagster.yaml` says, by workers that are warm. Neighbouring days wait for each other."
        ),
    ]
    return Report("reprocess", f"late days of {IMPRESSIONS:,} impressions, processed again", rows, comparisons, notes)


@contextmanager
def _dev(home: Path, raw: Path, days: list[str], *, warm: bool = True) -> Iterator[Dev]:
    """A `feed-assets dev` that has loaded its definitions, with the raw data of these days."""
    home.mkdir()
    config = yaml.safe_load((ROOT / "dagster.yaml").read_text(encoding="utf-8"))
    if not warm:
        del config["run_launcher"]
    (home / "dagster.yaml").write_text(yaml.safe_dump(config), encoding="utf-8")
    environment = {
        "FEED_ASSETS_BASE": str(home / "base"),
        "FEED_ASSETS_SOURCES": str(portal_sources(home / "sources")),
        "FEED_ASSETS_FIRST_DAY": str(FIRST),
        "FEED_ASSETS_AS_OF": AS_OF,
        "FEED_ASSETS_SENSOR_SECONDS": str(SENSOR_SECONDS),
    }
    for day in days:
        _copy(raw, home, day)
    dev = Dev(home, environment)
    try:
        dev.loaded()
        yield dev
    finally:
        dev.stop()


def _copy(raw: Path, home: Path, day: str, *, late: bool | None = None) -> None:
    """Copy the raw data of a day; only that of the late hours, or only that of the others, if told so."""
    for file in sorted(raw.rglob("*.parquet")):
        hour, its_day = file.parent.name, file.parent.parent.name
        if its_day == day and (late is None or late == (hour in LATE_HOURS)):
            place = home / "base" / file.relative_to(raw)
            place.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(file, place)


def _click(dev: Dev, day: str) -> float:
    clicked = time.time()
    run = dev.ended(dev.launch(ALL, day))
    assert run["status"] == "SUCCESS", run
    return float(run["endTime"]) - clicked


def _land_and_click(dev: Dev, raw: Path, day: str) -> float:
    """Click on a day in the lookback right after a tick, so that no sensor requests a run of it as well."""
    since = time.time()
    dev.until(lambda: any(tick["timestamp"] > since and tick["status"] != "STARTED" for tick in _ticks(dev)), "tick")
    _copy(raw, dev.home, day, late=False)
    return _click(dev, day)


def _late(dev: Dev, raw: Path) -> float:
    """Land the late hours of ads, and wait for the run that the sensor requests."""
    _copy(raw, dev.home, LATE_DAY, late=True)
    ticked, run_id = _requested(dev)
    run = dev.ended(run_id)
    assert run["status"] == "SUCCESS", run
    return float(run["endTime"]) - ticked


def _by_hand(home: Path, raw: Path, days: list[str]) -> float:
    """Let a command process these days, land the late hours, and let another process them again."""
    home.mkdir()
    shutil.copy(ROOT / "dagster.yaml", home)
    command = ["feed_assets.cli", "backfill", "--from", days[0], "--to", days[-1]]
    for late in (False, True):
        for day in days:
            _copy(raw, home, day, late=late)
        seconds = timed(lambda: run_command(home, portal_sources(home / "sources"), command))
    return seconds


def _by_the_sensors(home: Path, raw: Path, days: list[str]) -> float:
    """Process these days in a `feed-assets dev`, land the late hours, and wait for the runs that sensors request."""
    with _dev(home, raw, []) as dev:
        for day in days:
            _land_and_click(dev, raw, day)
        return _reprocessed(dev, raw, days)


def _reprocessed(dev: Dev, raw: Path, days: list[str]) -> float:
    """Land the late hours of ads of these days, and wait until no sensor requests a run any more."""
    before = len(_runs(dev))
    for day in days:
        _copy(raw, dev.home, day, late=True)
    ticked, _ = _requested(dev)
    count, since = before, time.monotonic()

    def quiet() -> list[Any] | None:
        nonlocal count, since
        runs = _runs(dev)
        if len(runs) != count or not all(run["endTime"] for run in runs):
            count, since = len(runs), time.monotonic()
        enough = time.monotonic() - since > 3 * SENSOR_SECONDS and count >= before + len(days)
        return runs if enough else None

    # Each look takes time of the web server that is then missing to the runs.
    runs = dev.until(quiet, "quiet after the late files", every=1)
    assert all(run["status"] == "SUCCESS" for run in runs), runs
    return max(float(run["endTime"]) for run in runs) - ticked


def _runs(dev: Dev) -> list[Any]:
    return list(dev.ask(RUNS)["runsOrError"]["results"])


def _requested(dev: Dev) -> tuple[float, str]:
    """The time and the first run of the tick that finds late data."""

    def look() -> tuple[float, str] | None:
        return next(((tick["timestamp"], tick["runIds"][0]) for tick in _ticks(dev) if tick["runIds"]), None)

    return dev.until(look, "request for the late file")


def _ticks(dev: Dev) -> list[Any]:
    """The last ticks of the sensor for late data, newest first."""
    (sensors,) = (node["sensors"] for node in dev.ask(TICKS)["repositoriesOrError"]["nodes"])
    return [tick for each in sensors for tick in each["sensorState"]["ticks"] if each["name"] == "late_growth"]


def _row(subject: str, seconds: list[float]) -> Row:
    values = {"median_seconds": median(seconds), "min_seconds": min(seconds), "max_seconds": max(seconds)}
    return Row("", subject, {**values, "rounds": len(seconds)})
