"""The partitions of the assets, with and without data."""

from __future__ import annotations

import warnings
from datetime import UTC, datetime

import dagster as dg

from feed_assets.datasets.days import midnight
from feed_assets.resources.settings import Settings


def daily(settings: Settings) -> dg.DailyPartitionsDefinition:
    """One partition for each UTC day, from the first day of data to yesterday by the installation's clock."""
    fixed = _fixed_time(settings)
    return dg.DailyPartitionsDefinition(
        start_date=settings.first_day.isoformat(), end_date=midnight(fixed.date()) if fixed else None
    )


def hourly(settings: Settings) -> dg.HourlyPartitionsDefinition:
    """One partition for each UTC hour, from the first day of data to the last hour that is over."""
    fixed = _fixed_time(settings)
    return dg.HourlyPartitionsDefinition(
        start_date=midnight(settings.first_day),
        end_date=fixed.replace(minute=0, second=0, microsecond=0) if fixed else None,
    )


def are_utc_days(partitions: dg.PartitionsDefinition | None) -> bool:
    """Whether they are days from midnight to midnight UTC with names as `2019-11-24`, as the days of raw data are."""
    return (
        isinstance(partitions, dg.DailyPartitionsDefinition)
        and not (partitions.hour_offset or partitions.minute_offset)
        and partitions.timezone == "UTC"
        and partitions.fmt == "%Y-%m-%d"
    )


with warnings.catch_warnings():
    # Upstream partitions that do not exist are a beta feature; the first and the last day need it.
    warnings.simplefilter("ignore", dg.BetaWarning)

    NEXT_DAY = dg.TimeWindowPartitionMapping(end_offset=1, allow_nonexistent_upstream_partitions=True)
    """A day and the next day, if it exists: for results that count events after midnight."""

    NEIGHBOURING_DAYS = dg.TimeWindowPartitionMapping(
        start_offset=-1, end_offset=1, allow_nonexistent_upstream_partitions=True
    )
    """A day and its neighbours, if they exist: for results that depend on events near either midnight."""


def _fixed_time(settings: Settings) -> datetime | None:
    """The time of a fixed clock, UTC; None if the clock runs, which Dagster follows by itself."""
    return settings.as_of.astimezone(UTC) if settings.as_of is not None else None
