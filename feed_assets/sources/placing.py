"""The place of each record of a file: the hour of its time, quarantine, or none if the source's filter leaves it out.

Here: this decision, the files that Spark writes by it, and the number of records by outcome. Not here: where the files
end up (see `staging`), when they count (see `landing`), and formats (see `records`).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import reduce
from typing import Final
from urllib.parse import unquote
from uuid import uuid4

from pyspark.sql import Column, DataFrame, Observation, SparkSession, functions

from feed_assets.blackboard.port import Blackboard
from feed_assets.engine.paths import to_read, to_write
from feed_assets.engine.sql import quoted
from feed_assets.sources.expressions import event_time
from feed_assets.sources.layout import LandingId
from feed_assets.sources.records import with_nulls
from feed_assets.sources.source_errors import LandingError
from feed_assets.sources.spec import JsonLinesFormat, Source

MALFORMED: Final = "malformed record"
NO_TIME: Final = "no usable time"
FUTURE: Final = "event_time in the future"
REASONS: Final = (MALFORMED, NO_TIME, FUTURE)
"""Why a record belongs to no hour: it does not parse as declared, has no usable time, or a time in the future."""

EARLIEST: Final = datetime(1970, 1, 1, tzinfo=UTC)
"""The earliest usable time; earlier ones come from a number in the wrong unit."""

AHEAD: Final = timedelta(days=1)
"""How far ahead of the clock a usable time may be: more than the error of a wrong zone or a partner's clock."""

_LANDED: Final = "landed"
_FILTERED: Final = "filtered"
_QUARANTINED: Final = "quarantined"
_STAGED: Final = re.compile(r"_day=([^/]+)/_hour=([^/]+)/part-[^/]+\.parquet")
_TASK_BYTES: Final = 64 * 2**20
"""About how many bytes of a file a task writes, in at most `_MOST_TASKS` tasks; those of an hour are written by one."""
_MOST_TASKS: Final = 1_000
_SPREAD: Final = 64
"""Over how many places filtered records are spread, so that no task gets all of them."""


@dataclass(frozen=True, slots=True)
class StagedRecords:
    """The file that Spark wrote for each hour, `YYYY-MM-DD/HH` -> key, and for each reason of quarantine."""

    hours: Mapping[str, str]
    quarantined: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class PlacedRecords:
    """The records of one file with their places, and their counts, which Spark knows once it has written them."""

    frame: DataFrame
    counts: Observation


def place(
    records: DataFrame, source: Source, landing: LandingId, *, name: str, size: int, now: datetime
) -> PlacedRecords:
    """Give each record of a file of `size` bytes its day and hour, or the reason of its quarantine.

    The counts are `read`, `landed`, `malformed`, `filtered` and one for each of `REASONS`; the `days` of all records
    that have a usable time; and `first_future`, for `usable_from`. They are taken after the shuffle, in the tasks that
    write: there Spark counts a task once, even if it computes a stage again.
    """
    col, lit, when = functions.col, functions.lit, functions.when
    partners = [column for column in records.columns if column not in {"_line", "_record", "_malformed"}]
    # Raw files keep the null tokens; expressions see NULL instead of them.
    sent = records.withColumn("_sent", functions.struct(*map(quoted, partners)))
    nulled = with_nulls(sent, source)
    malformed, time = col("_malformed").isNotNull(), col("_time")
    # If the filter is NULL for a malformed record, the record is kept, so that none is lost.
    passes = functions.expr(source.filter) if source.filter else functions.expr("true")
    usable = time.between(lit(EARLIEST), lit(now + AHEAD))
    outcome = (
        when(~functions.coalesce(passes, malformed), lit(_FILTERED))
        .when(usable, lit(_LANDED))
        .when(malformed, lit(MALFORMED))
        .when(time > lit(now + AHEAD), lit(FUTURE))
        .otherwise(lit(NO_TIME))
    )
    judged = nulled.withColumn("_time", event_time(nulled, source)).withColumn("_outcome", outcome)
    landed, filtered = col("_outcome") == _LANDED, col("_outcome") == _FILTERED
    keeps_record = isinstance(source.format, JsonLinesFormat)
    seen = when(usable, functions.date_format("_time", "yyyy-MM-dd"))
    day = when(landed, seen).when(filtered, _FILTERED).otherwise(_QUARANTINED)
    hour = when(landed, functions.date_format("_time", "HH")).otherwise(col("_outcome"))
    placed = judged.select(
        # Filtered records are only counted, so they leave their content behind.
        when(~filtered, col("_sent")).alias("_sent"),
        lit(name).alias("_file"),
        "_line",
        when(landed, col("_malformed")).when(~filtered, col("_record")).alias("_malformed"),
        *([when(~filtered, col("_record")).alias("_record")] if keeps_record else []),
        seen.alias("_seen"),
        when(col("_outcome") == FUTURE, functions.unix_micros("_time")).alias("_future"),
        day.alias("_day"),
        when(filtered, functions.pmod("_line", lit(_SPREAD)).cast("string")).otherwise(hour).alias("_hour"),
    )
    counts = Observation(f"landing-{uuid4().hex}")
    written = (
        placed.repartition(min(2 + size // _TASK_BYTES, _MOST_TASKS), "_day", "_hour")
        .observe(counts, *_counts())
        .where(col("_day") != _FILTERED)
        .withColumn("_landing", lit(str(landing)))
        .select("_sent.*", *(name for name in placed.columns if name not in {"_sent", "_seen", "_future"}), "_landing")
    )
    return PlacedRecords(written, counts)


def write_by_hour(placed: Sequence[PlacedRecords], attempt: str) -> None:
    """Write the records of files with the same columns in one Spark job, below the URI of an attempt.

    Each landing has its own folder (`attempted_prefix`), in it a folder a day and hour with one file.
    """
    # A file of its own for each landing and hour: a task writes one after the other, in this order.
    order = ("_landing", "_day", "_hour")
    frame = reduce(DataFrame.unionAll, [each.frame for each in placed])
    frame.sortWithinPartitions(*order, "_line").write.mode("append").partitionBy(*order).parquet(to_write(attempt))


def usable_from(micros: int | None) -> datetime | None:
    """When a time, in microseconds since 1970, becomes usable: a day before it, at most the year 9999."""
    if micros is None:
        return None
    last = datetime.max.replace(tzinfo=UTC)
    return EARLIEST + min(timedelta(microseconds=micros), last - EARLIEST) - AHEAD


def staged_records(keys: Iterable[str], prefix: str) -> StagedRecords:
    """The files of `write_by_hour` among these keys of one landing's folder, which is the prefix."""
    hours: dict[str, str] = {}
    quarantined: dict[str, str] = {}
    for key in keys:
        match = _STAGED.fullmatch(key.removeprefix(prefix))
        if match is None:
            continue
        is_hour = match[1] != _QUARANTINED
        files, place = (hours, f"{match[1]}/{match[2]}") if is_hour else (quarantined, unquote(match[2]))
        if place in files:
            raise LandingError(f"Spark wrote two files for one hour, {files[place]} and {key}; land the file again")
        files[place] = key
    return StagedRecords(hours, quarantined)


def write_quarantine(
    session: SparkSession, blackboard: Blackboard, staged: Mapping[LandingId, StagedRecords], attempt: str
) -> None:
    """Write the quarantined records of each landing as one file of JSON lines into its folder of the attempt."""
    schema = "_file STRING, _line BIGINT, _malformed STRING"
    parts = [
        session.read.schema(schema)
        .parquet(to_read(blackboard.uri(key)))
        .select(
            functions.lit(str(landing)).alias("_landing"),
            functions.col("_file").alias("file"),
            functions.col("_line").alias("line"),
            functions.lit(reason).alias("reason"),
            functions.col("_malformed").alias("record"),
        )
        for landing, records in staged.items()
        for reason, key in sorted(records.quarantined.items())
    ]
    if parts:
        one = reduce(DataFrame.unionAll, parts).coalesce(1).sortWithinPartitions("_landing", "line")
        one.write.mode("append").partitionBy("_landing").json(to_write(blackboard.uri(attempt)))


def write_nothing(session: SparkSession, uri: str) -> None:
    """Write one raw file without a record below `uri`."""
    nothing = session.range(0).selectExpr("'' AS _file", "id AS _line", "'' AS _malformed")
    nothing.coalesce(1).write.parquet(to_write(uri))


def _counts() -> list[Column]:
    col, lit = functions.col, functions.lit
    landed = ~col("_day").isin(_FILTERED, _QUARANTINED)
    return [
        functions.count(lit(1)).alias("read"),
        functions.count_if(landed).alias("landed"),
        functions.count_if(landed & col("_malformed").isNotNull()).alias("malformed"),
        functions.count_if(col("_day") == _FILTERED).alias("filtered"),
        functions.collect_set("_seen").alias("days"),
        functions.min("_future").alias("first_future"),
        *(
            functions.count_if((col("_day") == _QUARANTINED) & (col("_hour") == reason)).alias(reason)
            for reason in REASONS
        ),
    ]
