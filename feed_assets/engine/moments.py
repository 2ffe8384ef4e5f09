"""UTC days and durations in Spark's SQL, so that no time zone setting can shift them; times in Spark's JSON."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from typing import Final

from feed_assets.datasets.days import ONE_DAY, midnight

EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
MICROSECOND: Final = timedelta(microseconds=1)
JSON_TIMES: Final = {
    "timestampFormat": "yyyy-MM-dd'T'HH:mm:ss[.SSSSSS]XXX",
    "timestampNTZFormat": "yyyy-MM-dd'T'HH:mm:ss[.SSSSSS]",
}
"""Options of Spark's JSON that keep microseconds; by itself it cuts them to milliseconds."""


def within_days(column: str, first: date, *, days: int = 1) -> str:
    """The condition, in SQL, that the TIMESTAMP column lies in a UTC day, or in `days` days from `first` on.

    The session's time zone does not change it. A warm Spark compiles it once for all days: Spark writes a number into
    the code that it generates, but hands an array to it, so the code of all days is equal.
    """
    starts = ", ".join(f"{_since_epoch(first + number * ONE_DAY)}L" for number in range(days))
    moment = f"unix_micros({column})"
    return f"array_contains(array({starts}), {moment} - pmod({moment}, {microseconds(ONE_DAY)}L))"


def microseconds(duration: timedelta) -> int:
    """The duration in whole microseconds, the precision of Spark's times."""
    return duration // MICROSECOND


def _since_epoch(day: date) -> int:
    return microseconds(midnight(day) - EPOCH)
