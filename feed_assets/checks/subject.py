"""Finding the update to audit, and counting what the expectations ask of it.

Here: storage and Spark on behalf of the audit. Not here: any judgement.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from typing import Any

import dagster as dg
from pyspark.sql import SparkSession

from feed_assets.checks.expectations import Expectation, Subject
from feed_assets.file_feed import (
    Column,
    Feed,
    FeedInput,
    Record,
    Staged,
    Update,
    begun,
    find_staged,
    latest,
    latest_of_all,
    read_record,
    records,
)
from feed_assets.io_manager import FeedDeclaration
from feed_assets.io_manager.spark_files import count_update, read_updates
from feed_assets.sources.spark_paths import to_read


@dataclass(frozen=True, slots=True)
class Candidate:
    """The update under audit: a staged one, or, where none waits, the one in force (then `staged` is None)."""

    update: Update
    record: Record | None
    staged: Staged | None


def find_candidate(feed: Feed, partition: str, *, run_id: str, now: datetime) -> Candidate:
    """The staged update of this run; else one that waits, newer than the latest; else the latest itself.

    What another run recorded as published, and has no manifest, is none of them: it may have been taken out of force by
    removing that. Raises Failure where there is nothing to check.
    """
    in_force = latest(feed, partition, now=now)
    staged = find_staged(feed, partition, root_run_id=run_id)
    if staged is None:
        waiting = find_staged(feed, partition)
        staged = waiting if waiting and (in_force is None or waiting.claim.name > in_force.name) else None
    if staged is not None:
        update = Update(feed=feed, partition=partition, name=staged.claim.name, files=staged.record.files)
        return Candidate(update, staged.record, staged)
    if in_force is None:
        description = f"{feed.location} has nothing staged or valid of {partition} to check: materialize it."
        for record in records(feed, partition, newest=1):
            if record.state == "published":
                description += (
                    f" {record.update} is recorded as published and has no valid manifest: it was taken out of force, "
                    "or its run stopped before that. It is not published again."
                )
        raise dg.Failure(description=description, allow_retries=False)
    return Candidate(in_force, read_record(feed, partition, in_force.name), None)


def describe(
    candidate: Candidate,
    declaration: FeedDeclaration,
    spark: SparkSession,
    *,
    day: date,
    recent: timedelta,
    quarantined_share_limit: float,
    usual_rows_factor: float,
    now: datetime,
) -> Subject:
    """What the expectations need to know besides the counts."""
    found = _found_schema(spark, candidate.update)
    # Columns that were declared since are no fault of an update that is published already; where no record tells which
    # these are, any that a version may add is one.
    had = {column.name for column in found}
    promised = (candidate.record.facts.schema if candidate.record else ()) or tuple(
        column for column in declaration.columns if column.name in had or not column.nullable
    )
    return Subject(
        declaration=declaration,
        published=candidate.staged is None,
        day=day,
        promised=promised,
        found=found,
        rows=candidate.record.facts.rows if candidate.record else None,
        recent_rows=_recent_rows(candidate.update.feed, day, recent, now),
        upstream_rows=_upstream_rows(candidate, spark),
        quarantined_share_limit=quarantined_share_limit,
        usual_rows_factor=usual_rows_factor,
    )


def count(
    spark: SparkSession,
    candidate: Candidate,
    declaration: FeedDeclaration,
    expectations: Sequence[Expectation],
) -> Mapping[str, Any]:
    """All counts of all expectations, in one pass and one for each that is apart; under `<expectation>__<name>`."""
    together = [each for each in expectations if each.counts and not each.apart]
    passes = [group for group in (together, *([each] for each in expectations if each.apart)) if group]
    if not passes:
        return {}
    rows = read_updates(spark, [candidate.update], declaration.schema)
    counted: dict[str, Any] = {}
    for group in passes:
        counts = [f"{sql} AS {each.name}__{name}" for each in group for name, sql in each.counts.items()]
        (row,) = rows.selectExpr(*counts).collect()
        counted |= row.asDict()
    return counted


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


def _recent_rows(feed: Feed, day: date, recent: timedelta, now: datetime) -> tuple[int, ...]:
    before = latest_of_all(feed, now=now, first=str(day - recent), last=str(day - timedelta(days=1)))
    records = (read_record(feed, partition, update.name) for partition, update in before.items())
    return tuple(record.facts.rows.published for record in records if record and record.facts.rows)


def _upstream_rows(candidate: Candidate, spark: SparkSession) -> Mapping[str, int | None]:
    """Rows of the updates of the same partition that this one was made from, from their records or else counted."""
    if candidate.record is None:
        return {}
    board = candidate.update.feed.blackboard
    rows: dict[str, int | None] = {}
    for each in candidate.record.facts.inputs:
        if isinstance(each, FeedInput) and each.update and each.partition == candidate.update.partition:
            upstream = Feed(board, each.feed)
            record = read_record(upstream, each.partition, each.update)
            if record is not None and record.facts.rows is not None:
                rows[each.feed] = record.facts.rows.published
            else:
                rows[each.feed] = _count_rows(spark, upstream, each)
    return rows


def _count_rows(spark: SparkSession, feed: Feed, reference: FeedInput) -> int | None:
    """The rows of an update that somebody published without a record; None where it is no longer valid."""
    moment = begun(reference.update or "")
    update = latest(feed, reference.partition, now=moment, as_of=moment)
    return count_update(spark, update) if update and update.name == reference.update else None
