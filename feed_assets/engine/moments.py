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


def within(column: str, day: date, *, days: int = 1) -> str:
    """The condition that the TIMESTAMP column lies in the UTC day, or in the `days` days that begin with it.

    Spark writes a number into the code that it generates, and hands an array to it. So the array keeps the code equal
    for all days, and Java compiles it once instead of each day anew.
    """
    starts = ", ".join(f"{_since_epoch(day + number * ONE_DAY)}L" for number in range(days))
    moment = f"unix_micros({column})"
    return f"array_contains(array({starts}), {moment} - pmod({moment}, {microseconds(ONE_DAY)}L))"


def between_midnights(column: str, day: date) -> str:
    """`within` the day, in a form with which Parquet leaves out rows. Its code is the day's own."""
    start, end = (f"timestamp_micros({_since_epoch(each)}L)" for each in (day, day + ONE_DAY))
    return f"{column} >= {start} AND {column} < {end}"


def microseconds(duration: timedelta) -> int:
    """The duration in whole microseconds, the precision of Spark's times."""
    return duration // MICROSECOND


def _since_epoch(day: date) -> int:
    return microseconds(midnight(day) - EPOCH)
