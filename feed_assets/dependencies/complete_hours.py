"""Which hours of a source are to be checked: complete ones that are new or have changed since.

Here: the decision. Not here: the runs (`requests`), and what a day makes of its hours (`steps.day_records`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from feed_assets.blackboard import Blackboard
from feed_assets.datasets import ONE_DAY, midnight
from feed_assets.datasets.days import hour_name
from feed_assets.dependencies.inputs_read import inputs_read
from feed_assets.dependencies.raw_growth import due_from
from feed_assets.file_feed import Feed, inputs_digest, recorded_digests
from feed_assets.file_feed.wording import counted
from feed_assets.sources import Source, decide, raw_days

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

    An hour is complete `buffer_hours` after its end. It is due if it was never checked and its day is still to come, or
    if it was, and has changed since as a day must to run again (`growth_threshold_percent`): that costs a LIST and a
    GET for each such hour, once in a process. `of_kind` are all sources of its kind: a day waits for the longest buffer
    among them. The hours of other days are checked with their day: one run for all of them is quicker.
    """
    first, last = now.date() - source.lookback_days * ONE_DAY, now.date()
    digests = recorded_digests(feed, first=hour_name(str(first), "00"), last=hour_name(str(last), "23"))
    for (_, day), read in sorted(raw_days(board, [source.key], first, last).items()):
        to_come = now < due_from(str(day), of_kind)
        for hour in sorted(read.hours):
            complete = midnight(day) + (int(hour) + 1 + source.buffer_hours) * ONE_HOUR
            known = digests.get(partition := hour_name(str(day), hour), {})
            of_hour = read.during([hour])
            state = inputs_digest([of_hour])
            if now < complete or state in known.values() or not (to_come or known):
                continue
            why = f"is complete: {counted(of_hour.count, 'file')}"
            if known:
                newest = inputs_read(feed, partition, max(known))
                before = newest.raw(str(day)).get(source.key) if newest else None
                decision = decide(before, of_hour, source.growth_threshold_percent)
                if not decision.reprocess:
                    continue
                why = decision.sentence()
            yield DueHour(partition, state, f"{source.key} {partition} {why}")
