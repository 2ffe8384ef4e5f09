"""Trying a source on one of the partner's files: what would land, and what its expressions make of the records.

Here: landing the file in a directory that is removed afterwards, and the figures of each column. Not here: the rules of
a project, which judge records when a day is processed (`quality.judging`), and the command line.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import date, datetime
from pathlib import Path
from typing import Final

from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql.types import StringType

from feed_assets.blackboard.local import LocalBlackboard
from feed_assets.blackboard.port import Blackboard
from feed_assets.engine.sql import quoted, text_literal
from feed_assets.file_feed.errors import FeedError
from feed_assets.operations.quarantined import LANDING, Quarantines, SetAside
from feed_assets.sources.canonical import canonical
from feed_assets.sources.dropped_zones import ZONED, zones_dropped
from feed_assets.sources.expressions import named_columns
from feed_assets.sources.kinds import EVENT_TIME
from feed_assets.sources.landing import land
from feed_assets.sources.ledger import Landing
from feed_assets.sources.placing import EARLIEST
from feed_assets.sources.positions import dotted
from feed_assets.sources.raw import raw_days, raw_frame
from feed_assets.sources.reasons import FUTURE, NO_TIME
from feed_assets.sources.scratch import scratch_directory
from feed_assets.sources.spec import Source

_ANY_TIME: Final = "TIMESTAMP_NTZ '2000-01-01 00:00:00'"


@dataclass(frozen=True, slots=True)
class Example:
    """A record of the file: the number of its line or row, from 1, and its fields as JSON, or the line as sent."""

    line: int
    record: str


@dataclass(frozen=True, slots=True)
class TriedColumn:
    """A canonical column over the records of the file that the source's filter does not leave out.

    `filled` records have a value, `unparsable` ones were sent a value that the column cannot hold, and `empty` ones
    have neither. `first` is the first value, as text.
    """

    name: str
    type: str
    filled: int
    empty: int
    unparsable: int
    first: str | None
    first_unparsable: Example | None


@dataclass(frozen=True, slots=True)
class DroppedZones:
    """A field of the source, such as `columns.event_time`, that drops the zone of so many records, and the first."""

    field: str
    records: int
    first: Example


@dataclass(frozen=True, slots=True)
class Trial:
    """The result that landing a file would have. `redelivered` records have the id of an earlier record of the file.

    `reasons` counts the records that would go to quarantine; it tells times that were not sent from those that cannot
    be read.
    """

    landing: Landing
    reasons: Mapping[str, int]
    columns: tuple[TriedColumn, ...]
    redelivered: int
    first_malformed: Example | None
    not_landed: tuple[SetAside, ...]
    dropped_zones: tuple[DroppedZones, ...]


def try_source(spark: SparkSession, source: Source, file: Path, *, now: datetime) -> Trial:
    """Land a file in a temporary directory, evaluate the source's expressions, and remove all of it.

    If records would not land for their time, the file is landed once more with one time for all records: so the columns
    of these records can be counted, too. `spark` must run on this machine. Raises LandingError if the file cannot be
    read, and SpecError if Spark does not take an expression.
    """
    with scratch_directory("feed-assets-try-") as directory:
        board = LocalBlackboard(directory)
        landing = land(spark, board, source, file, now=now, any_hours=True)
        not_landed = _set_aside(board, now)
        if {NO_TIME, FUTURE} & landing.quarantined.keys():
            board = LocalBlackboard(directory / "timed")
            columns = {**source.columns, EVENT_TIME: _ANY_TIME}
            land(spark, board, source.model_copy(update={"columns": columns}), file, now=now)
        raw = raw_frame(spark, board, source, *raw_days(board, [source.key], date.min, date.max).values())
        figures = _figures(raw, source)
        dropped = tuple(_dropped_zones(raw, source))
    return Trial(
        landing,
        figures.reasons(landing.quarantined),
        figures.columns,
        figures.redelivered,
        figures.malformed,
        not_landed,
        dropped,
    )


def _set_aside(board: Blackboard, now: datetime) -> tuple[SetAside, ...]:
    unreadable: list[FeedError] = []
    found = tuple(Quarantines(board, now=now, unreadable=unreadable.append).by_reason(where=LANDING))
    if unreadable:
        raise unreadable[0]
    return found


def _dropped_zones(raw: DataFrame, source: Source) -> Iterator[DroppedZones]:
    """For each expression that drops zones, the records with a zone in one of its columns."""
    types = {column.name.lower(): column.dataType for column in raw.schema}
    named = named_columns(raw.sparkSession, source)
    for location in zones_dropped(raw.sparkSession, source):
        texts = [name for name in named[location] if isinstance(types.get(name.lower()), StringType)]
        zoned = " OR ".join(f"{quoted(name)} RLIKE {text_literal(ZONED)}" for name in texts)
        if zoned:
            sent = f"to_json(struct({', '.join(map(quoted, texts))}))"
            figures = ("count(*) AS records", f"min(struct(_line, {sent})) AS first")
            (row,) = raw.where(zoned).selectExpr(*figures).collect()
            if row["records"]:
                yield DroppedZones(dotted(location), row["records"], Example(*row["first"]))


@dataclass(frozen=True, slots=True)
class _Figures:
    """The figures of each column, the number of redelivered records, and the first malformed record.

    `missing` and `unparsable` count the times of records that are not malformed.
    """

    columns: tuple[TriedColumn, ...]
    redelivered: int
    malformed: Example | None
    missing: int
    unparsable: int

    def reasons(self, quarantined: Mapping[str, int]) -> Mapping[str, int]:
        """The reasons of a quarantine, with those of unusable times apart."""
        others = {reason: records for reason, records in quarantined.items() if reason != NO_TIME}
        without = quarantined.get(NO_TIME, 0)
        times = {
            f"{EVENT_TIME} unparsable": self.unparsable,
            f"{EVENT_TIME} missing": self.missing,
            f"{EVENT_TIME} before {EARLIEST.year}": without - self.unparsable - self.missing,
        }
        return {reason: records for reason, records in times.items() if without and records} | others


def _figures(raw: DataFrame, source: Source) -> _Figures:
    """The figures of these records: one aggregate."""
    records = canonical(raw, source)
    types = source.declared_kind.columns
    identifier = quoted(source.identifier)
    time, not_read = quoted(EVENT_TIME), f"array_contains(_unparsable, {text_literal(EVENT_TIME)})"
    unreadable = f"coalesce({not_read}, false) AND _malformed IS NULL"
    aggregates = {
        f"count_if({time} IS NULL AND _malformed IS NULL) - count_if({unreadable})": "missing",
        f"count_if({unreadable})": "unparsable",
        "count(*)": "all",
        f"count({identifier}) - count(DISTINCT {identifier})": "redelivered",
        "min(struct(_line, _malformed)) FILTER (WHERE _malformed IS NOT NULL)": "malformed",
    }
    for number, name in enumerate(types):
        column, wrong = quoted(name), f"array_contains(_unparsable, {text_literal(name)})"
        aggregates |= {
            f"count({column})": f"filled_{number}",
            f"count_if({wrong})": f"unparsable_{number}",
            f"min_by(CAST({column} AS STRING), _line) FILTER (WHERE {column} IS NOT NULL)": f"first_{number}",
            f"min(struct(_line, _raw)) FILTER (WHERE {wrong})": f"wrong_{number}",
        }
    (row,) = records.selectExpr(*(f"{sql} AS {alias}" for sql, alias in aggregates.items())).collect()
    columns = tuple(
        TriedColumn(
            name,
            type_,
            filled := row[f"filled_{number}"],
            row["all"] - filled - row[f"unparsable_{number}"],
            row[f"unparsable_{number}"],
            row[f"first_{number}"],
            _example(row[f"wrong_{number}"]),
        )
        for number, (name, type_) in enumerate(types.items())
    )
    return _Figures(columns, row["redelivered"], _example(row["malformed"]), row["missing"], row["unparsable"])


def _example(found: Row | None) -> Example | None:
    return None if found is None else Example(*found)
