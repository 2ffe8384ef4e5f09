"""UTC days and durations as Spark literals that no time zone setting can shift."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from typing import Final

from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812 - as everyone writes Spark

from feed_assets.datasets import ONE_DAY, midnight

EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
MICROSECOND: Final = timedelta(microseconds=1)


def start_of(day: date) -> Column:
    """Midnight at the start of the UTC day, TIMESTAMP."""
    since_epoch = midnight(day) - EPOCH
    return F.timestamp_micros(F.lit(microseconds(since_epoch)))


def within(column: str, day: date, *, days: int = 1) -> Column:
    """Whether the TIMESTAMP column lies in the UTC day, or in the `days` days that begin with it."""
    moment = F.col(column)
    return (moment >= start_of(day)) & (moment < start_of(day + days * ONE_DAY))


def microseconds(duration: timedelta) -> int:
    """The duration in whole microseconds, the precision of Spark's times."""
    return duration // MICROSECOND
