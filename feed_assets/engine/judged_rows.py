"""Judged rows: a frame whose rows are published, quarantined or duplicates, each with its reason.

Here: the columns of a judged frame, and its views: published rows, quarantined records, counts. Not here: the rules
(`quality.judging`, and those of a project), and where the rows go.

A judged frame has the columns `_verdict` and `_reason`, and for the quarantine `_file`, `_line`, `_refused` (the
reason, known before any two rows are compared) and `_record` (the record as the partner sent it).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Final

from pyspark.sql import Column, DataFrame, Row, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - as everyone writes Spark
from pyspark.sql.types import LongType, StringType, StructField, StructType, TimestampType

from feed_assets.engine.jvm import bloom_filter, might_contain
from feed_assets.engine.moments import JSON_TIMES
from feed_assets.engine.spark_schemas import as_declared
from feed_assets.engine.sql import map_literal, quoted, text_literal

VERDICT: Final = "_verdict"
REASON: Final = "_reason"
"""Columns that mark a judged frame. No kind has a column whose name begins with `_`."""
BOOKKEEPING: Final = ("_file", "_line", "_refused", "_record")
"""Columns of a judged frame that only its quarantined records need."""
RAISED: Final = "!"
"""What the first name in `_unparsable` begins with if the expression of its column raised an error."""
FEW_QUARANTINED: Final = "few quarantined"
PLACES_QUARANTINED: Final = "places quarantined"
"""The names of `few_quarantined` and `places_quarantined` in an observation."""
_PLACE: Final = "_place"
FEW: Final = 1_000
SHORT: Final = 8 * 2**10
"""Limits of `few_quarantined`: records, and bytes of each, so that they take little memory of Spark's driver."""
REASONS: Final = "reasons"
"""The entry in the metadata of the column `_reason` that lists all reasons, each with its verdict."""


class Verdict(StrEnum):
    """The outcome of a row."""

    PUBLISHED = "published"
    QUARANTINED = "quarantined"
    DUPLICATE = "duplicate"


def _described(name: str, comment: str, type_: StringType | LongType | TimestampType | None = None) -> StructField:
    return StructField(name, type_ or StringType(), metadata={"comment": comment})


QUARANTINE: Final = StructType(
    [
        _described("event_time", "When the event happened, UTC; NULL if unreadable.", TimestampType()),
        _described("source", "The partner's log that has the record."),
        _described("file", "The base name of the partner's file."),
        _described("line", "The line or record in that file, from 1.", LongType()),
        _described("reason", "Why the record could not be used."),
        _described("record", "The sent fields as a JSON object, or the line itself if it is malformed."),
    ]
)
"""Records that could not be used, one row each, stored beside the update that left them out."""
_IN_QUARANTINE: Final = {"_file": "file", "_line": "line", "_refused": "reason", "_record": "record"}
"""The columns of a judged frame that have another name in `QUARANTINE`."""


def with_reasons(reason: Column, reasons: Mapping[str, Verdict]) -> Column:
    """The column `_reason` of a judged frame; `reasons` are all its possible values, each with its verdict."""
    return reason.alias(REASON, metadata={REASONS: {name: verdict.value for name, verdict in reasons.items()}})


def published_rows(judged: DataFrame) -> DataFrame:
    """The published rows of a judged frame, without the columns of the judgement."""
    return judged.filter(F.col(VERDICT) == Verdict.PUBLISHED.value).drop(VERDICT, REASON, _PLACE, *BOOKKEEPING)


def quarantined_rows(judged: DataFrame, places: bytes | None = None) -> DataFrame:
    """The quarantined records of a judged frame, as `QUARANTINE` declares them; NULL for columns that it lacks.

    This takes a pass over the input and no shuffle: `_refused` is known before rows are compared, so Spark skips the
    comparison. With the `places_quarantined` of an earlier pass, it also skips reading the values of nearly all others.
    """
    if places is not None:
        judged = judged.filter(might_contain(judged.sparkSession, places, _place()))
    kept = [name for name in ("event_time", "source", *BOOKKEEPING) if name in judged.columns]
    # Before they are renamed: the records may have columns of these names.
    named = judged.filter(F.col("_refused").isNotNull()).select(*kept).withColumnsRenamed(_IN_QUARANTINE)
    absent = {field.name: F.lit(None).cast(field.dataType) for field in QUARANTINE if field.name not in named.columns}
    return as_declared(named.withColumns(absent) if absent else named, QUARANTINE)


def verdict_counts(judged: DataFrame) -> list[Column]:
    """Named counts over a judged frame, for `DataFrame.observe`: the pass that publishes also counts the other rows.

    Their names are `quarantined`, and `duplicate: <reason>` for each reason; `duplicate` if the frame was not made by
    `with_reasons`. Spark evaluates them one by one for each row, so there are few.
    """
    verdicts = [_count_of(VERDICT, Verdict.QUARANTINED.value, Verdict.QUARANTINED.value)]
    if not (reasons := _reasons(judged, Verdict.DUPLICATE)):
        return [*verdicts, _count_of(VERDICT, Verdict.DUPLICATE.value, Verdict.DUPLICATE.value)]
    return [*verdicts, *(_count_of(REASON, reason, name) for name, reason in reasons.items())]


def few_quarantined(judged: DataFrame) -> Column:
    """An aggregate over a judged frame, for `DataFrame.observe`: the first `FEW` of its `quarantined_rows`.

    An array of structs, named `FEW_QUARANTINED`: `reason`, and `line`, the row as Spark's JSON format writes it. Rows
    longer than `SHORT` are left out, so the array has all quarantined rows only if it has as many as were counted.
    """
    names = {name: name for name in ("event_time", "source")} | _IN_QUARANTINE
    row = ", ".join(f"{name} AS {as_}" for name, as_ in names.items() if name in judged.columns)
    line = f"IF(_refused IS NOT NULL, to_json(struct({row}), {map_literal(JSON_TIMES)}), NULL)"
    place = f"IF(octet_length({line}) <= {SHORT}, struct(_file, _line), NULL)"
    few = f"min_by(struct(_refused AS reason, {line} AS line), {place}, {FEW})"
    return F.expr(f"{few} AS {quoted(FEW_QUARANTINED)}")


def with_places(judged: DataFrame) -> DataFrame:
    """A judged frame without `BOOKKEEPING`, for `places_quarantined`: `observe` passes on whole rows."""
    return judged.withColumn(_PLACE, F.when(F.col("_refused").isNotNull(), _place())).drop(*BOOKKEEPING)


def places_quarantined(spark: SparkSession) -> Column:
    """An aggregate over a frame of `with_places`, for `DataFrame.observe`: the places of its `quarantined_rows`.

    A Bloom filter, named `PLACES_QUARANTINED`, so that it takes little memory, however many rows there are.
    """
    return bloom_filter(spark, F.col(_PLACE)).alias(PLACES_QUARANTINED)


def _place() -> Column:
    """A BIGINT for the place of a record: the pass that publishes and the quarantine's own must agree on it."""
    return F.xxhash64("_file", "_line")


def reason_counts(judged: DataFrame) -> list[Column]:
    """Named counts over the `quarantined_rows` of a judged frame, for `DataFrame.observe`.

    Their names are `quarantined: <reason>` for each reason; `quarantined` if the frame was not made by `with_reasons`.
    """
    if not (reasons := _reasons(judged, Verdict.QUARANTINED)):
        return [F.count(F.lit(1)).alias(Verdict.QUARANTINED.value)]
    return [_count_of("reason", reason, name) for name, reason in reasons.items()]


def counted_reasons(judged: DataFrame, few: Sequence[Row]) -> dict[str, int]:
    """The `reason_counts` of a judged frame whose quarantined rows are all in `few_quarantined`."""
    names = {reason: name for name, reason in _reasons(judged, Verdict.QUARANTINED).items()}
    return Counter(names.get(each.reason, Verdict.QUARANTINED.value) for each in few)


def _count_of(column: str, value: str, name: str) -> Column:
    return F.expr(f"count_if({column} = {text_literal(value)}) AS {quoted(name)}")


def _reasons(judged: DataFrame, verdict: Verdict) -> dict[str, str]:
    """The reasons of a verdict, each by the name of its count."""
    reasons: Mapping[str, str] = judged.schema[REASON].metadata.get(REASONS, {})
    return {f"{verdict}: {reason}": reason for reason, of in reasons.items() if of == verdict}
