"""Expectations for any feed on its columns: their types, and the values in them.

Here: the schema, identity, NULL, accepted values, references. Not here: times (`time_rules`), and numbers
of rows (`row_rules`).

Every function makes one expectation. With `blocking=False`, a failure is a warning and the update is
published. `name` must be unique among the expectations of an asset.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from decimal import Decimal
from math import inf
from typing import Any, Final

from feed_assets.engine.sql import quoted, stored_type
from feed_assets.file_feed.wording import shortened
from feed_assets.quality.expectation import (
    IDENTITIES,
    ROWS,
    UNKNOWN_VALUES,
    Expectation,
    Judgement,
    Reference,
    Subject,
)
from feed_assets.quality.rule_text import (
    Value,
    check_name,
    double_literal,
    joined,
    literal,
    rows_counted,
    single_literal,
)

LONGEST_EXAMPLE: Final = 100
"""Characters of a value that a sentence gives as an example; records, events and alerts have the sentence."""


def schema_as_declared(*, blocking: bool = True) -> Expectation:
    """The files have the columns and types that the asset declares. VARCHAR and CHAR are STRING in files."""
    return Expectation(
        "schema_as_declared", "The files have the declared columns and types.", _schema_as_declared, blocking=blocking
    )


def unique(*columns: str, blocking: bool = True, name: str = "") -> Expectation:
    """No two rows are alike in these columns. A row with NULL in one of them counts as a repetition.

    Raises ValueError without a column.
    """
    if not columns:
        raise ValueError("unique() has no column: name those that are different in each row.")

    def judge(_: Subject, counted: Mapping[str, Any]) -> Judgement:
        rows = counted[ROWS]
        surplus = rows - counted[IDENTITIES]
        return Judgement(
            surplus == 0,
            {"rows": rows, "rows with an identity seen before": surplus},
            f"{surplus:,} of {rows_counted(rows)} repeat {joined(columns)}, limit 0.",
        )

    return Expectation(
        name or check_name("unique", columns),
        f"No two rows share their identity ({', '.join(columns)}).",
        judge,
        blocking=blocking,
        identity=columns,
    )


def not_null(*columns: str, blocking: bool = True, name: str = "") -> Expectation:
    """These columns are never NULL. Raises ValueError without a column."""
    if not columns:
        raise ValueError("not_null() has no column: name those that always have a value.")

    def judge(_: Subject, counted: Mapping[str, Any]) -> Judgement:
        nulls = {column: counted[f"null_{column}"] for column in columns}
        found = ", ".join(f"{count:,} in {column}" for column, count in nulls.items() if count)
        return Judgement(
            not found,
            {f"NULL in {column}": count for column, count in nulls.items()},
            f"NULL: {found or 'none'}, limit 0.",
        )

    counts = {f"null_{column}": f"count_if({quoted(column)} IS NULL)" for column in columns}
    never = f"{', '.join(columns)} {'is' if len(columns) == 1 else 'are'} never NULL."
    return Expectation(name or check_name("not_null", columns), never, judge, counts, blocking)


def accepted_values(column: str, *values: Value, blocking: bool = True, name: str = "") -> Expectation:
    """The column holds only these values, or NULL. Raises ValueError without a value."""
    if not values:
        raise ValueError(f"accepted_values({column!r}) accepts no value: name at least one.")
    return _no_row_where(
        name or check_name("accepted_values", [column]),
        f"{column} is one of {', '.join(map(str, values))}.",
        _compared(column, lambda as_sql: f"{quoted(column)} NOT IN ({', '.join(map(as_sql, values))})"),
        column,
        f"have another {column} than the {len(values)} accepted",
        blocking=blocking,
    )


def in_range(
    column: str, *, at_least: Value | None = None, at_most: Value | None = None, blocking: bool = True, name: str = ""
) -> Expectation:
    """The column's values lie between two bounds, both included. NULL passes; NaN and a text that is no number do not.

    A text is compared with a number as a DOUBLE. A bound that is a time without a zone is in UTC. Raises
    ValueError without a bound.
    """
    limits = [(sign, bound) for sign, bound in ((">=", at_least), ("<=", at_most)) if bound is not None]
    if not limits:
        raise ValueError(f"in_range({column!r}) has no bound: give at_least, at_most, or both.")
    if at_most is None and isinstance(at_least, int | float | Decimal) and not isinstance(at_least, bool):
        limits.append(("<=", inf))  # for Spark, NaN is greater than any number
    wanted = " and ".join(
        f"{word} {bound}" for word, bound in (("at least", at_least), ("at most", at_most)) if bound is not None
    )
    return _no_row_where(
        name or check_name("in_range", [column]),
        f"{column} is {wanted}.",
        _compared(
            column,
            lambda as_sql: (
                # A comparison with a text that is no number is NULL, and so is one with NULL.
                f"NOT coalesce({' AND '.join(f'{quoted(column)} {sign} {as_sql(bound)}' for sign, bound in limits)}, "
                f"{quoted(column)} IS NULL)"
            ),
            of_text=double_literal,
        ),
        column,
        f"have {column} not {wanted}",
        blocking=blocking,
    )


def references(
    *columns: str,
    feed: str,
    to: tuple[str, ...] | None = None,
    partitioned: bool = True,
    blocking: bool = True,
    name: str = "",
) -> Expectation:
    """Another feed's latest update contains all values of these columns, also NaN. Rows with a NULL among them pass.

    `feed` is the other feed's location below the base, such as `ad-catalog/v1.0`. `to` are its columns, of the same
    types and by default of the same names. The update belongs to the same partition; with `partitioned=False` the
    other feed has no partitions. Raises ValueError without a column, or if `to` has not as many.
    """
    target = to or columns
    if not columns or len(columns) != len(target):
        given = ", ".join(map(repr, columns))
        raise ValueError(f"references({given}): name columns, and as many in `to`, if it is given.")
    where = f"{feed}" if target == columns else f"{feed} ({', '.join(target)})"

    def judge(subject: Subject, counted: Mapping[str, Any]) -> Judgement:
        unknown = counted[UNKNOWN_VALUES]
        if unknown is None:
            partition = f" of {subject.partition}" if partitioned and subject.partition else ""
            missing = f"no valid update{partition}"
            return Judgement(passed=None, observed={feed: missing}, sentence=f"{feed} has {missing} to compare with.")
        rows = rows_counted(counted["rows"])
        sentence = f"{unknown:,} of {rows} have values of {joined(columns)} that {where} lacks, limit 0."
        return Judgement(unknown == 0, {"rows": counted["rows"], "rows without a match": unknown}, sentence)

    return Expectation(
        name or check_name("references", columns),
        f"Every {joined(columns)} is in the latest update of {where}.",
        judge,
        {"rows": "count(1)"},
        blocking,
        reference=Reference(columns, feed, target, partitioned),
    )


def schema_differences(subject: Subject) -> str:
    """How the columns of the files differ from the declared ones, or "". If they do, nothing else can be counted."""
    declared = {column.name: stored_type(column.type) for column in subject.promised}
    found = {column.name: column.type for column in subject.found}
    return "; ".join(
        f"{name}: declared {declared.get(name, 'nothing')}, found {found.get(name, 'nothing')}"
        for name in [*declared, *(found.keys() - declared.keys())]
        if declared.get(name) != found.get(name)
    )


def _schema_as_declared(subject: Subject, _: Mapping[str, Any]) -> Judgement:
    differences = schema_differences(subject)
    sentence = f"{differences}." if differences else f"All {len(subject.promised)} columns are as declared."
    return Judgement(not differences, {"differences": differences or "none", "columns": len(subject.found)}, sentence)


def _compared(
    column: str, condition: Callable[[Callable[[Value], str]], str], *, of_text: Callable[[Value], str] = literal
) -> str:
    """The SQL of a comparison of the column with values, which are FLOAT if the column is.

    `condition` gets a function that writes a value in SQL; for a column of texts, this is `of_text`.
    """
    usual, by_type = condition(literal), {"float": condition(single_literal), "string": condition(of_text)}
    # The column's type is not known before an audit.
    others = [f"WHEN '{type_}' THEN {sql}" for type_, sql in by_type.items() if sql != usual]
    return f"CASE typeof({quoted(column)}) {' '.join(others)} ELSE {usual} END" if others else usual


def _no_row_where(name: str, description: str, wrong: str, column: str, fault: str, *, blocking: bool) -> Expectation:
    """Expect no row for which the SQL in `wrong` is true. `fault` describes such rows in a sentence."""

    def judge(_: Subject, counted: Mapping[str, Any]) -> Judgement:
        observed: dict[str, Any] = {"rows": counted["rows"], "rows not as expected": counted["wrong"]}
        example = ""
        if counted["wrong"]:
            value = counted["example"]
            shown = value and shortened(value, LONGEST_EXAMPLE)
            observed["for example"] = shown
            example = f" (for example {shown})"
        sentence = f"{counted['wrong']:,} of {rows_counted(counted['rows'])} {fault}{example}, limit 0."
        return Judgement(counted["wrong"] == 0, observed, sentence)

    example = f"left(min(IF({wrong}, string({quoted(column)}), NULL)), {LONGEST_EXAMPLE + 1})"
    counts = {"rows": "count(1)", "wrong": f"count_if({wrong})", "example": example}
    return Expectation(name, description, judge, counts, blocking)
