"""Raw partitions as they are now: the files of each day of a source, and their records as a frame.

Here: listing, and reading exactly the listed files. Not here: writing (see `landing`), and what a change means (see
`growth`).

A file of a landing counts only if the ledger has that landing. The ledger is read first, so that a day shows a landing
that completes meanwhile whole or not at all. The newest landing of a content counts, so it replaces the earlier
landings at once. Files of other receivers always count.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import replace
from datetime import date, datetime
from itertools import groupby
from typing import TYPE_CHECKING

from feed_assets.blackboard.listing import list_all, list_folders
from feed_assets.blackboard.location import readable_uris
from feed_assets.blackboard.port import PAGE_SIZE, Blackboard, Entry
from feed_assets.datasets.days import is_day
from feed_assets.file_feed.record import RawFile, RawInput
from feed_assets.sources.known_contents import known_by_tags
from feed_assets.sources.layout import RAW, LandingId, landed_by, raw_file_key, raw_prefix, records_in, split_raw
from feed_assets.sources.ledger import counting, entries, touched_days

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from feed_assets.sources.spec import Source

RECORD_COLUMNS = {"_file": "string", "_line": "bigint", "_malformed": "string"}
"""Column -> Spark SQL type, of the columns besides the partner's. `_file` is the base name of the partner's file, and
`_line` the number of the line or record in it, from 1. `_malformed` is the whole line if it does not parse as
declared."""


def raw_days(
    blackboard: Blackboard, source_keys: Iterable[str], first: date, last: date
) -> dict[tuple[str, date], RawInput]:
    """The read set of each of these sources in each day from `first` to `last`; days without a file are left out.

    For each source, one listing of the raw files, and one of the landings that touched these days. A landing that
    completes meanwhile is seen in all of these days or in none.
    """
    days: dict[tuple[str, date], RawInput] = {}
    for source in source_keys:
        met: set[LandingId] = set()
        before = -1
        while before < len(met):  # read again if a landing was met: earlier days may have been read without it
            before = len(met)
            reads = list(_each_day(blackboard, source, first, last, met, at_once=None))
        days |= {(source, date.fromisoformat(read.partition)): read for read in reads}
    return days


def each_day(blackboard: Blackboard, source_key: str, first: date, last: date) -> Iterator[RawInput]:
    """The read set of each day from `first` to `last`, in order; days without a file are left out.

    Days are listed as the iterator reaches them. A landing that completes meanwhile is seen whole in each day or not
    at all, and may be seen in some of its days only.
    """
    yield from _each_day(blackboard, source_key, first, last, set(), at_once=PAGE_SIZE)


def _each_day(
    blackboard: Blackboard, source_key: str, first: date, last: date, met: set[LandingId], *, at_once: int | None
) -> Iterator[RawInput]:
    """The days in order; `at_once` landings, and the rest of their last day, are listed together.

    `met` has landings that are known to count; landings that the listing did not show are added to it.
    """
    start: str | None = str(first)
    absent: set[str] = set()
    while start is not None:
        known, following = _landings_by_day(blackboard, source_key, start, str(last), at_once)
        listed = _entries(blackboard, raw_prefix(source_key), start, following or f"{last}0")
        for day, objects in groupby(listed, key=lambda entry: _day_of(source_key, entry)):
            files = _counting_files(blackboard, source_key, day, list(objects), known.get(day, set()), met, absent)
            if files and is_day(day):
                yield RawInput(source_key, day, tuple(files))
        start = following


def latest_days(blackboard: Blackboard, source_key: str, most: int) -> list[date]:
    """The last days of a source below which there is a file, at most `most`, in order.

    One listing of folders: a request for each 1,000 days.
    """
    folders = filter(is_day, list_folders(blackboard, raw_prefix(source_key)))
    return [date.fromisoformat(day) for day in deque(folders, maxlen=most)]


def has_raw_data(blackboard: Blackboard) -> bool:
    """Whether anything has ever been put below `raw/` on this blackboard; one request."""
    return bool(blackboard.page(RAW).entries)


def keys_with_raw_data(blackboard: Blackboard) -> list[str]:
    """The keys of the sources below which there is a file, described or not. A LIST, and one for each kind."""
    return [
        f"{kind}/{name}"
        for kind in list_folders(blackboard, RAW)
        if not kind.startswith(".")  # the ledger and its neighbours
        for name in list_folders(blackboard, f"{RAW}{kind}/")
    ]


def read_set(blackboard: Blackboard, source_key: str, day: date) -> RawInput:
    """The files that one day of a source has now; possibly none."""
    return read_sets(blackboard, source_key, [day])[day]


def read_sets(blackboard: Blackboard, source_key: str, days: Collection[date]) -> dict[date, RawInput]:
    """The files that each of these days of a source has now, possibly none; listed as by `raw_days`."""
    found = raw_days(blackboard, [source_key], min(days), max(days))
    return {day: found.get((source_key, day), RawInput(source_key, str(day), ())) for day in days}


def raw_keys(blackboard: Blackboard, source_key: str, first: date, last: date) -> set[str]:
    """The keys of all objects below these days of a source, whether or not they count. One listing."""
    return {entry.key for entry in _entries(blackboard, raw_prefix(source_key), str(first), f"{last}0")}


def evening(raw_input: RawInput, hours: int) -> RawInput:
    """The files of a day's last `hours` hours, as context for the day after."""
    first = f"{24 - hours:02}"
    files = tuple(file for file in raw_input.files if file.path >= first)
    listed = {hour: totals for hour, totals in raw_input.listed.items() if hour >= first}
    return replace(raw_input, files=files, listed=listed, context=True)


def evening_read(
    read: RawInput, there: RawInput, hours: int, in_full: Callable[[RawInput], RawInput]
) -> RawInput | None:
    """The files of the last `hours` hours that a day's update read and that are still `there`, as context.

    Later files are not in that update. If they were context, an event in them that is delivered again on the day after
    would be left out on both days. `in_full` fetches the files of `read` if its record has only totals; None
    if they are lost.
    """
    if evening(read, hours).hours == evening(there, hours).hours:
        return evening(there, hours)
    read = in_full(read)
    if read.listed:
        return None
    present = set(there.files)
    return evening(replace(read, files=tuple(file for file in read.files if file in present)), hours)


def raw_frame(spark: SparkSession, blackboard: Blackboard, source: Source, *raw_inputs: RawInput) -> DataFrame:
    """The records of exactly these files, possibly none, in one read: the partner's columns, then `RECORD_COLUMNS`.

    Null tokens are NULL. So is a column that a file lacks: files of different days may have different columns. Raises
    Spark's own error if a file is gone or is not Parquet.
    """
    from pyspark.sql import functions  # noqa: PLC0415 - listing must not need Spark

    from feed_assets.engine.listed_files import read_listed  # noqa: PLC0415 - as above
    from feed_assets.sources.expressions import empty_frame, needed_columns, schema_of  # noqa: PLC0415 - as above
    from feed_assets.sources.records import with_nulls  # noqa: PLC0415 - as above

    declared = dict(source.format.declared) or dict.fromkeys(needed_columns(spark, source), "string")
    columns = declared | RECORD_COLUMNS
    sizes = _sizes(blackboard, raw_inputs)
    if not sizes:
        return empty_frame(spark, columns)
    frame: DataFrame = with_nulls(read_listed(spark.read, "parquet", sizes, schema_of(spark, columns)), source)
    if all(landed_by(file.path) for each in raw_inputs for file in each.files):
        return frame
    # Files of other receivers lack `_file` and `_line`: use the name and the row of the raw file.
    return frame.withColumns(
        {
            "_file": functions.expr("coalesce(_file, _metadata.file_name)"),
            "_line": functions.expr("coalesce(_line, _metadata.row_index + 1)"),
        }
    )


def record_count(spark: SparkSession, blackboard: Blackboard, raw_inputs: Collection[RawInput]) -> int:
    """How many records these files have: one Spark job over the footers of files whose names lack the number."""
    from feed_assets.engine.listed_files import row_count  # noqa: PLC0415 - listing must not need Spark

    known = sum(file.records or 0 for each in raw_inputs for file in each.files)
    return known + row_count(spark, _sizes(blackboard, _silent(raw_inputs)))


def records_by_hour(
    spark: SparkSession, blackboard: Blackboard, raw_inputs: Collection[RawInput]
) -> dict[datetime, int]:
    """How many records these files have by hour (UTC); as `record_count`."""
    from feed_assets.engine.listed_files import rows_by_path  # noqa: PLC0415 - listing must not need Spark

    silent = _sizes(blackboard, _silent(raw_inputs))
    counts = Counter(rows_by_path(spark, silent, r"/(\d{4}-\d\d-\d\d/\d\d)/[^/]+$"))
    for each in raw_inputs:
        for file in each.files:
            counts[f"{each.partition}/{file.path[:2]}"] += file.records or 0
    return {datetime.strptime(f"{hour}+0000", "%Y-%m-%d/%H%z"): count for hour, count in counts.items()}


def _silent(raw_inputs: Iterable[RawInput]) -> list[RawInput]:
    """The files whose names do not have the number of their records."""
    return [replace(each, files=tuple(file for file in each.files if file.records is None)) for each in raw_inputs]


def changed_raw_files(blackboard: Blackboard, raw_inputs: Iterable[RawInput]) -> list[str]:
    """The URIs of the files of these read sets that are gone or have another size or tag; one listing of each source.

    A listing goes from the first day to the last.
    """
    read: dict[str, dict[str, tuple[int, str]]] = {}
    days: dict[str, set[str]] = {}
    for each in raw_inputs:
        of_source = read.setdefault(each.source, {})
        for file in each.files:
            of_source[raw_file_key(each.source, each.partition, file.path)] = file.size, file.tag
            days.setdefault(each.source, set()).add(each.partition)
    changed: list[str] = []
    for source, touched in days.items():
        other: dict[str, list[Entry]] = {}
        for entry in _entries(blackboard, raw_prefix(source), min(touched), f"{max(touched)}0"):
            if read[source].get(entry.key) == (entry.size, entry.tag):
                del read[source][entry.key]
            elif entry.key in read[source]:
                other.setdefault(_day_of(source, entry), []).append(entry)
        for day, entries_of_day in other.items():
            prefix = f"{raw_prefix(source)}{day}/"
            now = RawInput(source, day, tuple(_file(entry, prefix) for entry in entries_of_day))
            for file in known_by_tags(blackboard, now).files:
                if read[source][prefix + file.path] == (file.size, file.tag):
                    del read[source][prefix + file.path]
        changed += map(blackboard.uri, read[source])
    return changed


def _sizes(blackboard: Blackboard, raw_inputs: Iterable[RawInput]) -> dict[str, int]:
    """URI -> bytes of the files of these read sets. Raises InvalidKeyError if a link leads out of the blackboard."""
    sizes = {
        raw_file_key(each.source, each.partition, file.path): file.size for each in raw_inputs for file in each.files
    }
    return dict(zip(readable_uris(blackboard, sizes), sizes.values(), strict=True))


def _landings_by_day(
    blackboard: Blackboard, source_key: str, first: str, last: str, at_once: int | None
) -> tuple[dict[str, set[LandingId]], str | None]:
    """The landings that touched each day, at least `at_once` of them, and the next touched day (None at the end)."""
    known: dict[str, set[LandingId]] = {}
    for count, (day, landing) in enumerate(touched_days(blackboard, source_key, first, last)):
        if at_once is not None and count >= at_once and day not in known:
            return known, day
        known.setdefault(day, set()).add(landing)
    return known, None


def _counting_files(
    blackboard: Blackboard,
    source_key: str,
    day: str,
    objects: Sequence[Entry],
    known: set[LandingId],
    met: set[LandingId],
    absent: set[str],
) -> list[RawFile]:
    """The files of a day that count: those of other receivers, and of the newest `known` or `met` landings.

    A file of any other landing leads to a lookup of its content's entries: the landing may have been killed right after
    its entry, or have just completed. Contents without an entry are added to `absent`.
    """
    prefix = f"{raw_prefix(source_key)}{day}/"
    while True:
        files = [_file(entry, prefix) for entry in objects]
        landings = {file: landed_by(file.path) for file in files if split_raw(f"{day}/{file.path}")}
        found = known | met
        unknown = {each.digest for each in landings.values() if each is not None and each not in found} - absent
        more = {each for digest in unknown for each in entries(blackboard, source_key, digest)} - found
        absent |= unknown - {each.digest for each in more}
        if not more:
            newest = {None, *counting(found)}
            return [file for file, landing in landings.items() if landing in newest]
        met |= more
        # The landing may have completed after the files were listed.
        objects = list(list_all(blackboard, prefix))


def _file(entry: Entry, prefix: str) -> RawFile:
    path = entry.key.removeprefix(prefix)
    return RawFile(path, entry.size, entry.tag, records_in(path))


def _day_of(source_key: str, entry: Entry) -> str:
    return entry.key[len(raw_prefix(source_key)) :].partition("/")[0]


def _entries(blackboard: Blackboard, prefix: str, first: str, end: str) -> Iterator[Entry]:
    """Objects below folders that are named by a day, from `first` to before `end`."""
    for entry in list_all(blackboard, prefix, after=f"{prefix}{first}"):
        if entry.key[len(prefix) :] >= end:
            return
        yield entry
