"""What the Dagster UI shows of an update: where it is, what is in it, what it was made from.

Here: turning a record into Dagster metadata. Not here: metadata that only one asset has.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import dagster as dg

from feed_assets.file_feed import FeedInput, RawInput, Staged, Update, read_record

MAX_ROWS = 100
"""Rows of a metadata table; what is left out is said in its last row."""


def update_metadata(staged: Staged, previous: Update | None) -> dict[str, dg.MetadataValue]:
    """The metadata of a staged update; `previous` is the one in force when it was begun.

    Growth is that of the raw data since `previous` read it: one LIST and one GET where raw data was read at all.
    """
    facts, files = staged.record.facts, staged.record.files
    location, partition = staged.claim.feed.location, staged.claim.partition
    size = sum(file.size for file in files)
    read = staged.record.read_sets
    known = read_record(previous.feed, partition, previous.name) if previous and read else None
    earlier = known.read_sets if known else {}
    shown: dict[str, dg.MetadataValue] = {
        "update": dg.MetadataValue.text(staged.claim.name),
        "path": dg.MetadataValue.path(staged.claim.uri),
        "dagster/uri": dg.MetadataValue.text(staged.claim.uri),
        "files": dg.MetadataValue.int(len(files)),
        "bytes": dg.MetadataValue.int(size),
        "read set": dg.MetadataValue.table(_input_rows(facts.inputs)),
        "show files": dg.MetadataValue.text(
            f"feed-assets feed files {staged.claim.feed.uri}" + (f" --partition {partition}" if partition else "")
        ),
        "feed": dg.MetadataValue.text(location),
    }
    if facts.rows is not None:
        shown |= {
            "dagster/row_count": dg.MetadataValue.int(facts.rows.published),
            "rows read": dg.MetadataValue.int(facts.rows.read),
            "rows quarantined": dg.MetadataValue.int(facts.rows.quarantined),
            "rows duplicate": dg.MetadataValue.int(facts.rows.duplicates),
        }
        if facts.rows.reasons:
            shown["not published, by reason"] = _count_table(facts.rows.reasons)
    if previous is not None:
        shown["update in force before"] = dg.MetadataValue.text(previous.name)
        shown["change in bytes"] = dg.MetadataValue.text(_change(previous.bytes, size))
    if read:
        shown["growth"] = dg.MetadataValue.table(
            [_growth_row(now, earlier.get(source)) for source, now in read.items()]
        )
    return shown


def _growth_row(now: RawInput, was: RawInput | None) -> dg.TableRecord:
    before = was.bytes if was else 0
    growth = _change(before, now.bytes) if was else "first read"
    return dg.TableRecord({"source": now.source, "bytes before": before, "bytes": now.bytes, "growth": growth})


def _change(before: int, after: int) -> str:
    """In bytes and percent, such as `+1,024 bytes (+10.0 %)`."""
    share = f" ({(after - before) / before:+.1%})" if before else ""
    return f"{after - before:+,} bytes{share}"


def _input_rows(inputs: Iterable[FeedInput | RawInput]) -> list[dg.TableRecord]:
    rows = [_input_row(each) for each in inputs] or [_row("none", "", "", 0, 0)]
    if len(rows) > MAX_ROWS:
        rows = [*rows[:MAX_ROWS], _row("...", "", f"{len(rows) - MAX_ROWS} more", 0, 0)]
    return rows


def _input_row(each: FeedInput | RawInput) -> dg.TableRecord:
    context = " (context)" if each.context else ""
    if isinstance(each, RawInput):
        return _row(f"raw/{each.source}{context}", each.partition, "", len(each.files), each.bytes)
    return _row(f"{each.feed}{context}", each.partition or "", each.update or "none", 0, 0)


def _row(source: str, partition: str, update: str, files: int, size: int) -> dg.TableRecord:
    return dg.TableRecord({"input": source, "partition": partition, "update": update, "files": files, "bytes": size})


def _count_table(counts: Mapping[str, int]) -> dg.TableMetadataValue:
    return dg.MetadataValue.table(
        [dg.TableRecord({"reason": reason, "rows": count}) for reason, count in sorted(counts.items())]
    )
