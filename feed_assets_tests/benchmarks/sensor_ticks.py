"""How long a tick of each sensor takes where nothing has changed, by the number of raw hourly partitions.

Here: an installation whose every day was processed, made through the protocol without computing anything. Not here:
what sensors do where something has changed (see their tests).
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import date, datetime, time, timedelta
from pathlib import Path
from statistics import median

import dagster as dg

from feed_assets.file_feed import Facts, Feed, FeedInput, RawInput, claim, publish, stage, staged_files
from feed_assets.sources import raw_days
from feed_assets_tests.benchmarks.results import Comparison, Report, Row, timed
from feed_assets_tests.blackboard.recording import RecordingBlackboard
from feed_assets_tests.harness import (
    ADS,
    AS_OF,
    CLICKS,
    EFFECTIVENESS,
    SHOP_ADS,
    SHOP_CLICKS,
    Installation,
    settings_below,
    using_board,
    write_sources,
)

SIZES = (100, 10_000)
QUICK_SIZES = (48,)
SENSORS = ("late_growth", "new_manifests")
HOURS = 24
LAST = AS_OF.date() - timedelta(days=1)
REPEATS = 5
GOAL_SECONDS = 1.0
SHIPPED_LOOKBACK = 7
MOST_TICKS = 100


def measure(scratch: Path, *, quick: bool = False) -> Report:
    """Seconds and storage requests of ticks that find nothing to do."""
    with _quiet():
        return _measure(scratch, quick=quick)


@contextmanager
def _quiet() -> Iterator[None]:
    """Sensors tell each decision, which are many here."""
    before = logging.root.manager.disable
    logging.disable(logging.INFO)
    try:
        yield
    finally:
        logging.disable(before)


def _measure(scratch: Path, *, quick: bool) -> Report:
    rows, comparisons = [], []
    for size in QUICK_SIZES if quick else SIZES:
        made = scratch / str(size)
        _make(made, size)
        everything = size // HOURS + 2
        for lookback in (SHIPPED_LOOKBACK, everything):
            whole = lookback == everything
            home = scratch / f"dagster-{size}-{lookback}"
            home.mkdir()
            with dg.DagsterInstance.local_temp(str(home)) as instance:
                installation = _installation(made, instance, size, lookback)
                for sensor in SENSORS:
                    row = _row(installation, sensor, size, "all of it" if whole else f"{lookback} days")
                    rows.append(row)
                    if whole:
                        seconds = float(row.values["seconds"])
                        title = f"{sensor}, {size:,} partitions, seconds"
                        comparisons.append(Comparison(title, seconds, f"< {GOAL_SECONDS:g}", seconds < GOAL_SECONDS))
    notes = [
        (
            "Partitions are hours of raw ads; as many of clicks are there as well. Every day has valid updates of both "
            "clean feeds and of effectiveness, with their records. Nothing has changed since the tick before."
        ),
        "Seconds are medians on a local disk, the storage opened anew for each tick, with Dagster's own part.",
    ]
    return Report("ticks", "sensor ticks over unchanged partitions", rows, comparisons, notes)


def _row(installation: Installation, sensor: str, size: int, lookback: str) -> Row:
    _settle(installation, sensor)
    seconds = median(timed(lambda: _unchanged(installation, sensor)) for _ in range(REPEATS))
    recording = RecordingBlackboard(installation.board)
    _unchanged(using_board(installation, recording), sensor)
    counts = recording.counts()
    values = {"seconds": seconds, "listings": counts["page"], "reads": counts["read"]}
    return Row(f"{size:,} partitions", f"{sensor}, lookback {lookback}", values)


def _settle(installation: Installation, sensor: str) -> None:
    """Tick until nothing is news any more: a tick reports only so many events."""
    for _ in range(MOST_TICKS):
        tick = installation.tick(sensor)
        if not tick.events and not tick.requests:
            return
    message = f"{sensor} finds something new in every tick."
    raise AssertionError(message)


def _unchanged(installation: Installation, sensor: str) -> None:
    tick = installation.tick(sensor)
    if tick.events or tick.requests:
        message = f"{sensor} reported {tick.told} and asked for {tick.asked}, and nothing has changed."
        raise AssertionError(message)


def _installation(directory: Path, instance: dg.DagsterInstance, size: int, lookback: int) -> Installation:
    texts = (text.replace("lookback_days: 7", f"lookback_days: {lookback}") for text in (SHOP_ADS, SHOP_CLICKS))
    sources = write_sources(directory / f"sources-{lookback}", *texts)
    first = LAST - timedelta(days=size // HOURS + 1)
    return Installation(settings_below(directory / "base", sources, first_day=first, scan_seconds=600), instance)


def _make(directory: Path, size: int) -> None:
    """Raw files for so many hours, and for each of their days the updates made of them, a day later."""
    sizes = Counter(str(LAST - timedelta(days=hour // HOURS)) for hour in range(size))
    installation = _installation(directory, dg.DagsterInstance.ephemeral(), size, SHIPPED_LOOKBACK)
    for day, hours in sizes.items():
        for hour in range(hours):
            for source in ("ads/shop_ads", "clicks/shop_clicks"):
                installation.raw_bytes(day, {"x": 1}, source, f"{hour:02}")
    board = installation.board
    first = date.fromisoformat(min(sizes))
    raw = raw_days(board, ["ads/shop_ads", "clicks/shop_clicks"], first, LAST)
    made: dict[tuple[str, str], str] = {}
    for day in sorted(sizes):
        for location, source in ((ADS, "ads/shop_ads"), (CLICKS, "clicks/shop_clicks")):
            made[location, day] = _publish(Feed(board, location), day, [raw[source, date.fromisoformat(day)]])
    for day in sorted(sizes):
        _publish(Feed(board, EFFECTIVENESS), day, _read(made, day))


def _read(made: Mapping[tuple[str, str], str], day: str) -> list[FeedInput | RawInput]:
    """What effectiveness read: the neighbouring days' ads as context, the next day's clicks, and no catalog."""
    before, after = (str(date.fromisoformat(day) + timedelta(days=offset)) for offset in (-1, 1))
    return [
        *(FeedInput(ADS, each, made.get((ADS, each)), context=each != day) for each in (before, day, after)),
        *(FeedInput(CLICKS, each, made.get((CLICKS, each))) for each in (day, after)),
        FeedInput("ad-catalog/v1.0", None, None),
    ]


def _publish(feed: Feed, day: str, inputs: list[FeedInput | RawInput]) -> str:
    # A day's data is processed when the day is over: of a long history, most is old.
    moment = datetime.combine(date.fromisoformat(day) + timedelta(days=1), time(2), AS_OF.tzinfo)
    claimed = claim(feed, day, now=moment, owner="benchmark")
    feed.blackboard.create(f"{claimed.prefix}part-0.parquet", b"x")
    publish(stage(claimed, staged_files(claimed, 1), Facts(inputs=tuple(inputs)), now=moment), now=moment)
    return claimed.name
