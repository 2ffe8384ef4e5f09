"""The sensor for raw data: reports to Dagster which raw hours have files, and how they grow.

It is needed because `feed-assets land` writes files without Dagster. `dependencies.late_days` decides on runs.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from typing import Any

import dagster as dg

from feed_assets.assets import raw_key
from feed_assets.blackboard import Blackboard
from feed_assets.datasets import is_day
from feed_assets.file_feed import RawInput
from feed_assets.file_feed.wording import counted
from feed_assets.resources import BlackboardResource, Clock
from feed_assets.sensors.ticks import MAX_EVENTS, load_cursor
from feed_assets.sources import Source, raw_days

DAYS_AT_ONCE = 31
"""Days that a tick lists while days before the lookback are left; later ticks list the lookback."""


@dataclass(frozen=True, slots=True)
class Hour:
    """The number and the bytes of the files in one raw hour of a source."""

    files: int
    bytes: int

    def __str__(self) -> str:
        return f"{self.files}/{self.bytes}"

    @classmethod
    def of(cls, text: object) -> Hour:
        """Parse the text of `str(hour)`; any other text is an empty hour."""
        files, _, size = str(text).partition("/")
        return cls(int(files), int(size)) if files.isdigit() and size.isdigit() else cls(0, 0)


@dataclass(frozen=True, slots=True)
class LandingReport:
    """The events of one tick for one source; for the next tick, the `known` hours and the day `reached`."""

    events: tuple[dg.AssetMaterialization, ...]
    known: Mapping[str, str]
    reached: str


def landings(
    sources: Sequence[Source], partitions: dg.HourlyPartitionsDefinition, *, interval_seconds: int
) -> dg.SensorDefinition:
    """Watches the raw files of every source: older days once, then the days of its lookback in each tick."""

    @dg.sensor(
        name="landings",
        minimum_interval_seconds=interval_seconds,
        default_status=dg.DefaultSensorStatus.RUNNING,
        description=(
            "Reports each raw hour whose files have changed, with the number and the bytes of its files, as a "
            f"materialization of the raw asset: at most {MAX_EVENTS} in a tick. It requests no runs."
        ),
    )
    def sensor(context: dg.SensorEvaluationContext, blackboard: BlackboardResource, clock: Clock) -> dg.SensorResult:
        cursor, now = load_cursor(context.cursor), clock.now()
        events: list[dg.AssetMaterialization] = []
        for source in sources:
            last = cursor.get(source.key)
            last = last if isinstance(last, dict) else {}
            limit = MAX_EVENTS - len(events)
            report = report_landings(blackboard.blackboard, source, partitions, last, now=now, limit=limit)
            cursor[source.key] = {"known": report.known, "reached": report.reached}
            events += report.events
            if report.events:
                context.log.info(f"{source.key}: {counted(len(report.events), 'raw hour')} changed")
        return dg.SensorResult(
            asset_events=events,
            skip_reason=None if events else "No raw hour has changed.",
            cursor=json.dumps(cursor, sort_keys=True),
        )

    return sensor


def report_landings(
    board: Blackboard,
    source: Source,
    partitions: dg.HourlyPartitionsDefinition,
    last_tick: Mapping[str, Any],
    *,
    now: datetime,
    limit: int,
) -> LandingReport:
    """The raw hours of a source that have changed since they were reported, at most `limit` of them, oldest first.

    `last_tick` is the cursor of the last tick: {"known": partition -> files/bytes, "reached": its last day}. Costs a
    LIST of the ledger and of the raw files: of at most 32 days until the lookback is reached, then of the lookback.
    The events have no data version: a run that read the files before they are reported would count as out of date.
    """
    known = {str(key): str(value) for key, value in (last_tick.get("known") or {}).items()}
    start = now.date() - timedelta(days=source.lookback_days)
    resume = str(last_tick.get("reached"))
    first = min(start, date.fromisoformat(resume) if is_day(resume) else partitions.start.date())
    last = now.date() if first >= start else min(now.date(), first + timedelta(days=DAYS_AT_ONCE))
    raw = raw_days(board, [source.key], first, last)
    present = {key: hour for read in raw.values() for key, hour in _hours(read, partitions).items()}
    watched = {key for key in known if str(first) <= key[:10] <= str(last)}
    hours = {key: present.get(key, Hour(0, 0)) for key in sorted(present.keys() | watched)}
    changed = [key for key, hour in hours.items() if str(hour) != known.get(key) and partitions.has_partition_key(key)]
    reported = changed[: max(limit, 0)]
    events = tuple(_event(source, key, hours[key], Hour.of(known.get(key))) for key in reported)
    known |= {key: str(hours[key]) for key in reported}
    reached = changed[len(reported)][:10] if len(reported) < len(changed) else str(last)
    keep = min(str(start), reached)
    return LandingReport(events, {key: state for key, state in known.items() if key[:10] >= keep}, reached)


def _hours(read: RawInput, partitions: dg.HourlyPartitionsDefinition) -> dict[str, Hour]:
    """Files and bytes of each hour of a day, by the hour's partition key."""
    files: Counter[str] = Counter()
    sizes: Counter[str] = Counter()
    for file in read.files:
        hour = file.path.partition("/")[0]
        moment = datetime.strptime(f"{read.partition} {hour}", "%Y-%m-%d %H")  # noqa: DTZ007 - a name, not an instant
        key = moment.strftime(partitions.fmt)
        files[key] += 1
        sizes[key] += file.size
    return {key: Hour(files[key], sizes[key]) for key in files}


def _event(source: Source, partition: str, now: Hour, before: Hour) -> dg.AssetMaterialization:
    growth = {"growth, %": round(100 * (now.bytes - before.bytes) / before.bytes, 2)} if before.bytes else {}
    text = f"{counted(now.files, 'file')}, {now.bytes:,} bytes"
    was = f" (before: {counted(before.files, 'file')}, {before.bytes:,} bytes)" if before.files else ""
    return dg.AssetMaterialization(
        raw_key(source),
        partition=partition,
        description=f"{text}{was}.",
        metadata={"files": now.files, "bytes": now.bytes, "new bytes": now.bytes - before.bytes, **growth},
    )
