"""Judged rows: a frame whose rows are published, quarantined or duplicates, each with its reason.

Here: what such a frame looks like, and its views: published rows, quarantined records, counts. Not here: the rules
(`quality.judging`, and those of a project), and where the rows go.

A judged frame has the columns `verdict` and `reason`, and for the quarantine `_file`, `_line`, `_refused` (the reason,
known before any two rows are compared) and `_record` (what the partner sent).
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - as everyone writes Spark
from pyspark.sql.types import LongType, StringType, StructField, StructType, TimestampType

from feed_assets.engine.spark_schemas import as_declared

VERDICT: Final = "verdict"
REASON: Final = "reason"
"""Columns that tell a judged frame from any other."""
BOOKKEEPING: Final = ("_file", "_line", "_refused", "_record")
"""Columns of a judged frame that only its quarantined records need."""
REASONS: Final = "reasons"
"""The entry in the metadata of the column `reason` that lists all reasons, each with its verdict."""


class Verdict(StrEnum):
    """What becomes of a row."""

    PUBLISHED = "published"
    QUARANTINED = "quarantined"
    DUPLICATE = "duplicate"


def _described(name: str, comment: str, type_: StringType | LongType | TimestampType | None = None) -> StructField:
    return StructField(name, type_ or StringType(), metadata={"comment": comment})


QUARANTINE: Final = StructType(
    [
        _described("event_time", "When it happened, UTC, where that could be read.", TimestampType()),
        _described("source", "The partner's log it was read from."),
        _described("file", "The partner's file, by its base name."),
        _described("line", "The line or record in that file, from 1.", LongType()),
        _described("reason", "Why it could not be used."),
        _described(
            "record", "What the partner sent: the fields as a JSON object, or the line itself where it is malformed."
        ),
    ]
)
"""Records that could not be used, one row each, kept beside the update that left them out."""


def with_reasons(reason: Column, reasons: Mapping[str, Verdict]) -> Column:
    """The column `reason` of a judged frame; `reasons` are all that it can hold, each with the verdict it leads to."""
    return reason.alias(REASON, metadata={REASONS: {name: verdict.value for name, verdict in reasons.items()}})


def published_rows(judged: DataFrame) -> DataFrame:
    """The published rows of a judged frame, without the columns of the judgement."""
    return judged.filter(F.col(VERDICT) == Verdict.PUBLISHED.value).drop(VERDICT, REASON, *BOOKKEEPING)


def quarantined_rows(judged: DataFrame) -> DataFrame:
    """The quarantined records of a judged frame, as `QUARANTINE` declares them; NULL for columns it does not have.

    This takes a pass over the input and no shuffle: which records these are, and why, is known before any two are
    compared, so that Spark leaves the comparing out.
    """
    refused = judged.filter(F.col("_refused").isNotNull()).drop(REASON)
    names = {"_file": "file", "_line": "line", "_refused": "reason", "_record": "record"}
    named = refused.withColumnsRenamed(names)
    absent = {field.name: F.lit(None).cast(field.dataType) for field in QUARANTINE if field.name not in named.columns}
    return as_declared(named.withColumns(absent) if absent else named, QUARANTINE)


def verdict_counts(judged: DataFrame) -> list[Column]:
    """Named counts over a judged frame, for `DataFrame.observe`: the pass that writes also counts.

    They are `published`, `quarantined: <reason>` and `duplicate: <reason>`, or without listed reasons (`with_reasons`)
    `quarantined` and `duplicate`. Their sum is the number of rows.
    """
    published = F.count_if(F.col(VERDICT) == Verdict.PUBLISHED.value).alias(Verdict.PUBLISHED.value)
    reasons: Mapping[str, str] = judged.schema[REASON].metadata.get(REASONS, {})
    if not reasons:
        others = (Verdict.QUARANTINED.value, Verdict.DUPLICATE.value)
        return [published, *(F.count_if(F.col(VERDICT) == each).alias(each) for each in others)]
    return [published, *(F.count_if(F.col(REASON) == name).alias(f"{of}: {name}") for name, of in reasons.items())]
