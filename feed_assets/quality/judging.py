"""Judging the records of a day: which are published, which are quarantined, which are duplicates.

Here: the rules for records of every kind, their order, and adding a project's rules. Not here: the rules of any one
kind, reading a partner's format (`sources.canonical`), and the views of a judged frame (`engine.judged_rows`).

The result has every record exactly once, with a `_verdict` and, unless it is published, a `_reason`. The first rule
that applies decides:

1. quarantined: malformed line; event_time unparsable, missing, outside the day; a column whose expression raised an
   error, which is unparsable, too; then the rules of the kind; no id.
2. duplicate, redelivered: an id of a source that occurs again. The record with the earliest event_time is kept; of
   several, the first by file and line.
3. duplicate, for reasons of the kind.

A blank optional text (empty or white space only) is published as NULL.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import date
from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - as everyone writes Spark
from pyspark.sql.types import StringType, StructField, StructType

from feed_assets.datasets.days import ONE_DAY
from feed_assets.engine.judged_rows import BOOKKEEPING, RAISED, VERDICT, Verdict, with_reasons
from feed_assets.engine.moments import within_days
from feed_assets.engine.sql import quoted

TODAY: Final = "today"
EARLIER: Final = "earlier"

Rule = tuple[str, Column]
"""A reason to set a record aside, and the condition under which it applies."""

REDELIVERED: Final = "redelivered"
_UNPARSABLE: Final = "unparsable "
OF_EVERY_KIND: Final = ("malformed line", "unparsable event_time", "missing event_time", "event_time outside the day")
"""Reasons why a record of any kind is quarantined, in the order of the rules."""


def missing(column: str) -> Rule:
    """The rule for a blank text: NULL, empty, or white space only. A field of a struct is `column.field`."""
    name = column if "`" in column else ".".join(map(quoted, column.split(".")))
    return f"missing {column}", F.expr(_blank(name))


def unparsable(column: str) -> Rule:
    """The rule for a value that was sent, but cannot be read as the column's type."""
    return f"{_UNPARSABLE}{column}", F.array_contains("_unparsable", column)


def _blank(text: str) -> str:
    """The condition that a text is NULL, empty, or white space only."""
    # Nearly every text begins with a visible character ("!" is the first). Only the rest needs the slow pattern.
    return f"({text} IS NULL OR ({text} < '!' AND NOT {text} RLIKE r'\\S'))"


def judge(
    records: DataFrame, schema: StructType, rules: Sequence[Rule], *, day: date, earlier: DataFrame | None = None
) -> DataFrame:
    """The records of a UTC day, each once: the columns of `schema`, `_file`, `_line`, `_verdict`, `_reason`.

    `records` are rows as an asset of `cleaned` gets them, of one or several sources. The first column of `schema`
    identifies a record within its source; without it a record is quarantined. `rules` say why else a record of this
    kind is quarantined. `earlier` are records of the day before: a record that is among them is redelivered, so that no
    record is published on two days. The result does not have the earlier records.
    """
    return verdicts(deliveries(records, schema, rules, day=day, earlier=earlier), schema, rules)


def deliveries(
    records: DataFrame, schema: StructType, rules: Sequence[Rule], *, day: date, earlier: DataFrame | None = None
) -> DataFrame:
    """One frame of the records of a day, checked as for `judge`, and the usable records of `earlier`.

    Records that `check` returned are taken as they are. `_delivery` is 1 for the first record of an id, then 2, 3, ...
    """
    identity = quoted(schema.names[0])
    records = _checked(records, schema, rules, day).withColumn("_from", F.lit(TODAY))
    if earlier is not None:
        usable_before = _checked(earlier, schema, rules, day - ONE_DAY).filter("_refused IS NULL")
        records = records.unionByName(usable_before.withColumn("_from", F.lit(EARLIER)))
    # Refused records may lack an id: one task would get all of them, so they are spread by line.
    # The hash comes first because a sort compares first bytes, and a partner's ids often begin alike.
    spread = f"IF(_refused IS NULL, xxhash64(source, {identity}), xxhash64(_file, _line))"
    # The content comes after file and line, so that files without them also give one answer.
    content = (field.name for field in schema if not re.search("map<|variant", field.dataType.simpleString()))
    order = ", ".join(["event_time", "_file", "_line", *map(quoted, content)])
    same = f"PARTITION BY {spread}, _refused, source, {identity} ORDER BY {order}"
    return records.selectExpr("*", f"row_number() OVER ({same}) AS _delivery")


def verdicts(
    delivered: DataFrame, schema: StructType, rules: Sequence[Rule], duplicates: Sequence[Rule] = ()
) -> DataFrame:
    """The day's records of `deliveries`, with `_verdict` and `_reason`; `duplicates` are rules besides redelivery."""
    duplicates = [(REDELIVERED, F.expr("_delivery > 1")), *duplicates]
    refused, repeats = F.col("_refused"), _first_that_applies(duplicates)
    verdict = (
        F.when(refused.isNotNull(), Verdict.QUARANTINED.value)
        .when(repeats.isNotNull(), Verdict.DUPLICATE.value)
        .otherwise(Verdict.PUBLISHED.value)
    )
    rules = _with_identified(schema, rules)
    raised = (f"{_UNPARSABLE}{name}" for name in schema.names)
    refusals = [*OF_EVERY_KIND, *raised, *(reason for reason, _ in rules)]
    reasons = dict.fromkeys(refusals, Verdict.QUARANTINED)
    reasons |= dict.fromkeys([reason for reason, _ in duplicates], Verdict.DUPLICATE)
    return delivered.filter(f"_from = '{TODAY}'").select(
        *(F.col(quoted(field.name)).alias(field.name, metadata=field.metadata) for field in with_source(schema)),
        *BOOKKEEPING,
        verdict.alias(VERDICT),
        with_reasons(F.coalesce(refused, repeats), reasons),
    )


def _refusal(schema: StructType, rules: Sequence[Rule], day: date) -> Column:
    """Why a record is quarantined; NULL for the others."""
    of_every_kind = _first_that_applies(_rules_of_every_kind(day))
    first = F.col("_unparsable")[0]
    raised = F.when(first.startswith(RAISED), F.concat(F.lit(_UNPARSABLE), F.ltrim(first, F.lit(RAISED))))
    return F.coalesce(of_every_kind, raised, _first_that_applies(_with_identified(schema, rules)))


def _rules_of_every_kind(day: date) -> list[Rule]:
    applies = (
        "_malformed IS NOT NULL",
        "array_contains(_unparsable, 'event_time')",
        "event_time IS NULL",
        f"NOT {within_days('event_time', day)}",
    )
    return list(zip(OF_EVERY_KIND, map(F.expr, applies), strict=True))


def _with_identified(schema: StructType, rules: Sequence[Rule]) -> list[Rule]:
    """The rules, and one for records without an id: compared with others, all but one would be redeliveries."""
    reason, name = f"missing {schema[0].name}", quoted(schema[0].name)
    if reason in (each for each, _ in rules):
        return list(rules)
    text = isinstance(schema[0].dataType, StringType)
    return [*rules, (reason, F.expr(_blank(name) if text else f"{name} IS NULL"))]


def _null_if_blank(field: StructField) -> str:
    """A column as it is published: a blank optional text is NULL, as if it was not sent."""
    column = quoted(field.name)
    if field.nullable and isinstance(field.dataType, StringType):
        return f"IF({_blank(column)}, NULL, {column}) AS {column}"
    return column


def _first_that_applies(rules: Sequence[Rule]) -> Column:
    return F.coalesce(*[F.when(applies, reason) for reason, applies in rules])


def check(records: DataFrame, schema: StructType, rules: Sequence[Rule], *, day: date) -> DataFrame:
    """The records of a day in the columns of `schema`, with `_file` and `_line`.

    `_refused` is the reason why a record is quarantined, NULL for others; `_record` is such a record as it was sent.
    Each record is checked by itself, so a day can be checked some records at a time, and compared later.
    """
    # A plain column: Spark makes the JSON of `_raw` after a filter on it, for few records. It does not move the filter
    # below the partner's expressions, which it would evaluate twice (spark.sql.optimizer.avoidDoubleFilterEval).
    refused = records.withColumn("_refused", _refusal(schema, rules, day))
    record = "IF(_refused IS NOT NULL, coalesce(_malformed, _raw), NULL) AS _record"
    return refused.selectExpr(*map(_null_if_blank, with_source(schema)), "_file", "_line", "_refused", record)


def with_source(schema: StructType) -> StructType:
    """The schema with the column `source`: ids are unique within a source only, and quarantine names the source."""
    if "source" in (name.lower() for name in schema.names):
        return schema
    return StructType([*schema, StructField("source", StringType(), nullable=False)])


def _checked(records: DataFrame, schema: StructType, rules: Sequence[Rule], day: date) -> DataFrame:
    return records if "_refused" in records.columns else check(records, schema, rules, day=day)
