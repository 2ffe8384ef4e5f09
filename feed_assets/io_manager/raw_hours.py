"""Raw partitions, which are hours, as the read sets of days that records keep.

Here: which hours of which days an asset asked for. Not here: listing them (`sources.raw`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import date

from feed_assets.file_feed import RawInput


def hours_by_day(partitions: Iterable[str]) -> Mapping[date, frozenset[str]]:
    """The hours (`00` to `23`) of each day among partitions of raw data, such as `2019-11-24-05:00`, in order."""
    hours: dict[date, set[str]] = {}
    for key in sorted(partitions):
        hours.setdefault(date.fromisoformat(key[:10]), set()).add(key[11:13])
    return {day: frozenset(of_day) for day, of_day in hours.items()}


def of_hours(day: RawInput, hours: frozenset[str]) -> RawInput:
    """Of a day's files those of these hours."""
    return replace(day, files=tuple(file for file in day.files if file.path[:2] in hours))
