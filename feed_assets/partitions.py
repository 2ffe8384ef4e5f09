"""Which days and hours there are.

Here: the partitions of the assets. Not here: which of them hold data (the blackboard knows).
"""

from __future__ import annotations

import warnings
from datetime import UTC, datetime, time

import dagster as dg

from feed_assets.resources import Settings


def daily(settings: Settings) -> dg.DailyPartitionsDefinition:
    """One partition a UTC day, from the first day of data to yesterday, as the installation's clock has it."""
    return dg.DailyPartitionsDefinition(start_date=settings.first_day.isoformat(), end_date=_end(settings))


def hourly(settings: Settings) -> dg.HourlyPartitionsDefinition:
    """One partition a UTC hour over the same days: how raw data lies."""
    start = datetime.combine(settings.first_day, time(), UTC)
    return dg.HourlyPartitionsDefinition(start_date=start, end_date=_end(settings))


with warnings.catch_warnings():
    # Neighbours that do not exist yet are a beta feature, and the first and the last day have them.
    warnings.simplefilter("ignore", dg.BetaWarning)

    NEXT_DAY = dg.TimeWindowPartitionMapping(end_offset=1, allow_nonexistent_upstream_partitions=True)
    """A day and the one after it, where that exists: for results that what happens after midnight still belongs to."""

    NEIGHBOURING_DAYS = dg.TimeWindowPartitionMapping(
        start_offset=-1, end_offset=1, allow_nonexistent_upstream_partitions=True
    )
    """A day and its neighbours: for results that depend on what happens near midnight on either side."""


def _end(settings: Settings) -> datetime | None:
    """The end of the last partition under a fixed clock: the midnight before that moment."""
    if settings.as_of is None:
        return None
    return datetime.combine(settings.as_of.astimezone(UTC), time(), UTC)
