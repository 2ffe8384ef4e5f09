"""Hourly raw partitions, grouped into frames of a day or an hour. Not here: listing them (`sources.raw`)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, date, datetime, time


@dataclass(frozen=True, slots=True)
class Slice:
    """Hours (`00` to `23`) of one day that are read as one frame; `key` is the day, or the one hour."""

    key: str
    day: date
    hours: frozenset[str]

    @property
    def start(self) -> datetime:
        """Its first hour, in UTC."""
        return datetime.combine(self.day, time(int(min(self.hours))), UTC)


def slices(partitions: Iterable[str], *, by_hour: bool) -> tuple[Slice, ...]:
    """The frames of raw partitions such as `2019-11-24-05:00`: one for each day, or each hour, in order."""
    by_key: dict[str, set[str]] = {}
    for key in sorted(partitions):
        by_key.setdefault(key if by_hour else key[:10], set()).add(key[11:13])
    return tuple(Slice(key, date.fromisoformat(key[:10]), frozenset(hours)) for key, hours in by_key.items())
