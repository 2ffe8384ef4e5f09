"""An update and its record as Dagster metadata: its location, its content and its inputs.

Numbers stay numbers, so that Dagster plots them over the partitions. `asset_events` makes the events.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import dagster as dg

from feed_assets.file_feed.control import read_record
from feed_assets.file_feed.feed import Feed, Update
from feed_assets.file_feed.quarantine import counts_what_was_read
from feed_assets.file_feed.record import FeedInput, RawInput, Record, total

MAX_ROWS = 100
"""Rows of a metadata table; one more row counts the rest."""

UPDATE = "update"
STATE = "state"
IN_FORCE = "in force"
DATA_VERSION_TAG = "dagster/data_version"


def staged_metadata(feed: Feed, partition: str | None, update: str) -> dict[str, Any]:
    """The metadata of an update before its checks decide, without path and rows, as it has no readers."""
    return {
        UPDATE: update,
        STATE: "staged: its checks decide whether it is published",
        "show files": command_for(feed, partition, update),
    }


def published_metadata(update: Update, record: Record | None, previous: Update | None) -> dict[str, Any]:
    """The metadata of an update in force; `previous` is the update that was in force when it was begun.

    Growth is the growth of the raw data since `previous` read it. Costs a LIST and a GET if the update read raw data.
    """
    shown: dict[str, Any] = {
        UPDATE: update.name,
        STATE: IN_FORCE,
        "path": dg.MetadataValue.path(update.uri),
        "show files": command_for(update.feed, update.partition, update.name),
        "files": len(update.files),
        "bytes": update.bytes,
    }
    if previous is not None:
        shown |= {"update in force before": previous.name, "change in bytes": update.bytes - previous.bytes}
    if record is None:
        return shown
    shown["read set"] = dg.MetadataValue.table(_input_rows(record.facts.inputs))
    rows = record.facts.rows
    if rows is not None:
        shown["dagster/row_count"] = rows.published
    if rows is not None and counts_what_was_read(record):
        shown |= {
            "rows read": rows.read,
            "rows quarantined": rows.quarantined,
            "rows duplicate": rows.duplicates,
            "quarantined, %": _percent(rows.quarantined, rows.read),
        }
        if rows.reasons:
            shown["not published, by reason"] = _count_table(rows.reasons)
    return shown | _growth(record, previous)


def command_for(feed: Feed, partition: str | None, update: str) -> str:
    """The command that lists the files of this update, in any state."""
    return f"feed-assets feed files {feed.arguments(partition)} --update {update}"


def _growth(record: Record, previous: Update | None) -> dict[str, Any]:
    """The growth of the raw data since `previous` read it, in all and by source, or by source and day.

    It is measured in records where their number is known, as the sensors measure it.
    """
    read = record.read_sets
    if not read:
        return {}
    known = read_record(previous.feed, previous.partition, previous.name) if previous else None
    earlier = known.read_sets if known else {}
    several_days = len({day for _, day in read}) > 1
    rows = [
        _growth_row(f"{source} {day}" if several_days else source, each, earlier.get((source, day)))
        for (source, day), each in read.items()
    ]
    shown: dict[str, Any] = {
        "raw files": sum(each.count for each in read.values()),
        "raw bytes": sum(each.bytes for each in read.values()),
        "growth": dg.MetadataValue.table(rows[:MAX_ROWS]),
    }
    now, before = (total([each.records for each in sets.values()]) for sets in (read, earlier))
    if now is not None:
        shown["raw records"] = now
    if now is None or before is None:
        now, before = (sum(each.bytes for each in sets.values()) for sets in (read, earlier))
    if before:
        shown["raw growth, %"] = _percent(now - before, before)
    return shown


def _percent(part: int, whole: int) -> float:
    return round(100 * part / whole, 2) if whole else 0.0


def _growth_row(source: str, now: RawInput, was: RawInput | None) -> dg.TableRecord:
    before = was.bytes if was else 0
    growth = _change(was, now) if was else "first read"
    return dg.TableRecord({"source": source, "bytes before": before, "bytes": now.bytes, "growth": growth})


def _change(was: RawInput, now: RawInput) -> str:
    """The change and its percent, `+512 records (+10.0 %)`: in records, as sensors decide, or else in bytes."""
    before, after, unit = was.records, now.records, "records"
    if before is None or after is None:
        before, after, unit = was.bytes, now.bytes, "bytes"
    share = f" ({(after - before) / before:+.1%})" if before else ""
    return f"{after - before:+,} {unit}{share}"


def _input_rows(inputs: Iterable[FeedInput | RawInput]) -> list[dg.TableRecord]:
    rows = [_input_row(each) for each in inputs] or [_row("none", "", "")]
    if len(rows) > MAX_ROWS:
        rows = [*rows[:MAX_ROWS], _row("...", "", f"{len(rows) - MAX_ROWS} more")]
    return rows


def _input_row(each: FeedInput | RawInput) -> dg.TableRecord:
    context = " (context)" if each.context else ""
    if isinstance(each, RawInput):
        return _row(f"raw/{each.source}{context}", each.partition, "", each.count, each.bytes)
    return _row(f"{each.feed}{context}", each.partition or "", each.update or "none")


def _row(source: str, partition: str, update: str, files: int | str = "", size: int | str = "") -> dg.TableRecord:
    """A row of the table; a record names the update that was read of a feed, and not its files: they stay empty."""
    return dg.TableRecord({"input": source, "partition": partition, "update": update, "files": files, "bytes": size})


def _count_table(counts: Mapping[str, int]) -> dg.TableMetadataValue:
    return dg.MetadataValue.table(
        [dg.TableRecord({"reason": reason, "rows": count}) for reason, count in sorted(counts.items())]
    )
