"""The facts about an update under audit, and the counts that its expectations need.

Here: storage and Spark for an audit. Not here: finding the update (`steps.candidate`), and any judgement.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, time
from functools import partial, reduce
from typing import Any, Final

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - as everyone writes Spark
from pyspark.sql.types import StructField, StructType

from feed_assets.datasets.declaration import FeedDeclaration
from feed_assets.engine.spark_schemas import declared_columns, spark_schema
from feed_assets.engine.sql import quoted
from feed_assets.engine.update_files import count_update, parquet_schema, read_updates
from feed_assets.file_feed.control import read_record, records
from feed_assets.file_feed.feed import Feed, Update
from feed_assets.file_feed.names import begun
from feed_assets.file_feed.reading import latest
from feed_assets.file_feed.record import FeedInput, RawInput, Record
from feed_assets.file_feed.scanning import latest_of_all
from feed_assets.quality.expectation import IDENTITIES, ROWS, UNKNOWN_VALUES, Expectation, Reference, Subject
from feed_assets.sources.absence import empty_sources

FEW: Final = 2 * 2**20
"""Bytes of files up to which all hashes of an identity are in memory at once. An identity, which is different in each
row, takes a byte at least: at most two million hashes, which take about 100 MB."""

GROUPS: Final = 64
"""Groups of hashes of a large update. Up to 128 groups, Spark keeps all of them in memory; of more it sorts the hashes,
which may go to a disk."""
GROUP: Final = 2**17
"""Hashes of a group, at about 24 bytes each: 64 groups take 200 MB, on all executors together."""

HASH, STRUCT = "xxhash64", "struct"
"""Spark's functions that make one value of the columns of an identity."""

_Pass = tuple[DataFrame, Mapping[tuple[str, str], str]]
"""A frame, and SQL aggregates over its rows by expectation and name."""


@dataclass(frozen=True, slots=True)
class Tolerance:
    """The limits of an audit: the highest share of quarantined records, and the highest factor between row counts.

    Row counts may differ by `usual_rows_factor` from the median of the `recent` partitions before. If partitions stand
    for no time, it is the median of the `recent` updates before.
    """

    quarantined_share: float
    usual_rows_factor: float
    recent: int


def describe(
    update: Update,
    record: Record | None,
    declaration: FeedDeclaration,
    spark: SparkSession,
    *,
    published: bool,
    window: tuple[datetime, datetime] | None,
    before: Sequence[str],
    tolerance: Tolerance,
    now: datetime,
) -> Subject:
    """The facts that the expectations need besides the counts.

    `window` is the time of the update's partition, None if it stands for no time; `before` names the partitions before
    it.
    """
    found = declared_columns(parquet_schema(spark, update))
    # A published update need not have columns that were declared later. Without a record, nullable columns that the
    # files lack count as declared later.
    names = {column.name for column in found}
    promised = (record.facts.schema if record else ()) or tuple(
        column for column in declaration.columns if column.name in names or not column.nullable
    )
    return Subject(
        declaration=declaration,
        partition=update.partition,
        window=window,
        published=published,
        promised=promised,
        found=found,
        rows=record.facts.rows if record else None,
        recent_rows=_rows_before(update, before, now) if window else _own_rows_before(update, tolerance.recent),
        upstream_rows=_upstream_rows(update, record, spark) if record else None,
        inputs_seen=_inputs_seen(record, window) if record else None,
        quarantined_share_limit=tolerance.quarantined_share,
        usual_rows_factor=tolerance.usual_rows_factor,
        now=now,
    )


def count(
    spark: SparkSession,
    update: Update,
    declaration: FeedDeclaration,
    expectations: Sequence[Expectation],
    *,
    rows_recorded: int | None,
    now: datetime,
) -> Mapping[tuple[str, str], Any]:
    """All counts of all expectations, by expectation and name.

    `rows_recorded` is the number of the update's rows by its record, None without a record: its hashes need memory.
    Costs one query, with a pass for all counts together. Large updates need one pass per identity. A
    reference costs a join. If hashes of identities repeat, another query compares the identities.
    """
    if not any(each.counted_names for each in expectations):
        return {}
    rows = read_updates(spark, [update], spark_schema(declaration.columns))
    identified = [each for each in expectations if each.identity]
    if update.bytes > FEW:
        # A row takes a byte at least.
        groups = max(GROUPS, (rows_recorded or update.bytes) // GROUP)
        hashed = [_hashes(rows, each, groups) for each in identified]
        counted = _counted([_aggregated(rows, expectations), *hashed])
    else:
        counted = _counted([_aggregated(rows, expectations, identified)])
    undecided = [each for each in identified if counted[each.name, ROWS] != counted[each.name, IDENTITIES]]
    counted |= _counted([_identities(rows, each) for each in undecided])
    for each in expectations:
        if each.reference is not None:
            counted[each.name, UNKNOWN_VALUES] = _unknown_values(rows, update, each.reference, now)
    return counted


def _aggregated(rows: DataFrame, expectations: Sequence[Expectation], identified: Sequence[Expectation] = ()) -> _Pass:
    """The counts of all expectations, and of the identities of some, whose hashes are all in memory."""
    counts = {(each.name, name): sql for each in expectations for name, sql in each.counts.items()}
    for each in identified:
        counts |= _tally(each, "count(1)", f"size(collect_set({_identity(each, HASH)}))")
    return rows, counts


def _hashes(rows: DataFrame, expectation: Expectation, groups: int) -> _Pass:
    """The number of rows and of distinct hashes of their identities.

    An array for each group: Spark tells its different numbers in half the time of an aggregation by hash.
    """
    hashes = rows.selectExpr(f"{_identity(expectation, HASH)} AS hash")
    different = "size(array_distinct(collect_list(hash))) AS different"
    grouped = hashes.groupBy(F.expr(f"pmod(hash, {groups})")).agg(F.expr("count(1) AS rows"), F.expr(different))
    return grouped, _tally(expectation, "coalesce(sum(rows), 0)", "coalesce(sum(different), 0)")


def _identities(rows: DataFrame, expectation: Expectation) -> _Pass:
    """The number of rows and of distinct identities."""
    return rows, _tally(expectation, "count(1)", f"count(DISTINCT {_identity(expectation, STRUCT)})")


def _tally(expectation: Expectation, rows: str, identities: str) -> dict[tuple[str, str], str]:
    """The two SQL aggregates that `unique` needs, by expectation and name."""
    return {(expectation.name, ROWS): rows, (expectation.name, IDENTITIES): identities}


def _identity(expectation: Expectation, value: str) -> str:
    """The identity of a row, as this function of its columns; NULL if one of them is NULL.

    If all hashes differ, all identities differ. Spark compares hashes faster than structs.
    """
    columns = list(map(quoted, expectation.identity))
    unnamed = " OR ".join(f"{column} IS NULL" for column in columns)
    return f"IF({unnamed}, NULL, {value}({', '.join(columns)}))"


def _wrong(passes: Sequence[_Pass]) -> str:
    """The expectations with a count that is no aggregate of these rows."""
    names = []
    for rows, counts in passes:
        for (name, _), sql in counts.items():
            try:
                rows.selectExpr(sql, "count(1)")
            except AnalysisException:
                names.append(name)
    return ", ".join(dict.fromkeys(names))


def _counted(passes: Sequence[_Pass]) -> dict[tuple[str, str], Any]:
    """The counts of these passes, taken in one query; Spark runs the passes side by side."""
    some = [(rows, counts) for rows, counts in passes if counts]
    try:
        frames = [
            rows.selectExpr(*counts.values(), str(number)).toDF(
                *(f"c{number}_{each}" for each in range(len(counts))), "pass"
            )
            for number, (rows, counts) in enumerate(some)
        ]
    except AnalysisException as error:
        error.add_note(f"Correct the counts of the expectation {_wrong(some)}.")
        raise
    found = reduce(partial(DataFrame.unionByName, allowMissingColumns=True), frames).collect() if frames else []
    return {
        name: row[f"c{row['pass']}_{position}"] for row in found for position, name in enumerate(some[row["pass"]][1])
    }


def _unknown_values(rows: DataFrame, update: Update, reference: Reference, now: datetime) -> int | None:
    """How many rows have values that the other feed lacks; None if that feed has no valid update."""
    feed = Feed(update.feed.blackboard, reference.feed)
    other = latest(feed, update.partition if reference.partitioned else None, now=now)
    if other is None:
        return None
    mine = rows.select(*map(quoted, reference.columns))
    schema = StructType([StructField(to, own.dataType) for own, to in zip(mine.schema, reference.to, strict=True)])
    known = read_updates(rows.sparkSession, [other], schema)
    # Names without dots, so that they are not paths of fields.
    keys = [f"c{number}" for number in range(len(reference.to))]
    complete = mine.toDF(*keys).where(" AND ".join(f"{key} IS NOT NULL" for key in keys))
    return complete.join(known.toDF(*keys), on=keys, how="left_anti").count()


def _own_rows_before(update: Update, count: int) -> tuple[int, ...]:
    """The published rows of the last `count` updates of the partition before this one."""
    earlier = (each for each in records(update.feed, update.partition) if each.update < update.name)
    published = [each.facts.rows.published for each in earlier if each.state == "published" and each.facts.rows]
    return tuple(published[:count])


def _rows_before(update: Update, before: Sequence[str], now: datetime) -> tuple[int, ...]:
    """The published rows of these partitions of the same feed."""
    if not before:
        return ()
    in_force = latest_of_all(update.feed, now=now, only=before)
    found = (read_record(update.feed, each, in_force[each].name) for each in sorted(before) if each in in_force)
    return tuple(record.facts.rows.published for record in found if record and record.facts.rows)


def _upstream_rows(update: Update, record: Record, spark: SparkSession) -> Mapping[str, int | None]:
    """Rows of the input updates of the same partition, by feed; from their records, or else counted."""
    rows: dict[str, int | None] = {}
    for each in record.facts.inputs:
        if not isinstance(each, FeedInput) or each.partition != update.partition:
            continue
        if each.update is None:
            rows[each.feed] = 0
            continue
        upstream = Feed(update.feed.blackboard, each.feed)
        known = read_record(upstream, each.partition, each.update)
        published = known.facts.rows.published if known and known.facts.rows else None
        rows[each.feed] = _count_rows(spark, upstream, each) if published is None else published
    return rows


def _inputs_seen(record: Record, window: tuple[datetime, datetime] | None) -> bool:
    """Whether the update had input: a feed's update, raw files, or a reason for each source why it has none.

    A run over several partitions records the inputs of all of them: only raw files of the partition's window count, if
    it has a window.
    """
    own = [each for each in record.facts.inputs if not each.context]
    seen = any(_has_files(each, window) if isinstance(each, RawInput) else each.update is not None for each in own)
    sources = {each.source for each in own if isinstance(each, RawInput)}
    return seen or (bool(sources) and sources <= empty_sources(record.facts.details))


def _has_files(read: RawInput, window: tuple[datetime, datetime] | None) -> bool:
    day = date.fromisoformat(read.partition)
    hours = (datetime.combine(day, time(int(hour)), UTC) for hour in read.hours)
    return any(window is None or window[0] <= hour < window[1] for hour in hours)


def _count_rows(spark: SparkSession, feed: Feed, reference: FeedInput) -> int | None:
    """The rows of an update that was published without a record; None if it is no longer valid."""
    moment = begun(reference.update or "")
    update = latest(feed, reference.partition, now=moment, as_of=moment)
    return count_update(spark, update) if update and update.name == reference.update else None
