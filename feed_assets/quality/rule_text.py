"""The texts of rules: names of checks, Spark's SQL, and sentences.

Here: text. Not here: any rule.
"""

from __future__ import annotations

import re
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Final

from feed_assets.engine.sql import text_literal
from feed_assets.file_feed.wording import counted

FLOAT_LIMIT: Final = 3e38
"""From somewhat more on, a FLOAT is infinite."""

Value = str | int | float | Decimal | date | datetime


def check_name(rule: str, columns: tuple[str, ...] | list[str]) -> str:
    """A name that Dagster accepts for a check."""
    return re.sub(r"\W+", "_", "_".join([rule, *columns]), flags=re.ASCII)


def literal(value: Value) -> str:
    """The value in Spark's SQL. A time without a zone is in UTC."""
    match value:
        case bool():
            return str(value).lower()
        case datetime():
            moment = value.astimezone(UTC) if value.tzinfo else value.replace(tzinfo=UTC)
            return f"TIMESTAMP '{moment.isoformat(' ', 'microseconds')}'"
        case date():
            return f"DATE '{value}'"
        case str():
            return text_literal(value)
        case float():
            return f"double('{value!r}')"
    return str(value)


def single_literal(value: Value) -> str:
    """The value in Spark's SQL, to be compared with a FLOAT: 0.1 as a FLOAT is greater than 0.1 as a DOUBLE."""
    if isinstance(value, float | Decimal) and -FLOAT_LIMIT < value < FLOAT_LIMIT:
        return f"float('{value}')"
    return literal(value)


def double_literal(value: Value) -> str:
    """The value in Spark's SQL, to be compared with a text: Spark would make 10 of 10.5 to compare it with an INT."""
    return f"double('{value}')" if type(value) is int else literal(value)


def rows_counted(count: int) -> str:
    """The number with its noun, such as `1,000 rows`."""
    return counted(count, "row")


def in_percent(share: float) -> str:
    """A share of 1 in percent."""
    return f"{100 * share:.3g} %"


def joined(columns: tuple[str, ...]) -> str:
    """The columns in a sentence."""
    return " and ".join(columns)


def span_of_time(span: timedelta) -> str:
    """A length of time in its largest unit, such as `36 h`."""
    seconds = span.total_seconds()
    for unit, length in (("days", 86400), ("h", 3600), ("min", 60)):
        if abs(seconds) >= 2 * length:
            return f"{seconds / length:.3g} {unit}"
    return f"{seconds:.3g} s"
