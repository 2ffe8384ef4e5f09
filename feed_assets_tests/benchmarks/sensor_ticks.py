"""How long a tick of each sensor takes where nothing or little has changed, by the number of hourly partitions.

Here: an installation whose every day was processed, and a feed of hours computed from another, both made through the
protocol without computing anything. Not here: what sensors do where something has changed (see their tests).
"""

from __future__ import annotations

import json
import logging
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, date, datetime, time, timedelta
from functools import partial
from pathlib import Path
from statistics import median
from time import process_time

import dagster as dg

from feed_assets.ads.schemas import AD_CATALOG
from feed_assets.blackboard.port import Blackboard
from feed_assets.feed_events.declarations import feed_metadata
from feed_assets.file_feed import (
    Facts,
    Feed,
    FeedInput,
    File,
    RawInput,
    Record,
    Transition,
    Watch,
    claim,
    inputs_digest,
    publish,
    stage,
    staged_files,
    update_name,
)
from feed_assets.file_feed.changes import Position
from feed_assets.file_feed.control import record_key
from feed_assets.partitions.days import hourly
from feed_assets.sensors.asset_graph import AssetFeedGraph
from feed_assets.sources.raw import evening, raw_days
from feed_assets.starts.graph import FeedNode
from feed_assets_tests.benchmarks.results import Comparison, Report, Rounds, Row, timed, under_way
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
HOURS = 24
LAST = AS_OF.date() - timedelta(days=1)
REPEATS = 5
GOALS = {"late_growth": 1.0, "new_manifests": 0.15}
"""Seconds of a tick that looks at every partition, and finds nothing to do."""
SHIPPED_LOOKBACK = 7
NEWS = 5
"""How many partitions change, where a few do."""
MOST_TICKS = 200
MEASUREMENTS, SCORES = "measurements/v1.0", "scores/v1.0"
"""A feed of hours, and the feed of hours that is computed from it."""


def measure(scratch: Path, *, quick: bool = False) -> Report:
    """Seconds and storage requests of ticks that find little or nothing to do."""
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
        days, hours = scratch / f"{size}-days", scratch / f"{size}-hours"
        under_way(f"{size:,} hours of raw data, and the updates of their days")
        _make(days, size)
        under_way(f"{size:,} hours of a feed, and of the feed computed from it")
        _make_hours(hours, size)
        everything = size // HOURS + 2
        lookbacks = (SHIPPED_LOOKBACK, everything) if everything > SHIPPED_LOOKBACK else (everything,)
        for lookback in lookbacks:
            title = "all of it" if lookback == everything else f"{lookback} days"
            with _instance(scratch / f"dagster-days-{size}-{lookback}") as instance:
                installation = _installation(days, instance, size, lookback)
                gated = replace(installation, settings=replace(installation.settings, gate=True), _definitions=None)
                under_way(f"starts, {size:,} partitions, lookback {title}")
                rows.append(_row(gated, "starts", size, f"starts, raw hours with triggers, lookback {title}"))
                for sensor, goal in GOALS.items():
                    under_way(f"{sensor}, {size:,} partitions, lookback {title}")
                    rows.append(_row(installation, sensor, size, f"{sensor}, raw hours, lookback {title}"))
                    if lookback == everything:
                        comparisons.append(_comparison(f"{sensor}, {size:,} raw hours, whole lookback", rows[-1], goal))
            with _instance(scratch / f"dagster-hours-{size}-{lookback}") as instance:
                under_way(f"new_manifests, {size:,} hours of a feed, lookback {title}")
                installation = _scanned(_with_hours(_installation(hours, instance, size, lookback)))
                subject = f"new_manifests, feed of hours, lookback {title}"
                rows.append(_row(installation, "new_manifests", size, subject))
                if lookback == lookbacks[0]:
                    goal = GOALS["new_manifests"]
                    comparisons.append(_comparison(f"new_manifests, {size:,} hours of a feed", rows[-1], goal))
                    rows.append(_row_of_news(installation, size, f"{subject}, {NEWS} changed"))
    notes = [
        (
            "Raw hours: as many of clicks are there as of ads. Every day has valid updates of both clean feeds and of "
            "effectiveness, with their records. A feed of hours: each hour of another feed is computed from it. "
            "Nothing has changed since the tick before, unless a row says so."
        ),
        (
            "Seconds are medians on a local disk, the storage opened anew for each tick, with Dagster's own part. "
            "Where partitions changed, they include storing the events, which the daemon does."
        ),
        "A process reads each record once, in its first tick, and each manifest if it is on a disk.",
    ]
    return Report("ticks", "sensor ticks over unchanged partitions", rows, comparisons, notes)


@contextmanager
def _instance(home: Path) -> Iterator[dg.DagsterInstance]:
    home.mkdir()
    with dg.DagsterInstance.local_temp(str(home)) as instance:
        yield instance


def _comparison(title: str, row: Row, goal: float) -> Comparison:
    # Other programs on the machine hardly change processor time; on a quiet machine, a tick takes no more.
    seconds = float(row.values["cpu_seconds"])
    return Comparison(f"{title}, seconds of processor time", seconds, f"<= {goal:g}", seconds <= goal)


def _row(installation: Installation, sensor: str, size: int, subject: str) -> Row:
    _settle(installation, sensor)
    rounds = Rounds()
    for _ in range(REPEATS):
        before = process_time()
        rounds.add(sensor, timed(lambda: _unchanged(installation, sensor)), process_time() - before)
    recording = RecordingBlackboard(installation.board)
    _unchanged(_on(installation, recording), sensor)
    values = {"seconds": rounds.median(sensor), "cpu_seconds": rounds.median_cpu(sensor)}
    return Row(f"{size:,} partitions", subject, {**values, **_requests(recording)})


def _row_of_news(installation: Installation, size: int, subject: str) -> Row:
    """Each tick finds as many new updates, in partitions beyond the lookback where there are some."""
    hours, recording = _hours(size), RecordingBlackboard(installation.board)
    measured = []
    for number in range(REPEATS + 1):
        changed = hours[number * NEWS : (number + 1) * NEWS]
        for hour in changed:
            _publish_at(installation.feed(MEASUREMENTS), hour, [], AS_OF + timedelta(seconds=number))
        # The news are new only once: the requests are those of the last tick.
        found = installation if number < REPEATS else _on(installation, recording)
        measured.append(timed(partial(_tells, found, changed)))
    return Row(f"{size:,} partitions", subject, {"seconds": median(measured[:-1]), **_requests(recording)})


def _on(installation: Installation, board: Blackboard) -> Installation:
    """The same installation, with the same assets, on this blackboard."""
    other = using_board(installation, board)
    return _with_hours(other) if SCORES in _feeds(installation) else other


def _feeds(installation: Installation) -> Mapping[str, FeedNode]:
    return AssetFeedGraph.of(installation.definitions.get_repository_def()).feeds


def _tells(installation: Installation, changed: Sequence[str]) -> None:
    tick = installation.tick("new_manifests")
    reported = sorted(partition or "" for _, partition, _ in tick.reported)
    if reported != sorted(changed) or not set(changed) <= set(tick.asked):
        message = f"new_manifests reported {tick.reported} and asked for {tick.asked}, and {changed} have changed."
        raise AssertionError(message)


def _requests(recording: RecordingBlackboard) -> dict[str, int]:
    counts = recording.counts()
    return {"listings": counts["page"], "reads": counts["read"]}


def _settle(installation: Installation, sensor: str) -> None:
    """Tick until nothing is new any more and no scan is under way: a tick reports and looks at only so much."""
    for _ in range(MOST_TICKS):
        tick = installation.tick(sensor)
        content = json.loads(tick.cursor or "{}")
        scans = [feed["scan"][2] for feed in content.get("feeds", {}).values()]
        if not tick.events and not tick.requests and not any(scan is not None for scan in scans):
            return
    message = f"{sensor} finds something new in every tick."
    raise AssertionError(message)


def _unchanged(installation: Installation, sensor: str) -> None:
    tick = installation.tick(sensor)
    if tick.events or tick.requests:
        message = f"{sensor} reported {tick.reported} and asked for {tick.asked}, and nothing has changed."
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
    feeds = _feeds(installation)
    made: dict[tuple[str, str], str] = {}
    for day in sorted(sizes):
        for location, source in ((ADS, "ads/shop_ads"), (CLICKS, "clicks/shop_clicks")):
            before = raw.get((source, date.fromisoformat(day) - timedelta(days=1)))
            read = [raw[source, date.fromisoformat(day)]]
            read += [evening(before, feeds[location].evening_hours)] if before else []
            made[location, day] = _publish(Feed(board, location), day, read)
    for day in sorted(sizes):
        _publish(Feed(board, EFFECTIVENESS), day, _read(made, day))


def _read(made: Mapping[tuple[str, str], str], day: str) -> list[FeedInput]:
    """What effectiveness read: the neighbouring days' ads as context, the next day's clicks, and no catalog."""
    before, after = (str(date.fromisoformat(day) + timedelta(days=offset)) for offset in (-1, 1))
    return [
        *(FeedInput(ADS, each, made.get((ADS, each)), context=each != day) for each in (before, day, after)),
        *(FeedInput(CLICKS, each, made.get((CLICKS, each))) for each in (day, after)),
        FeedInput("ad-catalog/v1.0", None, None),
    ]


def _with_hours(installation: Installation) -> Installation:
    """The installation with a feed of hours, and with another that is computed from it."""
    partitions = hourly(installation.settings)
    measurements = dg.AssetSpec(
        "measurements", partitions_def=partitions, metadata=feed_metadata(MEASUREMENTS, AD_CATALOG)
    )

    @dg.asset(
        ins={"measurements": dg.AssetIn(input_manager_key="file_feed")},
        partitions_def=partitions,
        io_manager_key="file_feed",
        metadata=feed_metadata(SCORES, AD_CATALOG),
    )
    def scores(measurements: object) -> object:
        return measurements

    more = dg.Definitions(assets=[measurements, scores])
    return replace(installation, _definitions=dg.Definitions.merge(installation.definitions, more))


def _scanned(installation: Installation) -> Installation:
    """The installation after a first scan, without the 20,000 events that it would take minutes to store."""
    now = datetime.now(UTC)
    watch = Watch(Position.at(now), scan_begun=now, since=now, everything=False)
    content = {"feeds": dict.fromkeys(_feeds(installation), watch.to_plain())}
    installation.cursors["new_manifests"] = json.dumps(content)
    return installation


def _hours(size: int) -> list[str]:
    end = datetime.combine(AS_OF.date(), time(0), AS_OF.tzinfo)
    return [f"{end - timedelta(hours=ago):%Y-%m-%d-%H:00}" for ago in range(size, 0, -1)]


def _make_hours(directory: Path, size: int) -> None:
    """An update of each of so many hours in both feeds, an hour later, as publishing leaves them."""
    board = _installation(directory, dg.DagsterInstance.ephemeral(), size, SHIPPED_LOOKBACK).board
    for hour in _hours(size):
        moment = datetime.strptime(hour, "%Y-%m-%d-%H:%M").replace(tzinfo=AS_OF.tzinfo) + timedelta(hours=1)
        name = update_name(moment)
        for location, inputs in ((MEASUREMENTS, ()), (SCORES, (FeedInput(MEASUREMENTS, hour, name),))):
            feed = Feed(board, location)
            files = (File("part-0.parquet", 1, ""),)
            history = (Transition("published", moment),)
            record = Record(hour, name, "benchmark", "", files, Facts(inputs=inputs), history=history)
            for key, content in (
                (f"{feed.update_prefix(hour, name)}part-0.parquet", b"x"),
                (f"{feed.update_prefix(hour, name)}_SUCCESS", b"1"),
                (record_key(feed, hour, name, inputs_digest(inputs)), record.to_json()),
            ):
                path = directory / "base" / key
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(content)


def _publish(feed: Feed, day: str, inputs: Sequence[FeedInput | RawInput]) -> str:
    # A day's data is processed when the day is over: of a long history, most is old.
    return _publish_at(
        feed, day, inputs, datetime.combine(date.fromisoformat(day) + timedelta(days=1), time(2), AS_OF.tzinfo)
    )


def _publish_at(feed: Feed, partition: str, inputs: Sequence[FeedInput | RawInput], moment: datetime) -> str:
    claimed = claim(feed, partition, now=moment, owner="benchmark")
    feed.blackboard.create(f"{claimed.prefix}part-0.parquet", b"x")
    publish(stage(claimed, staged_files(claimed, 1), Facts(inputs=tuple(inputs)), now=moment), now=moment)
    return claimed.name
