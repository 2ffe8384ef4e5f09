"""Which hours of a source are to be checked: complete ones that are new or have changed since.

Here: the decision. Not here: the runs (`requests`), and what a day makes of its hours (`steps.day_records`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from feed_assets.blackboard import Blackboard
from feed_assets.datasets import ONE_DAY, midnight
from feed_assets.dependencies.raw_growth import due_from
from feed_assets.file_feed import Feed, inputs_digest, recorded_digests
from feed_assets.file_feed.wording import counted
from feed_assets.sources import Source, raw_days

ONE_HOUR = timedelta(hours=1)


@dataclass(frozen=True, slots=True)
class DueHour:
    """An hour to be checked: its partition, the digest of its raw files, and why."""

    partition: str
    state: str
    reason: str


def due_hours(
    board: Blackboard, source: Source, of_kind: Sequence[Source], feed: Feed, *, now: datetime
) -> Iterator[DueHour]:
    """The due hours of a source, oldest first; two listings of its raw data, and one of its checked hours.

    An hour is complete `buffer_hours` after its end. It is due if no update has read its present files, and either its
    day is still to come, or the hour was checked before. `of_kind` are all sources of its kind: a day waits for the
    longest buffer among them. The hours of other days are checked with their day: one run for all of them is quicker.
    """
    first, last = now.date() - source.lookback_days * ONE_DAY, now.date()
    digests = recorded_digests(feed, first=f"{first}-00:00", last=f"{last}-23:00")
    for (_, day), read in sorted(raw_days(board, [source.key], first, last).items()):
        to_come = now < due_from(str(day), of_kind)
        for hour in sorted(read.hours):
            complete = midnight(day) + (int(hour) + 1 + source.buffer_hours) * ONE_HOUR
            known = digests.get(partition := f"{day}-{hour}:00", {})
            files = tuple(file for file in read.files if file.path[:2] == hour)
            state = inputs_digest([replace(read, files=files)])
            if now < complete or state in known.values() or not (to_come or known):
                continue
            why = "has changed since it was checked" if known else "is complete"
            yield DueHour(partition, state, f"{source.key} {partition} {why}: {counted(len(files), 'file')}")
