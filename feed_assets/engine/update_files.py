"""Reading explicit lists of files with Spark, and writing a DataFrame as the files of one claim.

Here: the only places where Spark touches feed files. Not here: the choice of files, and publishing them.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import reduce
from pathlib import PurePosixPath
from time import monotonic, sleep
from typing import Any
from uuid import uuid4

from py4j.protocol import Py4JJavaError
from pyspark import SparkContext
from pyspark.sql import Column, DataFrame, SparkSession, functions
from pyspark.sql.types import StringType, StructField, StructType

from feed_assets.engine.buckets import path_to_write
from feed_assets.engine.csv_dialect import (
    BACKSLASH,
    BLANK_LINE,
    BYTE_ORDER_MARK,
    DOUBLED,
    HEADER_LINES,
    SEPARATORS,
    Dialect,
    dialect_of,
    part_of_record,
    read_header,
    record_line,
    records,
    require_separator,
    require_whole,
)
from feed_assets.engine.jvm import query_status, wait_for_events
from feed_assets.engine.listed_files import read_listed
from feed_assets.engine.moments import JSON_TIMES
from feed_assets.engine.spark_schemas import footer
from feed_assets.engine.sql import quoted, text_literal
from feed_assets.file_feed.errors import FeedError
from feed_assets.file_feed.feed import Update
from feed_assets.file_feed.names import is_hidden

READERS = {".parquet": "parquet", ".csv": "csv", ".tsv": "tsv", ".json": "json", ".jsonl": "json", ".ndjson": "json"}
COMPRESSION_SUFFIXES = (".gz", ".bz2", ".zst", ".snappy")
ATTEMPTS_END_WITHIN = 180
"""Seconds: longer than Spark takes to see that an executor is lost."""
SCHEMA_KEY = "org.apache.spark.sql.parquet.row.metadata"
"""Spark's entry in the footer of a Parquet file: the schema as JSON, in which Spark trusts when it reads."""
FEW_FILES = 4
"""Up to this many footers, the driver reads them faster itself than by a job of Spark."""
FOOTERS_AT_ONCE = 8
"""Footers that the driver reads at once: in a bucket, each takes three requests."""
LABELS = ("spark.job.description", "callSite.short", "callSite.long")
"""Properties of a thread of Spark that say what its jobs and their stages are."""
DIFFERENT = 5
"""So many different texts between records show that a file is not in the dialect: there are three line ends and ""."""
FILES_METRIC, ROWS_METRIC = "number of written files", "number of output rows"

_log = logging.getLogger("feed_assets.engine")


class UnreadableFormatError(FeedError):
    """A feed has files of a kind that `READERS` lacks, or that Spark skips: for their names, or as they are empty."""


class MissingColumnError(FeedError):
    """Files of a feed lack a column that its schema declares as never NULL."""


class WriteMismatchError(FeedError):
    """Spark did not report how many files and rows its committed tasks wrote."""


@dataclass(frozen=True, slots=True)
class Written:
    """The number of files and rows that the committed tasks of one write reported."""

    files: int
    rows: int


def read_updates(
    spark: SparkSession, updates: Sequence[Update], schema: StructType, *, made_elsewhere: bool = False
) -> DataFrame:
    """All rows of these updates under the declared schema; an empty frame without updates or files.

    Exactly the resolved files are read. Columns of the schema that a file lacks are NULL; other columns of a file are
    left out. A column's name in a file may differ in case; the very name is preferred. `csv_dialect` describes CSV.

    Raises MissingColumnError if CSV or JSON files with rows lack a column that is not nullable, MalformedCsvError, and
    UnreadableFormatError. Parquet files that are `made_elsewhere` are looked at as well: the footer of the first file
    of each update, in the driver, if there is such a column.
    """
    if made_elsewhere and not all(field.nullable for field in schema):
        _require_in_parquet(spark, updates, schema)
    frames = [_read(spark, kind, sizes, schema) for kind, sizes in sorted(_sizes_by_format(updates).items())]
    if frames:
        return reduce(DataFrame.unionByName, frames)
    return _no_rows(spark, schema)


def _no_rows(spark: SparkSession, schema: StructType) -> DataFrame:
    # An empty frame made from Python's side would start Python's workers. With the filter, Spark knows before it runs
    # that there are no rows, and skips joins with them.
    return spark.range(0).select(*map(_null, schema)).where(functions.lit(False))  # noqa: FBT003 - a literal


def _require_in_parquet(spark: SparkSession, updates: Sequence[Update], schema: StructType) -> None:
    found = ([uri for uri in update.uris() if _format(update, uri) == "parquet"] for update in updates)
    firsts = [uris[0] for uris in found if uris]

    def columns(uri: str) -> list[str]:
        try:
            return [column.getName() for column in footer(spark, uri).getSchema().getFields()]
        except Py4JJavaError:
            return []  # Spark's own way of reading it has a better message

    with ThreadPoolExecutor(FOOTERS_AT_ONCE) as pool:
        for uri, names in zip(firsts, pool.map(columns, firsts), strict=True):
            _names_in(names, [uri], schema)


def _null(field: StructField) -> Column:
    return functions.lit(None).cast(field.dataType).alias(field.name)


def count_update(spark: SparkSession, update: Update) -> int:
    """How many rows an update has, whatever its schema."""
    return read_updates(spark, [update], StructType()).count()


def parquet_schema(spark: SparkSession, update: Update) -> StructType:
    """The columns of all Parquet files of an update together; `nullable` is not reliable in Parquet."""
    if not update.files:
        return StructType()
    if len(update.files) <= FEW_FILES:
        stated = [_stated_schema(spark, uri) for uri in update.uris()]
        if stated[0] is not None and all(each == stated[0] for each in stated):
            return stated[0]
    return read_listed(spark.read.option("mergeSchema", "true"), "parquet", _sizes(update)).schema


def _stated_schema(spark: SparkSession, uri: str) -> StructType | None:
    """The schema that Spark wrote into the footer of a Parquet file; None if there is none. Takes no job."""
    try:
        stated = footer(spark, uri).getKeyValueMetaData().get(SCHEMA_KEY)
    except Py4JJavaError:
        return None  # Spark's own way of reading it has a better message
    return StructType.fromJson(json.loads(stated)) if stated else None


def write_files(frame: DataFrame, uri: str, kind: str = "parquet") -> Written:
    """Write the rows, as Parquet or as JSON lines, to a location that nobody else writes to.

    Waits until no attempt at its tasks runs any more. Speculation leaves attempts that end after the write; in a
    bucket an attempt adds an object when it ends, if only for a moment, and readers count the objects of an update.

    Raises WriteMismatchError if Spark does not have the counts of its committed tasks. A listing is no substitute: it
    could count files that a lost task left behind. Raises UnfitStoreError for a store on which Spark cannot write.
    """
    label = f"write {uri} {uuid4().hex}"
    with _labelled(frame.sparkSession.sparkContext, label), path_to_write(uri) as path:
        frame.write.options(**JSON_TIMES if kind == "json" else {}).format(kind).save(path)
    return _committed(frame.sparkSession, label)


@contextmanager
def _labelled(context: SparkContext, label: str) -> Iterator[None]:
    """Give Spark's jobs this description, and their stages this name.

    Otherwise Spark names each after the place of its call, which is Python's library for all of them, and looks for
    that place on Java's stack again for each step of a plan.
    """
    before = {name: context.getLocalProperty(name) for name in LABELS}
    try:
        for name in LABELS:
            context.setLocalProperty(name, label)
        yield
    finally:
        for name, value in before.items():
            context.setLocalProperty(name, value)  # type: ignore[arg-type] # None unsets it


def _read(spark: SparkSession, kind: str, sizes: Mapping[str, int], schema: StructType) -> DataFrame:
    if kind in SEPARATORS:
        return _read_csv(spark, SEPARATORS[kind], sizes, schema)
    if kind == "json":
        return _read_json(spark, sizes, schema)
    return read_listed(spark.read, kind, sizes, schema)


def _read_csv(spark: SparkSession, separator: str, sizes: Mapping[str, int], schema: StructType) -> DataFrame:
    """The rows of CSV files in the dialect of feeds. Each is read once here, to see that it is in the dialect."""
    alike: dict[tuple[Dialect, tuple[str, ...]], dict[str, int]] = {}
    for uri, size in sizes.items():
        if (found := _csv_header(spark, separator, uri, size)) is not None:
            alike.setdefault(found, {})[uri] = size
    rows = (_csv_rows(spark, *found, each, schema) for found, each in alike.items())
    return reduce(DataFrame.unionByName, rows) if alike else _no_rows(spark, schema)


def _csv_header(spark: SparkSession, separator: str, uri: str, size: int) -> tuple[Dialect, tuple[str, ...]] | None:
    """The dialect of a file and the names of its columns; None if it has no header. Raises MalformedCsvError."""
    lines = read_listed(spark.read, "text", {uri: size})

    def first_lines() -> Iterator[str]:
        yield from (row["value"] for row in lines.take(1))
        yield from (row["value"] for row in lines.take(HEADER_LINES)[1:])

    header = read_header(first_lines(), separator, uri)
    if header is None:
        return None
    columns = len(header.names)
    broken = f"NOT {_matches(record_line(separator, DOUBLED, columns))}"
    counted = {
        "broken": broken,
        "broken_if_escaped": f"NOT {_matches(record_line(separator, BACKSLASH, columns))}",
        "no_part": f"NOT {_matches(part_of_record(separator))}",
        "blank": _matches(BLANK_LINE),
        "nul": "contains(value, '\\0')",
        "not_utf8": "NOT is_valid_utf8(value)",
    }
    counts = (f"count_if({condition}) AS {name}" for name, condition in counted.items())
    (found,) = lines.selectExpr(*counts, f"min(value) FILTER (WHERE {broken}) AS example").collect()

    def whole(escape: str) -> list[str]:
        require_whole(size, separator, uri)
        text = read_listed(spark.read.option("wholetext", "true"), "text", {uri: size})
        record = text_literal(records(separator, escape, columns))
        left = f"regexp_replace(ltrim('{BYTE_ORDER_MARK}', value), {record}, concat('$1', chr(0)))"
        (row,) = text.selectExpr(f"slice(array_distinct(split({left}, chr(0))), 1, {DIFFERENT})").collect()
        return list(row[0])

    return dialect_of(found.asDict(), separator, columns, whole, uri), header.names


def _matches(pattern: str) -> str:
    return f"regexp_like(value, {text_literal(pattern)})"


def _csv_rows(
    spark: SparkSession, dialect: Dialect, header: Sequence[str], sizes: Mapping[str, int], schema: StructType
) -> DataFrame:
    """The rows of files with this header, with columns matched by name: Spark itself matches them by position."""
    require_separator(header, schema.names, dialect.separator, ", ".join(sizes))
    names = _names_in(header, sizes, schema)
    declared = {names[field.name]: field for field in schema if field.name in names}
    found = [_named(declared[name], name) if name in declared else StructField(name, StringType()) for name in header]
    reader = spark.read.options(
        mode="FAILFAST", header=True, sep=dialect.separator, escape=dialect.escape, unescapedQuoteHandling="RAISE_ERROR"
    )
    if dialect.line_end:
        # Otherwise Spark would take the first line end that it sees, also in a value.
        reader = reader.options(multiLine=True, lineSep=dialect.line_end)
    rows = read_listed(reader, "csv", sizes, StructType(found))
    return rows.select(
        [
            functions.col(quoted(names[each.name])).alias(each.name) if each.name in names else _null(each)
            for each in schema
        ]
    )


def _read_json(spark: SparkSession, sizes: Mapping[str, int], schema: StructType) -> DataFrame:
    """The rows of JSON lines. Spark itself would take a key in another case for another column."""
    lines = read_listed(spark.read, "text", sizes)
    # Spark reads the first of two objects in a line, and leaves the other out.
    single = "trim(value) = '' OR json_array_length(concat('[', value, ']')) <=> 1"
    keys_of = f"concat(coalesce(json_object_keys(value), array()), IF({single}, array(), array(CAST(NULL AS STRING))))"
    keys = {row["key"] for row in lines.selectExpr(f"explode({keys_of}) AS key").distinct().collect()}
    if None in keys:
        raise UnreadableFormatError(
            f"{', '.join(sizes)}: a line is not one JSON object, so rows would be missing. Invalidate the update, or "
            "publish it again with an object in each line."
        )
    own = {name.lower() for name in schema.names}
    if len(sizes) > 1 and any(key.lower() in own for key in keys.difference(schema.names)):
        # Each file may have a case of its own.
        return reduce(DataFrame.unionByName, (_read_json(spark, {uri: size}, schema) for uri, size in sizes.items()))
    names = _names_in(sorted(keys), sizes, schema)
    as_found = StructType([_named(field, names.get(field.name, field.name)) for field in schema])
    return read_listed(spark.read.option("mode", "FAILFAST"), "json", sizes, as_found).toDF(*schema.names)


def _names_in(found: Iterable[str], files: Iterable[str], schema: StructType) -> dict[str, str]:
    """The names in the files of the columns of this schema that they have: the very name, or else in another case."""
    alike = {name.lower(): name for name in found}
    names = {name: alike[name.lower()] for name in schema.names if name.lower() in alike}
    names |= {name: name for name in schema.names if name in found}
    missing = [field.name for field in schema if not field.nullable and field.name not in names]
    if alike and missing:  # without any name, the files have no rows
        raise MissingColumnError(
            f"{', '.join(files)}: no column {', '.join(missing)}, which is declared as never NULL; the columns are "
            f"{', '.join(found)}. Invalidate the update, or publish it again with this column."
        )
    return names


def _named(field: StructField, name: str) -> StructField:
    return StructField(name, field.dataType, metadata=field.metadata)


def _sizes_by_format(updates: Sequence[Update]) -> dict[str, dict[str, int]]:
    sizes: dict[str, dict[str, int]] = {}
    for update in updates:
        for uri, size in _sizes(update).items():
            kind = _format(update, uri)
            if kind == "parquet" and not size:
                raise UnreadableFormatError(
                    f"{uri} is empty, so it is no Parquet, and its rows would be missing without a word: Spark skips "
                    f"such files. Invalidate update {update.name}, or publish it again."
                )
            sizes.setdefault(kind, {})[uri] = size
    return sizes


def _sizes(update: Update) -> dict[str, int]:
    return {uri: file.size for uri, file in zip(update.uris(), update.files, strict=True)}


def _format(update: Update, uri: str) -> str:
    name = PurePosixPath(uri).name
    if is_hidden(name):
        raise UnreadableFormatError(
            f"{uri} would be missing without a word: Spark skips files whose name begins with `.` or `_`. "
            f"Invalidate update {update.name}, or publish it again with other names."
        )
    for suffix in COMPRESSION_SUFFIXES:
        name = name.removesuffix(suffix)
    kind = READERS.get(PurePosixPath(name).suffix)
    if kind is None:
        raise UnreadableFormatError(
            f"{uri} has a format that cannot be read here. Formats are {', '.join(READERS)}. "
            f"Invalidate update {update.name}, or publish it again in one of these formats."
        )
    return kind


def _committed(spark: SparkSession, label: str) -> Written:
    """The counts of the committed tasks of the write with this description, from Spark's own records."""
    wait_for_events(spark)
    store = query_status(spark)
    executions = store.executionsList()
    for index in range(executions.size() - 1, -1, -1):
        execution = executions.apply(index)
        if execution.description() == label:
            number = execution.executionId()
            _wait_for_attempts(spark, execution.stages())
            return _written(store.planGraph(number).allNodes(), store.executionMetrics(number), label)
    raise WriteMismatchError(_no_count(label))


def _wait_for_attempts(spark: SparkSession, stages: Any) -> None:
    """Return when Spark knows of no attempt at a task of these stages that still runs, or after a time."""
    tracker, deadline = spark.sparkContext.statusTracker(), monotonic() + ATTEMPTS_END_WITHIN
    each = stages.iterator()
    while each.hasNext():
        stage = each.next()
        while (found := tracker.getStageInfo(stage)) is not None and found.numActiveTasks:
            if monotonic() > deadline:
                # Not an error: Spark's own books keep an attempt for ever if it drops an event of a large job.
                _log.warning(
                    "Attempts at tasks of a write still run after %d seconds. If they add files, the update is not "
                    "valid any more; `feed-assets feed verify` shows that.",
                    ATTEMPTS_END_WITHIN,
                )
                return
            sleep(0.1)


def _written(nodes: Any, values: Any, label: str) -> Written:
    """The counts of the node of a plan that counts written files; other nodes also count rows."""
    for index in range(nodes.size()):
        metrics = nodes.apply(index).metrics()
        counters = {each.name(): each for each in map(metrics.apply, range(metrics.size()))}
        if FILES_METRIC in counters:
            found = [values.get(counters[name].accumulatorId()) for name in (FILES_METRIC, ROWS_METRIC)]
            if all(each.isDefined() for each in found):
                files, rows = (int(each.get().replace(",", "")) for each in found)
                return Written(files=files, rows=rows)
    raise WriteMismatchError(_no_count(label))


def _no_count(label: str) -> str:
    return (
        f"Spark kept no count of what it committed for `{label}`, so this update cannot be published. "
        "Run the partition again; if it persists, raise spark.sql.ui.retainedExecutions."
    )
