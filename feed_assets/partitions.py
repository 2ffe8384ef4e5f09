"""Which days and hours there are.

Here: the partitions of the assets. Not here: which of them hold data (the blackboard knows).
"""

from __future__ import annotations

import warnings
from datetime import UTC, date, datetime, time, timedelta

import dagster as dg

from feed_assets.resources import Settings

DAY_FORMAT = "%Y-%m-%d"


def daily(settings: Settings) -> dg.DailyPartitionsDefinition:
    """One partition a UTC day, from the first day of data to yesterday, as the installation's clock has it."""
    return dg.DailyPartitionsDefinition(start_date=settings.first_day.isoformat(), end_date=_end(settings))


def hourly(settings: Settings) -> dg.HourlyPartitionsDefinition:
    """One partition a UTC hour over the same days: how raw data lies."""
    start = datetime.combine(settings.first_day, time(), UTC)
    return dg.HourlyPartitionsDefinition(start_date=start, end_date=_end(settings))


def days_between(first: date, last: date) -> list[str]:
    """The days from first to last, both included, as partition keys."""
    return [str(first + timedelta(days=offset)) for offset in range((last - first).days + 1)]


def is_day(name: str) -> bool:
    """Whether this is the key of a day; storage may hold other names as well."""
    try:
        return str(date.fromisoformat(name)) == name
    except ValueError:
        return False


with warnings.catch_warnings():
    # Neighbours that do not exist yet are a beta feature, and the first and the last day have them.
    warnings.simplefilter("ignore", dg.BetaWarning)

    NEXT_DAY = dg.TimeWindowPartitionMapping(end_offset=1, allow_nonexistent_upstream_partitions=True)
    """A day and the one after it, where that exists: clicks after midnight belong to the day the ad was shown."""

    NEIGHBOURING_DAYS = dg.TimeWindowPartitionMapping(
        start_offset=-1, end_offset=1, allow_nonexistent_upstream_partitions=True
    )
    """A day and its neighbours: only they tell whether a click near midnight belongs to this day."""


def _end(settings: Settings) -> datetime | None:
    """The end of the last partition under a fixed clock: the midnight before that moment."""
    if settings.as_of is None:
        return None
    return datetime.combine(settings.as_of.astimezone(UTC), time(), UTC)
