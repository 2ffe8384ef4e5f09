"""The place of each record of a file: the hour of its time, quarantine, or none if the source's filter leaves it out.

Here: this decision, the files that Spark writes by it, and the number of records by outcome. Not here: where the files
end up (see `staging`), when they count (see `landing`), and formats (see `records`).
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final
from urllib.parse import unquote
from uuid import uuid4

from pyspark.sql import Column, DataFrame, Observation, SparkSession, functions

from feed_assets.blackboard.location import readable_uris
from feed_assets.blackboard.port import Blackboard, Entry
from feed_assets.engine.buckets import path_to_write
from feed_assets.engine.listed_files import rows_by_path
from feed_assets.engine.paths import to_read
from feed_assets.engine.sql import quoted
from feed_assets.sources.expressions import event_time
from feed_assets.sources.formats import RESERVED_COLUMNS, JsonLinesFormat
from feed_assets.sources.layout import LandingId
from feed_assets.sources.raising import VALUE, to_try, tried
from feed_assets.sources.reasons import FUTURE, MALFORMED, NO_TIME, REASONS, UNFILTERED
from feed_assets.sources.records import with_nulls
from feed_assets.sources.source_errors import LandingError
from feed_assets.sources.spec import Source

EARLIEST: Final = datetime(1970, 1, 1, tzinfo=UTC)
"""The earliest usable time; earlier ones come from a number in the wrong unit."""

AHEAD: Final = timedelta(days=1)
"""How far ahead of the clock a usable time may be: more than the error of a wrong zone or a partner's clock."""

_LANDED: Final = "landed"
_FILTERED: Final = "filtered"
_QUARANTINED: Final = "quarantined"
_STAGED: Final = re.compile(r"_day=([^/]+)/_hour=([^/]+)/part-[^/]+\.parquet")
_TASK_BYTES: Final = 64 * 2**20
"""About how many bytes of a file a task writes, in at most `_MOST_TASKS` tasks. One task writes all of an hour."""
_MOST_TASKS: Final = 1_000
_LANDED_MALFORMED: Final = "landed malformed"
_OUTCOMES: Final = (_LANDED, _LANDED_MALFORMED, _FILTERED, *REASONS)
SAMPLES: Final = 4
"""How many records a sample has for each hour that may land: it misses few hours, if they are alike."""
_SPREAD: Final = 64
"""Over how many places filtered records are spread, so that no task gets all of them."""


@dataclass(frozen=True, slots=True)
class Counts:
    """Numbers of a file's records: of all, and by outcome; those `malformed` have landed, those quarantined by reason.

    `days` are those of all records that have a usable time. `first_future` is the first time too far ahead, in
    microseconds since 1970, for `usable_from`.
    """

    read: int
    landed: int
    malformed: int
    filtered: int
    quarantined: Mapping[str, int]
    days: tuple[str, ...]
    first_future: int | None


@dataclass(frozen=True, slots=True)
class StagedRecords:
    """The file that Spark wrote for each hour, `YYYY-MM-DD/HH`, and for each reason of quarantine."""

    hours: Mapping[str, Entry]
    quarantined: Mapping[str, Entry]


@dataclass(frozen=True, slots=True)
class Hours:
    """A number of hours, and the first and the last of them, as `YYYY-MM-DD/HH`."""

    count: int
    first: str
    last: str

    @classmethod
    def of(cls, hours: Collection[str]) -> Hours:
        """The number and the limits of these hours."""
        return cls(len(hours), min(hours, default=""), max(hours, default=""))


def hours_of_sample(
    records: DataFrame, source: Source, steps: Mapping[LandingId, int], *, now: datetime, suspicious: bool
) -> Mapping[LandingId, Hours]:
    """The hours in which some records would land: of each of these landings, the records of each so many lines.

    One small Spark job: the other lines are not parsed.
    """
    col, lit, when = functions.col, functions.lit, functions.when
    sampled = lit(False)  # noqa: FBT003 - a value
    for landing, step in steps.items():
        sampled |= (col("_landing") == f"{landing}") & (col("_line") % step == 0)
    timed, passes, raised = _evaluated(with_nulls(records.where(sampled), source), source, suspicious=suspicious)
    lands = col("_time").between(lit(EARLIEST), lit(now + AHEAD)) & passes & ~raised
    hour = when(lands, functions.date_format("_time", "yyyy-MM-dd/HH"))
    hours = [functions.collect_set(when(col("_landing") == f"{each}", hour)).alias(f"{each}") for each in steps]
    (row,) = timed.agg(*hours).collect()
    return {landing: Hours.of(row[f"{landing}"]) for landing in steps}


def write_by_hour(
    records: DataFrame,
    source: Source,
    landings: Sequence[LandingId],
    attempt: str,
    *,
    size: int,
    now: datetime,
    suspicious: bool = False,
) -> Mapping[LandingId, Counts]:
    """Write the records of files, `size` bytes together, by landing, day and hour; quarantined ones by reason.

    Each landing has its own folder (`attempted_prefix`) below the URI of the attempt, with one file an hour. If
    `suspicious`, each expression is taken for one that can raise an error.

    Returns the counts of each landing. The tasks that write count, after the shuffle: there Spark counts a task once,
    even if it computes a stage again.
    """
    col, lit, when = functions.col, functions.lit, functions.when
    partners = [column for column in records.columns if column.lower() not in RESERVED_COLUMNS]
    # Raw files keep the null tokens; expressions see NULL instead of them.
    sent = records.withColumn("_sent", functions.struct(*map(quoted, partners)))
    nulled = with_nulls(sent, source)
    malformed, time = col("_malformed").isNotNull(), col("_time")
    judged, passes, raised = _evaluated(nulled, source, suspicious=suspicious)
    usable = time.between(lit(EARLIEST), lit(now + AHEAD))
    outcome = (
        when(raised & ~malformed, lit(UNFILTERED))
        # If the filter is NULL for a malformed record, the record is kept, so that none is lost.
        .when(~functions.coalesce(passes, malformed), lit(_FILTERED))
        .when(usable, lit(_LANDED))
        .when(malformed, lit(MALFORMED))
        .when(time > lit(now + AHEAD), lit(FUTURE))
        .otherwise(lit(NO_TIME))
    )
    judged = judged.withColumn("_outcome", outcome)
    landed, filtered = col("_outcome") == _LANDED, col("_outcome") == _FILTERED
    keeps_record = isinstance(source.format, JsonLinesFormat)
    seen = when(usable, functions.date_format("_time", "yyyy-MM-dd"))
    day = when(landed, seen).when(filtered, _FILTERED).otherwise(_QUARANTINED)
    hour = when(landed, functions.date_format("_time", "HH")).otherwise(col("_outcome"))
    placed = judged.select(
        # Filtered records are only counted, so they leave their content behind.
        when(~filtered, col("_sent")).alias("_sent"),
        "_landing",
        "_file",
        "_line",
        when(landed, col("_malformed")).when(~filtered, col("_record")).alias("_malformed"),
        *([when(~filtered, col("_record")).alias("_record")] if keeps_record else []),
        seen.alias("_seen"),
        when(col("_outcome") == FUTURE, functions.unix_micros("_time")).alias("_future"),
        day.alias("_day"),
        when(filtered, functions.pmod("_line", lit(_SPREAD)).cast("string")).otherwise(hour).alias("_hour"),
        _counter(landings, when(landed & malformed, _LANDED_MALFORMED).otherwise(col("_outcome"))).alias("_counter"),
    )
    only_counted = {"_sent", "_seen", "_future", "_counter"}
    places = ("_landing", "_day", "_hour")
    observation = Observation(f"landing-{uuid4().hex}")
    rows = (
        placed.repartition(min(2 + size // _TASK_BYTES, _MOST_TASKS), *places)
        .observe(observation, *_counts(landings))
        .where(col("_day") != _FILTERED)
        .sortWithinPartitions(*places, "_line")
        .select("_sent.*", *(name for name in placed.columns if name not in only_counted))
    )
    with path_to_write(attempt) as path:
        # The folders of the landings have their files as they were sent.
        rows.write.mode("append").partitionBy(*places).parquet(path)
    return {landing: _of_landing(observation.get, landing) for landing in landings}


def _evaluated(nulled: DataFrame, source: Source, *, suspicious: bool) -> tuple[DataFrame, Column, Column]:
    """The records with `_time`, NULL if it is not usable; whether a record passes the filter, and whether that raised.

    The frame has all columns that the conditions need.
    """
    spark, condition = nulled.sparkSession, source.filter or "true"
    time, passes = (to_try(source, text, suspicious=suspicious) for text in (source.columns["event_time"], condition))
    if time is not None:
        timed = nulled.withColumn("_time", tried(spark, event_time(nulled, source, time))[VALUE])
    else:
        timed = nulled.withColumn("_time", event_time(nulled, source))
    if passes is None:
        return timed, functions.expr(condition), functions.expr("false")
    # A column: Spark would evaluate an expression in each of the two conditions.
    timed = timed.withColumn("_passes", tried(spark, functions.expr(passes)))
    return timed, functions.col("_passes")[VALUE], functions.col("_passes").isNull()


def usable_from(micros: int | None) -> datetime | None:
    """When a time, in microseconds since 1970, becomes usable: a day before it, at most the year 9999."""
    if micros is None:
        return None
    last = datetime.max.replace(tzinfo=UTC)
    return EARLIEST + min(timedelta(microseconds=micros), last - EARLIEST) - AHEAD


def staged_records(entries: Iterable[Entry], prefix: str) -> StagedRecords:
    """The files of `write_by_hour` among these of one landing's folder, which is the prefix."""
    hours: dict[str, Entry] = {}
    quarantined: dict[str, Entry] = {}
    for entry in entries:
        match = _STAGED.fullmatch(entry.key.removeprefix(prefix))
        if match is None:
            continue
        is_hour = match[1] != _QUARANTINED
        files, place = (hours, f"{match[1]}/{match[2]}") if is_hour else (quarantined, unquote(match[2]))
        if place in files:
            both = f"{files[place].key} and {entry.key}"
            raise LandingError(f"Spark wrote two files for one hour, {both}; land the file again")
        files[place] = entry
    return StagedRecords(hours, quarantined)


def records_by_hour(
    session: SparkSession, blackboard: Blackboard, staged: Mapping[LandingId, StagedRecords]
) -> dict[LandingId, dict[str, int]]:
    """How many records each landing has in each hour that got some. One Spark job."""
    sizes = {entry.key: entry.size for records in staged.values() for entry in records.hours.values()}
    sizes = dict(zip(readable_uris(blackboard, sizes), sizes.values(), strict=True))
    counts = rows_by_path(session, sizes, "_landing=([^/]+/_day=[^/]+/_hour=[^/]+)/[^/]+$")
    return {
        landing: {hour: counts[f"{landing}/_day={hour[:10]}/_hour={hour[11:]}"] for hour in records.hours}
        for landing, records in staged.items()
    }


def write_quarantine(
    session: SparkSession, blackboard: Blackboard, staged: Mapping[LandingId, StagedRecords], attempt: str
) -> None:
    """Write the quarantined records of each landing as one file of JSON lines into its folder of the attempt."""
    schema = "_file STRING, _line BIGINT, _malformed STRING"
    keys = [entry.key for records in staged.values() for entry in records.quarantined.values()]
    uris = readable_uris(blackboard, keys)
    if not uris:
        return
    with path_to_write(blackboard.uri(attempt)) as target:
        read = session.read.schema(schema).option("basePath", target).parquet(*map(to_read, uris))
        named = read.selectExpr("_landing", "_file AS file", "_line AS line", "_hour AS reason", "_malformed AS record")
        one = named.coalesce(1).sortWithinPartitions("_landing", "line")
        one.write.mode("append").partitionBy("_landing").json(target)


def write_nothing(session: SparkSession, uri: str) -> None:
    """Write one raw file without a record below `uri`."""
    nothing = session.range(0).selectExpr("'' AS _file", "id AS _line", "'' AS _malformed")
    with path_to_write(uri) as path:
        nothing.coalesce(1).write.parquet(path)


def _counter(landings: Sequence[LandingId], outcome: Column) -> Column:
    """A number for the landing of a record and this outcome, as Spark compares numbers fast; see `_counts`."""
    ids, outcomes = (functions.array(*map(functions.lit, each)) for each in (map(str, landings), _OUTCOMES))
    landing = functions.array_position(ids, functions.col("_landing")) - 1
    return landing * len(_OUTCOMES) + functions.array_position(outcomes, outcome) - 1


def _counts(landings: Sequence[LandingId]) -> list[Column]:
    col, when = functions.col, functions.when
    counters = [f"{landing} {outcome}" for landing in landings for outcome in _OUTCOMES]
    seen = when(col("_seen").isNotNull(), functions.struct("_landing", "_seen"))
    return [
        *(functions.count_if(col("_counter") == number).alias(name) for number, name in enumerate(counters)),
        *(functions.min(when(col("_landing") == f"{each}", col("_future"))).alias(f"{each}") for each in landings),
        functions.collect_set(seen).alias("days"),
    ]


def _of_landing(counts: Mapping[str, Any], landing: LandingId) -> Counts:
    of = {outcome: counts[f"{landing} {outcome}"] for outcome in _OUTCOMES}
    return Counts(
        read=sum(of.values()),
        landed=of[_LANDED] + of[_LANDED_MALFORMED],
        malformed=of[_LANDED_MALFORMED],
        filtered=of[_FILTERED],
        quarantined={reason: of[reason] for reason in REASONS if of[reason]},
        days=tuple(sorted(day for other, day in counts["days"] if other == str(landing))),
        first_future=counts[f"{landing}"],
    )
