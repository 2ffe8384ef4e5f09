"""The texts of rules: names of checks, Spark's SQL, and sentences.

Here: text. Not here: any rule.
"""

from __future__ import annotations

import re
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal

from feed_assets.engine.sql import text_literal
from feed_assets.file_feed.wording import counted

Value = str | int | float | Decimal | date | datetime


def check_name(rule: str, columns: tuple[str, ...] | list[str]) -> str:
    """A name that Dagster accepts for a check."""
    return re.sub(r"\W+", "_", "_".join([rule, *columns]), flags=re.ASCII)


def literal(value: Value) -> str:
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
            return text_literal(value)
        case float():
            return f"double('{value!r}')"
    return str(value)


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
