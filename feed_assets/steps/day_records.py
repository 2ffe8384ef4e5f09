"""The records of a day: those still to be checked, and those that were checked hour by hour as they came.

Here: which checked hours fit the raw files of now. Not here: checking (`quality.judging`), and listing raw files
(`raw_reading`). A checked hour is used only if its update read exactly the files that the hour has now. So it saves
work, and never decides what a day's result is.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from pyspark.sql import DataFrame

from feed_assets.datasets.days import hour_name
from feed_assets.file_feed.control import recorded_digests
from feed_assets.file_feed.feed import Feed, Update
from feed_assets.file_feed.record import RawInput, inputs_digest
from feed_assets.file_feed.scanning import latest_of_all
from feed_assets.file_feed.wording import counted
from feed_assets.steps.run import Run


@dataclass(frozen=True, slots=True)
class DayRecords:
    """The records of a day of one source: `raw` ones, and `checked` ones; either is None if there are none."""

    raw: DataFrame | None
    checked: DataFrame | None


@dataclass(frozen=True, slots=True)
class SplitDay:
    """The raw files of a day that are still to be checked, and the updates that have its other hours."""

    raw: tuple[RawInput, ...]
    checked: tuple[Update, ...]


def split(run: Run, feed: Feed, day: str, read: Sequence[RawInput]) -> SplitDay:
    """Look for checked hours of a day in their feed: two listings."""
    first, last = hour_name(day, "00"), hour_name(day, "23")
    digests = recorded_digests(feed, first=first, last=last)
    found = latest_of_all(feed, now=run.now(), first=first, last=last) if digests else {}
    raw, checked = [], []
    for each in read:
        rest: list[str] = []
        for hour in sorted(each.hours):
            partition = hour_name(day, hour)
            update = found.get(partition)
            as_read = inputs_digest([replace(each.during([hour]), context=False)])
            if update is not None and digests.get(partition, {}).get(update.name) == as_read:
                checked.append(update)
            else:
                rest.append(hour)
        raw.append(each.during(rest))
    if checked:
        hours = counted(len(checked), "hour")
        run.log.info(f"{feed.location} {day}: {hours} of {sum(len(e.hours) for e in read)} were checked before.")
    return SplitDay(tuple(each for each in raw if each.files), tuple(checked))
