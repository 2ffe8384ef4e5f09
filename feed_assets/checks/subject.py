"""What is known of an update under audit, and counting what the expectations ask of it.

Here: storage and Spark on behalf of the audit. Not here: which update it is (`candidate`), and any judgement.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import dagster as dg
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import DataType, StructField, StructType

from feed_assets.checks.candidate import Candidate
from feed_assets.checks.expectation import UNKNOWN_VALUES, Expectation, Reference, Subject
from feed_assets.file_feed import (
    Column,
    Feed,
    FeedInput,
    RawInput,
    Record,
    Update,
    begun,
    latest,
    latest_of_all,
    read_record,
    records,
)
from feed_assets.io_manager import FeedDeclaration
from feed_assets.io_manager.attempt import EMPTY_SOURCES
from feed_assets.io_manager.spark_files import count_update, read_updates
from feed_assets.io_manager.time_windows import partitions_before, time_window
from feed_assets.sources.spark_paths import to_read


@dataclass(frozen=True, slots=True)
class Tolerance:
    """The limits that a run may change: see `audit.Limits`."""

    quarantined_share: float
    usual_rows_factor: float
    recent: int


def describe(
    candidate: Candidate,
    declaration: FeedDeclaration,
    spark: SparkSession,
    *,
    partitions: dg.PartitionsDefinition | None,
    tolerance: Tolerance,
    now: datetime,
) -> Subject:
    """What the expectations need to know besides the counts."""
    found = _found_schema(spark, candidate.update)
    record, partition = candidate.record, candidate.update.partition
    # Columns that were declared since are no fault of an update that is published already; where no record tells which
    # these are, a column that a version may add counts as promised.
    had = {column.name for column in found}
    promised = (record.facts.schema if record else ()) or tuple(
        column for column in declaration.columns if column.name in had or not column.nullable
    )
    window = time_window(partitions, partition)
    return Subject(
        declaration=declaration,
        partition=partition,
        window=(window.start, window.end) if window else None,
        published=candidate.staged is None,
        promised=promised,
        found=found,
        rows=record.facts.rows if record else None,
        recent_rows=_recent_rows(candidate.update, partitions, tolerance.recent, now),
        upstream_rows=_upstream_rows(candidate.update, record, spark) if record else None,
        inputs_seen=_inputs_seen(record) if record else None,
        quarantined_share_limit=tolerance.quarantined_share,
        usual_rows_factor=tolerance.usual_rows_factor,
        now=now,
    )


def count(
    spark: SparkSession,
    candidate: Candidate,
    declaration: FeedDeclaration,
    expectations: Sequence[Expectation],
    *,
    now: datetime,
) -> Mapping[tuple[str, str], Any]:
    """All counts of all expectations, by expectation and name.

    They take one pass together, one for each expectation that is apart, and a join for each reference.
    """
    together = [each for each in expectations if each.counts and not each.apart]
    passes = [group for group in (together, *([each] for each in expectations if each.apart)) if group]
    counted: dict[tuple[str, str], Any] = {}
    if not passes and not any(each.reference for each in expectations):
        return counted
    rows = read_updates(spark, [candidate.update], declaration.schema)
    for group in passes:
        counts = {(each.name, name): sql for each in group for name, sql in each.counts.items()}
        (row,) = rows.selectExpr(*(f"{sql} AS c{number}" for number, sql in enumerate(counts.values()))).collect()
        counted |= zip(counts, row, strict=True)
    for each in expectations:
        if each.reference is not None:
            counted[each.name, UNKNOWN_VALUES] = _unknown_values(rows, candidate.update, each.reference, now)
    return counted


def _unknown_values(rows: DataFrame, update: Update, reference: Reference, now: datetime) -> int | None:
    """How many rows have values that the other feed lacks; None where that has no valid update."""
    feed = Feed(update.feed.blackboard, reference.feed)
    other = latest(feed, update.partition if reference.partitioned else None, now=now)
    if other is None:
        return None
    types: Mapping[str, DataType] = {field.name: field.dataType for field in rows.schema}
    schema = StructType([StructField(to, types[own]) for own, to in zip(reference.columns, reference.to, strict=True)])
    known = read_updates(rows.sparkSession, [other], schema).toDF(*reference.columns)
    mine = rows.select(*reference.columns).dropna()
    return mine.join(known, on=list(reference.columns), how="left_anti").count()


def _found_schema(spark: SparkSession, update: Update) -> tuple[Column, ...]:
    """The columns that the files have, all taken together; Parquet keeps no NOT NULL that one could rely on."""
    paths = [to_read(uri) for uri in update.uris()]
    if not paths:
        return ()
    schema = spark.read.option("mergeSchema", "true").parquet(*paths).schema
    return tuple(
        Column(name=field.name, type=field.dataType.simpleString(), nullable=field.nullable, description="")
        for field in schema
    )


def _recent_rows(
    update: Update, partitions: dg.PartitionsDefinition | None, count: int, now: datetime
) -> tuple[int, ...]:
    """The published rows of the partitions before; without a time, of the partition's own updates before."""
    feed = update.feed
    if time_window(partitions, update.partition) is None:
        earlier = (each for each in records(feed, update.partition) if each.update < update.name)
        published = [each.facts.rows.published for each in earlier if each.state == "published" and each.facts.rows]
        return tuple(published[:count])
    before = sorted(partitions_before(partitions, update.partition, count))
    if not before:
        return ()
    in_force = latest_of_all(feed, now=now, first=before[0], last=before[-1])
    found = (read_record(feed, each, in_force[each].name) for each in before if each in in_force)
    return tuple(record.facts.rows.published for record in found if record and record.facts.rows)


def _upstream_rows(update: Update, record: Record, spark: SparkSession) -> Mapping[str, int | None]:
    """Rows of the updates of the same partition that this one was made from, from their records or else counted."""
    rows: dict[str, int | None] = {}
    for each in record.facts.inputs:
        if not isinstance(each, FeedInput) or each.partition != update.partition:
            continue
        if each.update is None:
            rows[each.feed] = 0
            continue
        upstream = Feed(update.feed.blackboard, each.feed)
        of = read_record(upstream, each.partition, each.update)
        if of is not None and of.facts.rows is not None:
            rows[each.feed] = of.facts.rows.published
        else:
            rows[each.feed] = _count_rows(spark, upstream, each)
    return rows


def _inputs_seen(record: Record) -> bool:
    """Whether anything was there to read: a feed's update, raw files, or a partner's word that there are none."""
    own = [each for each in record.facts.inputs if not each.context]
    there = any(bool(each.files) if isinstance(each, RawInput) else each.update is not None for each in own)
    return there or bool(record.facts.details.get(EMPTY_SOURCES))


def _count_rows(spark: SparkSession, feed: Feed, reference: FeedInput) -> int | None:
    """The rows of an update that somebody published without a record; None where it is no longer valid."""
    moment = begun(reference.update or "")
    update = latest(feed, reference.partition, now=moment, as_of=moment)
    return count_update(spark, update) if update and update.name == reference.update else None
