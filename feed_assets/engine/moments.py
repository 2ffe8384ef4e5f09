"""UTC days and durations in Spark's terms, so that no time zone setting can shift them."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from typing import Final

from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812 - as everyone writes Spark

from feed_assets.datasets import ONE_DAY, midnight

EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
MICROSECOND: Final = timedelta(microseconds=1)


def within(column: str, day: date, *, days: int = 1) -> Column:
    """Whether the TIMESTAMP column lies in the UTC day, or in the `days` days that begin with it.

    Spark writes a number into the code that it generates, and hands an array to it. So the array keeps the code equal
    for all days, and Java compiles it once instead of each day anew.
    """
    moment = F.unix_micros(F.col(column))
    starts = [F.lit(_since_epoch(day + number * ONE_DAY)) for number in range(days)]
    return F.array_contains(F.array(*starts), moment - F.pmod(moment, F.lit(microseconds(ONE_DAY))))


def between_midnights(column: str, day: date) -> Column:
    """`within` the day, in a form with which Parquet leaves out rows. Its code is the day's own."""
    start, end = (F.timestamp_micros(F.lit(_since_epoch(each))) for each in (day, day + ONE_DAY))
    return (F.col(column) >= start) & (F.col(column) < end)


def microseconds(duration: timedelta) -> int:
    """The duration in whole microseconds, the precision of Spark's times."""
    return duration // MICROSECOND


def _since_epoch(day: date) -> int:
    return microseconds(midnight(day) - EPOCH)
