"""UTC days as the names of partitions. Not here: the partitions of an asset (`feed_assets.partitions`)."""

from __future__ import annotations

from datetime import UTC, date, datetime, time, timedelta
from typing import Final

ONE_DAY: Final = timedelta(days=1)
"""The length of a partition of a day."""


def is_day(name: str) -> bool:
    """Whether this is the name of a day, `YYYY-MM-DD`; storage may also have other names."""
    try:
        return str(date.fromisoformat(name)) == name
    except ValueError:
        return False


def hour_name(day: str, hour: str) -> str:
    """The name of the partition of an hour, `00` to `23`, of a day: `2019-11-24-05:00`."""
    return f"{day}-{hour}:00"


def midnight(day: date) -> datetime:
    """The start of the UTC day."""
    return datetime.combine(day, time(), UTC)


def days_between(first: date, last: date) -> list[str]:
    """The days from first to last, both included."""
    return [str(first + offset * ONE_DAY) for offset in range((last - first).days + 1)]
