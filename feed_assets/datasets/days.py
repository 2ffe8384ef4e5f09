"""Days as the names of partitions, and how long one is.

Here: the names and the length, in UTC. Not here: which partitions an asset has (`feed_assets.partitions`), and which of
them hold data.
"""

from __future__ import annotations

from datetime import date, timedelta
from typing import Final

ONE_DAY: Final = timedelta(days=1)
"""How long a partition of a day is."""


def is_day(name: str) -> bool:
    """Whether this is the name of a day, `YYYY-MM-DD`; storage may hold other names as well."""
    try:
        return str(date.fromisoformat(name)) == name
    except ValueError:
        return False


def days_between(first: date, last: date) -> list[str]:
    """The days from first to last, both included."""
    return [str(first + offset * ONE_DAY) for offset in range((last - first).days + 1)]
