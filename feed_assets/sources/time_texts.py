"""Where a Spark SQL expression makes a time of a text, as Spark's analysis reads it, implicit casts included.

Here: analysis only; no record is read. Not here: what follows for a source (`expressions`, `dropped_zones`).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from pyspark.errors import AnalysisException
from pyspark.sql import Column, DataFrame, functions

from feed_assets.engine.jvm import analyzed_expressions

if TYPE_CHECKING:
    from py4j.java_gateway import JavaObject

_WALL, _TEXTS = "TimestampNTZType", ("StringType", "VariantType")
_TIMES: Final = {"TimestampType", _WALL, "DateType"}
_PARSERS: Final = {"ParseToTimestamp", "ParseToDate"}
_QUOTED: Final = re.compile(r"'[^']*'")
_ZONE: Final = re.compile(r"[VzOXxZ]")

_known: dict[tuple[str, str], tuple[str, ...]] = {}


def texts_read_as_times(frame: DataFrame, expression: str) -> tuple[str, ...]:
    """The expressions of texts that Spark reads as a time or a date by its own formats, in this expression."""
    key = (expression, frame.schema.json())
    if key not in _known:
        found = (
            str(node.children().apply(0).sql()) for node in _nodes(frame, functions.expr(expression)) if _reads(node)
        )
        _known[key] = tuple(text for text in dict.fromkeys(found) if _is_text(frame, text))
    return _known[key]


def zone_droppers(frame: DataFrame, value: Column) -> Iterator[str]:
    """The parts of a value that make a time without a zone of a text in which a zone may be: Spark leaves it out."""
    return (str(node.sql()) for node in _nodes(frame, value) if _drops(node))


def _nodes(frame: DataFrame, value: Column) -> Iterator[JavaObject]:
    expressions = analyzed_expressions(frame.select(value.alias("value")))
    for number in range(expressions.size()):
        yield from _below(expressions.apply(number))


def _below(node: JavaObject) -> Iterator[JavaObject]:
    yield node
    children = node.children()
    for number in range(children.size()):
        yield from _below(children.apply(number))


def _kind(node: JavaObject) -> str:
    return str(node.getClass().getSimpleName())


def _types(node: JavaObject) -> list[str]:
    children = node.children()
    return [str(children.apply(number).dataType().toString()) for number in range(children.size())]


def _reads(node: JavaObject) -> bool:
    kind = _kind(node)
    if (
        kind not in {"Cast", *_PARSERS}
        or node.dataType().toString() not in _TIMES
        or not _types(node)[0].startswith("String")
    ):
        return False
    return kind == "Cast" or not node.format().isDefined()


def _is_text(frame: DataFrame, text: str) -> bool:
    """Whether Spark takes its own words for a part of an expression; not for the variable of a lambda function."""
    try:
        frame.select(functions.expr(text))
    except AnalysisException:
        return False
    return True


def _drops(node: JavaObject) -> bool:
    if _WALL not in node.dataType().toString():
        return False
    made_of, kind = _types(node), _kind(node)
    if any(_WALL in each for each in made_of):
        return False
    of_text = made_of[:1] if kind in _PARSERS else made_of
    return any(text in each for each in of_text for text in _TEXTS) and not _refuses_zones(node, kind)


def _refuses_zones(node: JavaObject, kind: str) -> bool:
    """Whether a text with a zone does not fit a node's format: then it is NULL."""
    if kind not in _PARSERS or not node.format().isDefined() or not node.format().get().foldable():
        return False
    return _ZONE.search(_QUOTED.sub("", str(node.format().get().eval(None)))) is None
