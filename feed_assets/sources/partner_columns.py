"""The partner's columns that a Spark SQL expression names, as Spark's own parser reads it.

Here: parsing only. If a column does not exist, Spark's analysis may resolve its name to something else: `user` is the
operating system's user, `current_date` is today, `ad_id` may be another expression's alias. So every name in an
expression must be a column of the partner. Not here: whether Spark takes an expression (see `expressions`).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from pyspark.sql import SparkSession

from feed_assets.engine.jvm import java_machine, java_session

if TYPE_CHECKING:
    from py4j.java_gateway import JavaObject

_CATALYST: Final = "org.apache.spark.sql.catalyst"
_UNNAMED: Final = {
    f"{_CATALYST}.analysis.Star": "`*` is not taken; name the columns",
    f"{_CATALYST}.expressions.SubqueryExpression": "a subquery is not taken; use only the record's own columns",
    f"{_CATALYST}.analysis.ExpressionWithUnresolvedIdentifier": "IDENTIFIER(...) is not taken; write the name itself",
    f"{_CATALYST}.analysis.Parameter": "a parameter is not taken; write its value",
}
"""Expressions that use columns without naming them, or values from outside the record: Scala class -> what to do."""

_parsed: dict[str, tuple[tuple[str, ...], ...]] = {}


class UnnamedColumnsError(ValueError):
    """The expression uses a value that is not a named column of the record; the message names it."""


def columns_named(spark: SparkSession, expression: str) -> tuple[str, ...]:
    """The columns that the expression names, as it spells them, each once whatever its case. `ad.id` names `ad`.

    Raises Spark's ParseException if the text is not an expression, and UnnamedColumnsError.
    """
    return distinct(parts[0] for parts in fields_named(spark, expression))


def fields_named(spark: SparkSession, expression: str) -> tuple[tuple[str, ...], ...]:
    """The columns and fields that the expression names, each in its parts: `ad.id` is `("ad", "id")`.

    Raises as `columns_named` does.
    """
    if expression not in _parsed:
        parser = java_session(spark).sessionState().sqlParser()
        _parsed[expression] = tuple(dict.fromkeys(_names(spark, parser.parseExpression(expression), frozenset())))
    return _parsed[expression]


def distinct(names: Iterator[str]) -> tuple[str, ...]:
    """The names without those that differ from an earlier one in case only."""
    found: dict[str, str] = {}
    for name in names:
        found.setdefault(name.lower(), name)
    return tuple(found.values())


def _names(spark: SparkSession, node: JavaObject, bound: frozenset[str]) -> Iterator[tuple[str, ...]]:
    """The names in a tree of expressions, without the variables of lambda functions."""
    kind = node.getClass().getSimpleName()
    if kind in {"UnresolvedAttribute", "UnresolvedNamedLambdaVariable"}:
        # The parser takes every name in the body of a lambda function for a variable of the function.
        parts = tuple(map(str, _each(node.nameParts())))
        if kind == "UnresolvedAttribute" or parts[0].lower() not in bound:
            yield parts
        return
    for unnamed, message in _UNNAMED.items():
        if _class(spark, unnamed).isInstance(node):
            raise UnnamedColumnsError(message)
    if kind == "LambdaFunction":
        variables = _each(node.arguments())
        bound |= {str(variable.nameParts().apply(0)).lower() for variable in variables}
    children = _each(node.children())
    # The parser reads a few names as values, such as current_path. Scala's objects, `Name$`, are not values.
    is_value = node.getClass().getName().startswith(f"{_CATALYST}.expressions.") and not kind.endswith("$")
    if not children and is_value and kind not in {"Literal", "UnresolvedCollation"}:
        raise UnnamedColumnsError(f"Spark reads {node.sql()} here, not a column; put the column's name into backticks")
    for child in children:
        yield from _names(spark, child, bound)


def _class(spark: SparkSession, name: str) -> JavaObject:
    return java_machine(spark).java.lang.Class.forName(name)


def _each(sequence: JavaObject) -> list[JavaObject]:
    return [sequence.apply(position) for position in range(sequence.size())]
