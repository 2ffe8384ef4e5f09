"""The sensor for raw data: reports to Dagster which raw hours have files, and how they grow.

It is needed because `feed-assets land` writes files without Dagster. `late_data.late_days` decides on runs.
"""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from functools import partial
from typing import Any

import dagster as dg

from feed_assets.assets.external import raw_key
from feed_assets.blackboard.port import Blackboard
from feed_assets.datasets.days import is_day
from feed_assets.file_feed.digest import short_digest
from feed_assets.file_feed.record import RawInput
from feed_assets.file_feed.wording import counted
from feed_assets.late_data.turns import Turns
from feed_assets.resources.settings import Clock
from feed_assets.resources.storage import BlackboardResource
from feed_assets.sensors.ticks import MAX_EVENTS, TICK_SECONDS, load_cursor
from feed_assets.sources.raw import raw_days
from feed_assets.sources.spec import Source

DAYS_AT_ONCE = 31
"""Days that a tick lists while days before the lookback are left; later ticks list the lookback."""


@dataclass(frozen=True, slots=True)
class Hour:
    """The number and the bytes of the files in one raw hour of a source."""

    files: int
    bytes: int

    @classmethod
    def of(cls, event: dg.AssetMaterialization) -> Hour:
        """The hour that an event of `landings` tells; an empty hour if another one has made the event."""
        files, size = (event.metadata.get(name) for name in ("files", "bytes"))
        if isinstance(files, dg.IntMetadataValue) and isinstance(size, dg.IntMetadataValue):
            return cls(files.value or 0, size.value or 0)
        return EMPTY


EMPTY = Hour(0, 0)

Reported = Callable[[str], "Hour | None"]
"""The hour of a partition as it was last reported; None if it never was."""


@dataclass(frozen=True, slots=True)
class LandingReport:
    """The events of one tick for one source; for the next tick, the reported `days` and the day `reached`.

    Each day has a digest of its hours as they were reported: a cursor with the hours themselves fills a page of the UI.
    """

    events: tuple[dg.AssetMaterialization, ...]
    days: Mapping[str, str]
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
        deadline = time.monotonic() + TICK_SECONDS
        cursor, now = load_cursor(context.cursor), clock.now()
        events: list[dg.AssetMaterialization] = []
        by_key = {source.key: source for source in sources}
        first = cursor.pop("resume", None)
        turns = Turns(list(by_key), first, over=lambda: time.monotonic() > deadline or len(events) >= MAX_EVENTS)
        for key in turns:
            source, last = by_key[key], cursor.get(key)
            last = last if isinstance(last, dict) else {}
            limit = MAX_EVENTS - len(events)
            reported = partial(_last_reported, context.instance, raw_key(source))
            report = report_landings(blackboard.blackboard, source, partitions, last, reported, now=now, limit=limit)
            cursor[key] = {"days": report.days, "reached": report.reached}
            events += report.events
            if report.events:
                context.log.info(f"{key}: {counted(len(report.events), 'raw hour')} changed")
        if turns.resume:
            cursor["resume"] = turns.resume
        return dg.SensorResult(
            asset_events=events,
            skip_reason=f"{counted(len(events), 'raw hour')} reported." if events else "No raw hour has changed.",
            cursor=json.dumps(cursor, sort_keys=True),
        )

    return sensor


def report_landings(
    board: Blackboard,
    source: Source,
    partitions: dg.HourlyPartitionsDefinition,
    last_tick: Mapping[str, Any],
    reported: Reported,
    *,
    now: datetime,
    limit: int,
) -> LandingReport:
    """The raw hours of a source that have changed since they were reported, at most `limit` of them, oldest first.

    `last_tick` is the cursor of the last tick: {"days": day -> digest, "reached": its last day}. Costs a LIST of the
    ledger and of the raw files: of at most 32 days until the lookback is reached, then of the lookback; and a call of
    `reported` for each hour of a day that has changed. The events have no data version: a run that read the files
    before they are reported would count as out of date.
    """
    days: dict[str, str] = dict(last_tick.get("days", {}))
    start = now.date() - timedelta(days=source.lookback_days)
    resume = str(last_tick.get("reached"))
    first = min(start, date.fromisoformat(resume) if is_day(resume) else partitions.start.date())
    last = now.date() if first >= start else min(now.date(), first + timedelta(days=DAYS_AT_ONCE))
    raw = raw_days(board, [source.key], first, last)
    present = {str(day): _hours(read, partitions) for (_, day), read in raw.items()}
    # Asking for each hour whether it is a partition takes half a millisecond.
    first_key, last_key = partitions.get_first_partition_key() or "~", partitions.get_last_partition_key() or ""
    events: list[dg.AssetMaterialization] = []
    reached = str(last)
    for day in sorted(present.keys() | {day for day in days if str(first) <= day <= str(last)}):
        hours = {key: hour for key, hour in present.get(day, {}).items() if first_key <= key <= last_key}
        if days.get(day, _digest({})) == _digest(hours):
            continue
        # Of a day that is not in the cursor, nothing was reported.
        keys = _hour_keys(day, partitions) if day in days else []
        known = {key: hour for key in keys if (hour := reported(key)) is not None}
        changed = [key for key in sorted({*hours, *known}) if hours.get(key, EMPTY) != known.get(key, EMPTY)]
        room = limit - len(events)
        for key in changed[:room]:
            events.append(_event(source, key, hours.get(key, EMPTY), known.get(key, EMPTY)))
            known[key] = hours.get(key, EMPTY)
        days[day] = _digest(known)
        if len(changed) > room:
            reached = day
            break
    keep = min(str(start), reached)
    return LandingReport(tuple(events), {day: digest for day, digest in days.items() if day >= keep}, reached)


def _digest(hours: Mapping[str, Hour]) -> str:
    """The digest of the hours that have files."""
    filled = sorted((key, hour.files, hour.bytes) for key, hour in hours.items() if hour != EMPTY)
    return short_digest(json.dumps(filled))


def _hour_keys(day: str, partitions: dg.HourlyPartitionsDefinition) -> list[str]:
    moments = (datetime.strptime(f"{day} {hour}", "%Y-%m-%d %H") for hour in range(24))  # noqa: DTZ007 - a name, not an instant
    return [moment.strftime(partitions.fmt) for moment in moments]


def _last_reported(instance: dg.DagsterInstance, key: dg.AssetKey, partition: str) -> Hour | None:
    of_hour = dg.AssetRecordsFilter(asset_key=key, asset_partitions=[partition])
    records = instance.fetch_materializations(of_hour, limit=1).records
    event = records[0].asset_materialization if records else None
    return Hour.of(event) if event else None


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
