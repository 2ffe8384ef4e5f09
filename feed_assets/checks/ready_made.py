"""Expectations for any feed: each function makes one, to be put together for an asset in a line.

Here: rules that know no particular feed. Not here: the ads' own (`ads`), and running them (`audit`). Every function
takes `blocking`: without it a failure warns, and publishes; and `name`, which has to be unique among the expectations
of an asset.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from statistics import median
from typing import Any

from feed_assets.checks.expectation import (
    UNKNOWN_VALUES,
    WITHOUT_RECORD,
    Expectation,
    Judgement,
    Reference,
    Subject,
)

Value = str | int | float | Decimal | date | datetime


def schema_as_declared(*, blocking: bool = True) -> Expectation:
    """The files have the columns and types that the asset declares."""
    return Expectation(
        "schema_as_declared", "The files have the declared columns and types.", _schema_as_declared, blocking=blocking
    )


def not_empty(*, unless_sent_so: bool = False, blocking: bool = True, name: str = "not_empty") -> Expectation:
    """There is at least one row.

    With `unless_sent_so`, no row is as good where the inputs were there: raw files that came, updates upstream, or a
    source whose partner sent that there is nothing.
    """

    def judge(subject: Subject, counted: Mapping[str, Any]) -> Judgement:
        rows = counted["rows"]
        observed = {"rows": rows}
        if rows:
            return Judgement(passed=True, observed=observed, sentence=f"{_rows(rows)}, at least 1 expected.")
        if not unless_sent_so:
            return Judgement(passed=False, observed=observed, sentence="No rows, at least 1 expected.")
        if subject.inputs_seen is None:
            return Judgement(passed=None, observed=observed, sentence="No rows, and no record says what was read.")
        if subject.inputs_seen:
            return Judgement(passed=True, observed=observed, sentence="No rows. The inputs were there.")
        return Judgement(passed=False, observed=observed, sentence="No rows, and nothing at all was read.")

    unless = ", unless the inputs were there and nothing of them was left" if unless_sent_so else ""
    return Expectation(name, f"There is at least one row{unless}.", judge, {"rows": "count(1)"}, blocking)


def unique(*columns: str, blocking: bool = True, name: str = "") -> Expectation:
    """No two rows are alike in these columns. Rows with NULL in one of them count as alike."""

    def judge(_: Subject, counted: Mapping[str, Any]) -> Judgement:
        surplus = counted["rows"] - counted["identities"]
        return Judgement(
            surplus == 0,
            {"rows": counted["rows"], "rows with an identity seen before": surplus},
            f"{surplus:,} of {_rows(counted['rows'])} repeat {_and(columns)}, limit 0.",
        )

    unnamed = " OR ".join(f"{_quoted(column)} IS NULL" for column in columns)
    identity = ", ".join(map(_quoted, columns))
    return Expectation(
        name or _name("unique", columns),
        f"No two rows share their identity ({', '.join(columns)}).",
        judge,
        # Of a struct, as Spark tells many values of it apart faster than those of several columns.
        {"rows": "count(1)", "identities": f"count(DISTINCT IF({unnamed}, NULL, struct({identity})))"},
        blocking,
        apart=True,
    )


def not_null(*columns: str, blocking: bool = True, name: str = "") -> Expectation:
    """These columns are never NULL."""

    def judge(_: Subject, counted: Mapping[str, Any]) -> Judgement:
        nulls = {column: counted[f"null_{column}"] for column in columns}
        found = ", ".join(f"{count:,} in {column}" for column, count in nulls.items() if count)
        return Judgement(
            not found,
            {f"NULL in {column}": count for column, count in nulls.items()},
            f"NULL: {found or 'none'}, limit 0.",
        )

    counts = {f"null_{column}": f"count_if({_quoted(column)} IS NULL)" for column in columns}
    never = f"{', '.join(columns)} {'is' if len(columns) == 1 else 'are'} never NULL."
    return Expectation(name or _name("not_null", columns), never, judge, counts, blocking)


def accepted_values(column: str, *values: Value, blocking: bool = True, name: str = "") -> Expectation:
    """The column has no other values than these; NULL is not judged."""
    accepted = ", ".join(map(_literal, values))
    return _few(
        name or _name("accepted_values", [column]),
        f"{column} is one of {', '.join(map(str, values))}.",
        f"{_quoted(column)} NOT IN ({accepted})",
        column,
        f"have another {column} than the {len(values)} accepted",
        blocking=blocking,
    )


def in_range(
    column: str,
    *,
    at_least: Value | None = None,
    at_most: Value | None = None,
    blocking: bool = True,
    name: str = "",
) -> Expectation:
    """The column lies between two bounds, both included; NULL is not judged. Raises ValueError without a bound."""
    limits = [(">=", at_least), ("<=", at_most)]
    inside = " AND ".join(f"{_quoted(column)} {sign} {_literal(bound)}" for sign, bound in limits if bound is not None)
    if not inside:
        message = f"in_range({column!r}) has no bound: give at_least, at_most, or both."
        raise ValueError(message)
    said = " and ".join(
        f"{word} {bound}" for word, bound in (("at least", at_least), ("at most", at_most)) if bound is not None
    )
    return _few(
        name or _name("in_range", [column]),
        f"{column} is {said}.",
        f"NOT ({inside})",
        column,
        f"have {column} not {said}",
        blocking=blocking,
    )


def fresh(column: str, *, within: timedelta, blocking: bool = True, name: str = "") -> Expectation:
    """The newest time in the column is at most `within` before the partition's end, or now if that is earlier.

    `column` is a TIMESTAMP. Without rows there is no newest time, and the expectation fails.
    """

    def judge(subject: Subject, counted: Mapping[str, Any]) -> Judgement:
        due = min(subject.now, subject.window[1]) if subject.window else subject.now
        if counted["newest"] is None:
            return Judgement(passed=False, observed={"newest": "none"}, sentence=f"There is no {column} at all.")
        newest = datetime.fromtimestamp(counted["newest"] / 1e6, UTC)
        age = due - newest
        sentence = f"The newest {column} is {newest:%Y-%m-%d %H:%M:%S}, {_span(age)} before {due:%Y-%m-%d %H:%M:%S}"
        observed = {"newest": str(newest), "due": str(due), "limit": str(within)}
        return Judgement(age <= within, observed, f"{sentence}, limit {_span(within)}.")

    return Expectation(
        name or _name("fresh", [column]),
        f"The newest {column} is at most {_span(within)} before the end of the partition, or before now.",
        judge,
        {"newest": f"unix_micros(max({_quoted(column)}))"},
        blocking,
    )


def times_inside(column: str, *, blocking: bool = True, name: str = "") -> Expectation:
    """Every time in the column lies inside the partition's own time, in UTC; a partition without a time has none.

    `column` is a TIMESTAMP; NULL is not judged.
    """

    def judge(subject: Subject, counted: Mapping[str, Any]) -> Judgement:
        moments = [counted["first_micros"], counted["last_micros"]]
        observed = {"first": counted["first"] or "none", "last": counted["last"] or "none"}
        if subject.window is None or None in moments:
            sentence = "There are no times to judge." if subject.window else "The partition stands for no time."
            return Judgement(passed=True, observed=observed, sentence=sentence)
        start, end = (round(moment.timestamp() * 1_000_000) for moment in subject.window)
        found = f"{column} goes from {observed['first']} to {observed['last']}"
        limit = " to ".join(f"{moment.astimezone(UTC):%Y-%m-%d %H:%M:%S}" for moment in subject.window)
        return Judgement(start <= moments[0] and moments[1] < end, observed, f"{found}, the partition from {limit}.")

    quoted = _quoted(column)
    return Expectation(
        name or _name("times_inside", [column]),
        f"Every {column} lies inside the time of its partition, in UTC.",
        judge,
        {
            "first": f"string(min({quoted}))",
            "last": f"string(max({quoted}))",
            "first_micros": f"unix_micros(min({quoted}))",
            "last_micros": f"unix_micros(max({quoted}))",
        },
        blocking,
    )


def row_count_near_median(
    *, factor: float | None = None, blocking: bool = False, name: str = "row_count_near_median"
) -> Expectation:
    """The row count is at most `factor` times, and at least one `factor`-th of, the median of the partitions before.

    Where partitions have no time, it is the median of the partition's updates before. Without `factor` the limit is
    that of `Limits`, whose `recent_days` also says how many make the median. Nothing before is as expected.
    """

    def judge(subject: Subject, counted: Mapping[str, Any]) -> Judgement:
        rows = counted["rows"]
        if not subject.recent_rows:
            observed: dict[str, Any] = {"rows": rows, "median of recent days": "none yet"}
            return Judgement(passed=True, observed=observed, sentence=f"{_rows(rows)}, and nothing before to compare.")
        usual, limit = median(subject.recent_rows), subject.usual_rows_factor if factor is None else factor
        observed = {
            "rows": rows,
            "median of recent days": usual,
            "days": len(subject.recent_rows),
            "factor": limit,
        }
        sentence = (
            f"{_rows(rows)}, the median of the {len(subject.recent_rows)} before is {usual:,g}, "
            f"limit a factor of {limit:g}."
        )
        return Judgement(usual <= limit * rows and rows <= limit * usual, observed, sentence)

    limit = (
        "the factor of `limits.usual_rows_factor` (2 unless configured)" if factor is None else f"a factor {factor:g}"
    )
    only = "" if blocking else " A warning only: real days differ."
    return Expectation(
        name, f"The row count is within {limit} of the median before.{only}", judge, {"rows": "count(1)"}, blocking
    )


def references(
    *columns: str,
    feed: str,
    to: tuple[str, ...] | None = None,
    partitioned: bool = True,
    blocking: bool = True,
    name: str = "",
) -> Expectation:
    """The values of these columns are all in another feed's latest update; rows with NULL in one are not judged.

    `feed` is its location below the base, such as `ad-catalog/v1.0`; `to` its columns of the same types, by default of
    the same names. The update is that of the same partition, or with `partitioned=False` that of a feed without
    partitions.
    """
    target = to or columns
    where = f"{feed}" if target == columns else f"{feed} ({', '.join(target)})"

    def judge(_: Subject, counted: Mapping[str, Any]) -> Judgement:
        unknown = counted[UNKNOWN_VALUES]
        if unknown is None:
            observed = {feed: "no valid update"}
            return Judgement(passed=None, observed=observed, sentence=f"{feed} has no valid update to compare with.")
        said = f"{unknown:,} of {_rows(counted['rows'])} have values of {_and(columns)} that {where} lacks, limit 0."
        return Judgement(unknown == 0, {"rows": counted["rows"], "rows without a match": unknown}, said)

    return Expectation(
        name or _name("references", columns),
        f"Every {_and(columns)} is in the latest update of {where}.",
        judge,
        {"rows": "count(1)"},
        blocking,
        reference=Reference(columns, feed, target, partitioned),
    )


def rows_accounted(*, blocking: bool = True) -> Expectation:
    """Records read = rows published + quarantined + duplicates, and the files hold the published rows."""
    return Expectation(
        "rows_accounted",
        "Records read = rows published + quarantined + duplicates, and the files hold the published ones.",
        _rows_accounted,
        {"rows": "count(1)"},
        blocking,
    )


def quarantined_share(*, limit: float | None = None, blocking: bool = True) -> Expectation:
    """At most this share (0 to 1) of the records read is quarantined; without `limit`, that of `Limits`."""

    def judge(subject: Subject, _: Mapping[str, Any]) -> Judgement:
        rows = subject.rows
        if rows is None:
            return WITHOUT_RECORD
        at_most = subject.quarantined_share_limit if limit is None else limit
        share = rows.quarantined / rows.read if rows.read else 0.0
        observed = {
            "quarantined": rows.quarantined,
            "read": rows.read,
            "share": round(share, 4),
            "limit": at_most,
        }
        sentence = (
            f"{rows.quarantined:,} of {rows.read:,} records quarantined ({_percent(share)}), limit {_percent(at_most)}."
        )
        return Judgement(rows.quarantined <= at_most * rows.read, observed, sentence)

    said = "`limits.quarantined_share` (5 % unless configured)" if limit is None else _percent(limit)
    return Expectation(
        "quarantined_share", f"At most {said} of the records read had to be quarantined.", judge, blocking=blocking
    )


def has_declared_schema(subject: Subject) -> bool:
    """Whether the files have the declared columns and types, so that anything else can be counted."""
    return bool(_schema_as_declared(subject, {}).passed)


def _schema_as_declared(subject: Subject, _: Mapping[str, Any]) -> Judgement:
    declared = {column.name: column.type for column in subject.promised}
    found = {column.name: column.type for column in subject.found}
    differences = "; ".join(
        f"{name}: declared {declared.get(name, 'nothing')}, found {found.get(name, 'nothing')}"
        for name in [*declared, *(found.keys() - declared.keys())]
        if declared.get(name) != found.get(name)
    )
    sentence = f"{differences}." if differences else f"All {len(declared)} columns are as declared."
    return Judgement(not differences, {"differences": differences or "none", "columns": len(found)}, sentence)


def _rows_accounted(subject: Subject, counted: Mapping[str, Any]) -> Judgement:
    rows = subject.rows
    if rows is None:
        return WITHOUT_RECORD
    accounted = rows.published + rows.quarantined + rows.duplicates
    observed = {
        "read": rows.read,
        "published": rows.published,
        "quarantined": rows.quarantined,
        "duplicates": rows.duplicates,
        "rows in the files": counted["rows"],
    }
    sentence = (
        f"{rows.read:,} records read; {rows.published:,} published + {rows.quarantined:,} quarantined + "
        f"{rows.duplicates:,} duplicates make {accounted:,}; the files hold {_rows(counted['rows'])}."
    )
    return Judgement(rows.read == accounted and rows.published == counted["rows"], observed, sentence)


def _few(name: str, description: str, wrong: str, column: str, fault: str, *, blocking: bool) -> Expectation:
    """No row for which the SQL in `wrong` is true; `fault` says what such rows have."""

    def judge(_: Subject, counted: Mapping[str, Any]) -> Judgement:
        observed: dict[str, Any] = {"rows": counted["rows"], "rows not as expected": counted["wrong"]}
        example = ""
        if counted["wrong"]:
            observed["for example"] = counted["example"]
            example = f" (for example {counted['example']})"
        sentence = f"{counted['wrong']:,} of {_rows(counted['rows'])} {fault}{example}, limit 0."
        return Judgement(counted["wrong"] == 0, observed, sentence)

    example = f"min(IF({wrong}, string({_quoted(column)}), NULL))"
    counts = {"rows": "count(1)", "wrong": f"count_if({wrong})", "example": example}
    return Expectation(name, description, judge, counts, blocking)


def _name(rule: str, columns: tuple[str, ...] | list[str]) -> str:
    """A name that Dagster takes for a check."""
    return re.sub(r"\W+", "_", "_".join([rule, *columns]), flags=re.ASCII)


def _quoted(column: str) -> str:
    return f"`{column.replace('`', '``')}`"


def _literal(value: Value) -> str:
    """The value in Spark's SQL."""
    match value:
        case bool():
            return str(value).lower()
        case datetime():
            moment = value.astimezone(UTC)
            return f"TIMESTAMP '{moment:%Y-%m-%d %H:%M:%S.%f}+00:00'"
        case date():
            return f"DATE '{value}'"
        case str():
            escaped = value.replace("\\", "\\\\").replace("'", "\\'")
            return f"'{escaped}'"
        case float():
            return f"double('{value!r}')"
    return str(value)


def _rows(count: int) -> str:
    return f"{count:,} row{'' if count == 1 else 's'}"


def _percent(share: float) -> str:
    return f"{100 * share:.3g} %"


def _and(columns: tuple[str, ...]) -> str:
    return " and ".join(columns)


def _span(span: timedelta) -> str:
    """A length of time in its largest unit, such as `36 h`."""
    seconds = span.total_seconds()
    for unit, length in (("days", 86400), ("h", 3600), ("min", 60)):
        if abs(seconds) >= 2 * length:
            return f"{seconds / length:.3g} {unit}"
    return f"{seconds:.3g} s"
