"""The tables and partitions that the catalog should have, from what lies on the blackboard.

Here: names, columns, formats and locations. Not here: requests to Glue (`glue`), and comparing (`reconciling`).
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from pathlib import Path
from tempfile import TemporaryDirectory

from feed_assets.blackboard.port import Blackboard
from feed_assets.data_catalog.glue import CatalogError, Partition, Table
from feed_assets.datasets.days import ONE_DAY, hour_name
from feed_assets.datasets.declaration import FeedDeclaration
from feed_assets.engine.duckdb_sql import literal, suffix_of
from feed_assets.engine.fetched_files import fetch
from feed_assets.file_feed.feed import Feed, Update
from feed_assets.file_feed.record import Column
from feed_assets.file_feed.scanning import latest_of_all
from feed_assets.sources.layout import raw_file_key, raw_prefix
from feed_assets.sources.raw import RECORD_COLUMNS, raw_days
from feed_assets.sources.spec import Source

DATE, HOUR = "date", "hour"
_HOUR_NAME = re.compile(r"(\d{4}-\d\d-\d\d)-(\d\d)(?::00)?(.*)")
"""The name of an hour: day, hour, and what tells it apart if the clock changes: `+0100` or `:30`."""
_SAME_TYPES = {"integer": "int", "long": "bigint", "short": "smallint", "byte": "tinyint", "real": "float"}
_TIMES = re.compile(r"\btimestamp_(?:ntz|ltz)\b")
_UNKNOWN = re.compile(r"\b(interval|variant|void|time\()")
_FORMATS = {"parquet": "parquet", "csv": "csv", "tsv": "tsv", "json": "json", "jsonl": "json", "ndjson": "json"}


@dataclass(frozen=True, slots=True)
class Wanted:
    """A table, and its partitions by name: all partitions, or those that were asked for."""

    table: Table
    partitions: Mapping[str, Partition]


def feed_table(
    feed: Feed,
    declaration: FeedDeclaration,
    partitioned_by: Sequence[str],
    *,
    now: datetime,
    only: Collection[str] | None = None,
) -> Wanted:
    """The table of a feed, with the update in force of each partition, or of `only` these.

    `partitioned_by` names the keys of its partitions: none, `date`, `date` and `hour`, or `partition`. Raises
    CatalogError if a column has a type that Glue does not know, or files a format that cannot be described.
    """
    columns = tuple((column.name, hive_type(column)) for column in declaration.columns)
    keys = _keys(partitioned_by, (name for name, _ in columns))
    found = latest_of_all(feed, now=now, only=only if partitioned_by else None)
    partitions = {
        name: Partition(
            values=_values(name, len(keys)),
            location=update.uri,
            format=_format(update),
            facts={"update": update.name, "partition": name},
        )
        for name, update in found.items()
    }
    # A partition has its own format. A table without partitions is its update.
    whole = partitions.get("") if not keys else None
    table = Table(
        name=table_name(declaration.location),
        columns=columns,
        keys=keys,
        location=whole.location if whole else feed.uri,
        format=whole.format if whole else "parquet",
        owner=feed.uri,
        facts=whole.facts if whole else {},
    )
    return Wanted(table, partitions if keys else {})


def source_table(
    board: Blackboard, source: Source, first: date, last: date, *, only: Collection[str] | None = None
) -> Wanted | None:
    """The table of a source, with each raw hour from `first` to `last`, or of `only` these, that has a file.

    None if only the files themselves tell the source's columns, and there is none. Raises CatalogError as `feed_table`,
    and if the file that tells them is damaged.
    """
    declared = dict(source.format.declared) or _columns_of_newest(board, source, first, last)
    if not declared:
        return None
    if only is not None:
        days = [date.fromisoformat(name[:10]) for name in only]
        first, last = min(days, default=last), max(days, default=last)
    raw = {str(day): read for (_, day), read in raw_days(board, [source.key], first, last).items()}
    columns = tuple((name, hive_type(Column(name, of))) for name, of in {**declared, **RECORD_COLUMNS}.items())
    keys = _keys((DATE, HOUR), (name for name, _ in columns))
    prefix = board.uri(f"{raw_prefix(source.key)}x").removesuffix("/x")
    hours = [(day, hour) for day, read in raw.items() for hour in sorted({file.path[:2] for file in read.files})]
    partitions = {
        name: Partition((day, hour), f"{prefix}/{day}/{hour}", "parquet", {"partition": name})
        for day, hour in hours
        if (name := hour_name(day, hour)) and (only is None or name in only)
    }
    table = Table(source_table_name(source), columns, keys, prefix, "parquet", owner=prefix)
    return Wanted(table, partitions)


def table_name(location: str) -> str:
    """The name of the table of a feed, such as `clean_ads_v1_0`."""
    return re.sub(r"[^a-z0-9]+", "_", location.lower()).strip("_")


def source_table_name(source: Source) -> str:
    """The name of the table of a source's raw hours, such as `raw_clicks_shop`."""
    return table_name(f"raw/{source.key}")


def hive_type(column: Column) -> str:
    """The type in Glue of a column with a type of Spark. Raises CatalogError if there is none."""
    text = _TIMES.sub("timestamp", column.type.strip().lower())
    if _UNKNOWN.search(text):
        raise CatalogError(f"The column {column.name} is {column.type}, which Glue does not know: use another type.")
    return _SAME_TYPES.get(text, text)


def _keys(names: Iterable[str], columns: Iterable[str]) -> tuple[str, ...]:
    """The keys of a table's partitions; no key has the name of a column."""
    taken = {column.lower() for column in columns}
    found = []
    for key in names:
        while key in taken:
            key = f"partition_{key}"  # noqa: PLW2901 - the same key, under a free name
        found.append(key)
    return tuple(found)


def _values(name: str, keys: int) -> tuple[str, ...]:
    """The values of the keys of a partition with this name."""
    hour = _HOUR_NAME.fullmatch(name)
    return (hour[1], hour[2] + hour[3]) if hour and keys == len((DATE, HOUR)) else (name,)


def _format(update: Update) -> str:
    """The format of an update's files, by the name of the first; Parquet without files. Raises CatalogError."""
    if not update.files:
        return "parquet"
    suffix = suffix_of(update.files[0].path)
    if suffix not in _FORMATS:
        raise CatalogError(
            f"{update.uri}/{update.files[0].path} has a format that Glue is not told about: {', '.join(_FORMATS)} can "
            "be described, by the ends of the files' names."
        )
    return _FORMATS[suffix]


def _columns_of_newest(board: Blackboard, source: Source, first: date, last: date) -> dict[str, str]:
    """The columns of the newest raw file, for a source whose files name them: all are strings.

    Raises CatalogError if the file is damaged.
    """
    import duckdb  # noqa: PLC0415 - slow to load, and few sources need it

    recent = max(first, last - source.lookback_days * ONE_DAY)
    for start in (recent, first):
        days = raw_days(board, [source.key], start, last)
        if not days:
            continue
        (_, day), read = max(days.items())
        with TemporaryDirectory(prefix="catalog-") as folder:
            key = raw_file_key(source.key, str(day), read.files[-1].path)
            (path,) = fetch(board, {key: read.files[-1].tag}, Path(folder) / "files")
            # `num_children` is NULL for columns, and not for the whole.
            query = f"SELECT name FROM parquet_schema({literal(str(path))}) WHERE num_children IS NULL"  # noqa: S608 - quoted path
            try:
                names = [str(name) for (name,) in duckdb.execute(query).fetchall()]
            except duckdb.Error:
                why = f"As the newest file it names the columns of {source.key}: land it again."
                raise CatalogError(f"{board.uri(key)} is damaged. {why}") from None
        return {name: "string" for name in names if name not in RECORD_COLUMNS}
    return {}
