"""Reading explicit lists of files with Spark, and writing a DataFrame as the files of one claim.

Here: the only places where Spark touches feed files. Not here: the choice of files, and publishing them.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import reduce
from pathlib import PurePosixPath
from time import monotonic, sleep
from typing import Any
from uuid import uuid4

from py4j.protocol import Py4JJavaError
from pyspark import SparkContext
from pyspark.sql import Column, DataFrame, DataFrameReader, SparkSession, functions
from pyspark.sql.types import StringType, StructField, StructType

from feed_assets.engine.jvm import java_machine, java_session
from feed_assets.engine.listed_files import read_listed
from feed_assets.engine.moments import JSON_TIMES
from feed_assets.engine.paths import to_write
from feed_assets.file_feed import FeedError, Update

READERS = {".parquet": "parquet", ".csv": "csv", ".json": "json", ".jsonl": "json"}
COMPRESSION_SUFFIXES = (".gz", ".bz2", ".zst", ".snappy")
ATTEMPTS_END_WITHIN = 180
"""Seconds: longer than Spark takes to see that an executor is lost."""
SCHEMA_KEY = "org.apache.spark.sql.parquet.row.metadata"
"""Spark's entry in the footer of a Parquet file: the schema as JSON, in which Spark trusts when it reads."""
FEW_FILES = 4
"""So many footers the driver itself reads faster than a job of Spark's."""
LABELS = ("spark.job.description", "callSite.short", "callSite.long")
"""Properties of a thread of Spark that say what its jobs and their stages are."""
FILES_METRIC, ROWS_METRIC = "number of written files", "number of output rows"

_log = logging.getLogger("feed_assets.engine")


class UnreadableFormatError(FeedError):
    """A feed has files of a kind that `READERS` lacks, or that Spark skips for their names."""


class WriteMismatchError(FeedError):
    """Spark did not report how many files and rows its committed tasks wrote."""


@dataclass(frozen=True, slots=True)
class Written:
    """The number of files and rows that the committed tasks of one write reported."""

    files: int
    rows: int


def read_updates(spark: SparkSession, updates: Sequence[Update], schema: StructType) -> DataFrame:
    """All rows of these updates under the declared schema; an empty frame without updates or files.

    Exactly the resolved files are read. Columns of the schema that a file lacks are NULL; other columns of a file are
    left out.
    """
    frames = [_read(spark, kind, sizes, schema) for kind, sizes in sorted(_sizes_by_format(updates).items())]
    if frames:
        return reduce(DataFrame.unionByName, frames)
    # An empty frame made from Python's side would start Python's workers. With the filter, Spark knows before it runs
    # that there are no rows, and skips joins with them.
    return spark.range(0).select(*map(_null, schema)).where(functions.lit(False))  # noqa: FBT003 - a literal


def _null(field: StructField) -> Column:
    return functions.lit(None).cast(field.dataType).alias(field.name)


def count_update(spark: SparkSession, update: Update) -> int:
    """How many rows an update has, whatever its schema."""
    formats = _sizes_by_format([update])
    return sum(read_listed(_reader(spark, kind), kind, sizes).count() for kind, sizes in formats.items())


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
    java, configuration = java_machine(spark), java_session(spark).sessionState().newHadoopConf()
    try:
        path = java.org.apache.hadoop.fs.Path(to_write(uri))
        file = java.org.apache.parquet.hadoop.util.HadoopInputFile.fromPath(path, configuration)
        # Without these options, Hadoop reads its files of settings again.
        options = java.org.apache.parquet.HadoopReadOptions.builder(configuration).build()
        reader = java.org.apache.parquet.hadoop.ParquetFileReader.open(file, options)
        try:
            stated = reader.getFileMetaData().getKeyValueMetaData().get(SCHEMA_KEY)
        finally:
            reader.close()
    except Py4JJavaError:
        return None  # Spark's own way of reading it has a better message
    return StructType.fromJson(json.loads(stated)) if stated else None


def write_files(frame: DataFrame, uri: str, kind: str = "parquet") -> Written:
    """Write the rows, as Parquet or as JSON lines, to a location that nobody else writes to.

    Waits until no attempt at its tasks runs any more. Speculation leaves attempts that end after the write; in a
    bucket an attempt adds an object when it ends, if only for a moment, and readers count the objects of an update.

    Raises WriteMismatchError if Spark does not have the counts of its committed tasks. A listing is no substitute: it
    could count files that a lost task left behind.
    """
    label = f"write {uri} {uuid4().hex}"
    with _labelled(frame.sparkSession.sparkContext, label):
        frame.write.options(**JSON_TIMES if kind == "json" else {}).format(kind).save(to_write(uri))
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
    if kind == "csv":
        by_header: dict[tuple[str, ...], dict[str, int]] = {}
        for uri, size in sizes.items():
            header = read_listed(spark.read.option("header", "true"), kind, {uri: size}).columns
            by_header.setdefault(tuple(header), {})[uri] = size
        frames = (_read_csv(spark, header, each, schema) for header, each in by_header.items())
        return reduce(DataFrame.unionByName, frames)
    return read_listed(_reader(spark, kind), kind, sizes, schema)


def _read_csv(spark: SparkSession, header: Sequence[str], sizes: Mapping[str, int], schema: StructType) -> DataFrame:
    """The rows of files with this header, with columns matched by name: Spark itself matches them by position."""
    found = StructType([schema[name] if name in schema.names else StructField(name, StringType()) for name in header])
    rows = read_listed(_reader(spark, "csv"), "csv", sizes, found)
    return rows.select([functions.col(each.name) if each.name in header else _null(each) for each in schema])


def _reader(spark: SparkSession, kind: str) -> DataFrameReader:
    if kind == "parquet":
        return spark.read
    return spark.read.option("mode", "FAILFAST").option("header", "true")


def _sizes_by_format(updates: Sequence[Update]) -> dict[str, dict[str, int]]:
    sizes: dict[str, dict[str, int]] = {}
    for update in updates:
        for uri, size in _sizes(update).items():
            sizes.setdefault(_format(update, uri), {})[uri] = size
    return sizes


def _sizes(update: Update) -> dict[str, int]:
    return {uri: file.size for uri, file in zip(update.uris(), update.files, strict=True)}


def _format(update: Update, uri: str) -> str:
    name = PurePosixPath(uri).name
    if name.startswith((".", "_")):
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
    session = java_session(spark)
    session.sparkContext().listenerBus().waitUntilEmpty()
    store = session.sharedState().statusStore()
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
