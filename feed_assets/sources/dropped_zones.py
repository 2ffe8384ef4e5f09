"""Expressions that make a time without a zone (TIMESTAMP_NTZ) of a text: Spark drops a `Z` or an offset in it.

Here: finding such expressions without data, and texts with a zone. Not here: whether Spark takes an expression
(`expressions`).
"""

from __future__ import annotations

import re
from typing import Final

from pyspark.sql import SparkSession, functions

from feed_assets.sources.expressions import empty_records
from feed_assets.sources.kinds import EVENT_TIME
from feed_assets.sources.positions import Location
from feed_assets.sources.raising import located_expressions
from feed_assets.sources.spec import Source
from feed_assets.sources.time_texts import zone_droppers

_ZONE: Final = r"(Z|(UTC|GMT|UT)?[+-]\d\d?(:?\d\d){0,2}|UTC|GMT|UT|[A-Z]\w+/[\w/+-]+)"
ZONED: Final = rf"(:\d\d?([.,]\d*)?|\d{{6}}(\.\d*)?)\s*{_ZONE}\s*$"
"""A text with a time and a zone, such as 2019-11-24T10:15:00Z or 20191124101500 +0200; for Java and Python."""
_LITERAL: Final = re.compile(r"""\btimestamp_ntz\s*(['"])(.*?)\1""", re.IGNORECASE)


def zones_dropped(spark: SparkSession, source: Source) -> dict[Location, str]:
    """The expressions that drop zones of texts, each with the part that does; for a source that passed the check."""
    frame = empty_records(spark, source)
    types = source.declared_kind.columns
    found: dict[Location, str] = {}
    for location, expression in located_expressions(source).items():
        if literal := next((each for each in _LITERAL.finditer(expression) if re.search(ZONED, each[2])), None):
            found[location] = literal[0]
            continue
        value = functions.expr(expression)
        if location != ("filter",):
            # A text in a column for times without a zone is converted, too.
            value = value if location[-1] == EVENT_TIME else value.try_cast(types[str(location[-1])])
        if part := next(zone_droppers(frame, value), None):
            found[location] = part
    return found


def zone_warning(part: str, source: Source) -> str:
    """What a user should know of an expression with this part."""
    return (
        f"{part} drops a `Z` or an offset such as +02:00, so a time with one is taken for wall time in "
        f"{source.time_zone}. If the partner sends zones, use to_timestamp(...) and time_zone: UTC"
    )
