"""Which hours of a source are to be checked: complete ones that are new or have changed since.

Here: the decision. Not here: the runs (`requests`), and what a day makes of its hours (`steps.day_records`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from math import inf

from feed_assets.blackboard.port import Blackboard
from feed_assets.datasets.days import ONE_DAY, hour_name, midnight
from feed_assets.file_feed.control import recorded_digests
from feed_assets.file_feed.feed import Feed, Update
from feed_assets.file_feed.names import begun
from feed_assets.file_feed.record import RawInput, inputs_digest
from feed_assets.file_feed.scanning import latest_of_all
from feed_assets.file_feed.wording import counted
from feed_assets.late_data.day_phases import due_from
from feed_assets.late_data.inputs_read import inputs_read, was_decided_against
from feed_assets.late_data.raw_growth import decide_on
from feed_assets.sources.known_contents import StillComparingError, recognized
from feed_assets.sources.raw import raw_days
from feed_assets.sources.spec import Source

ONE_HOUR = timedelta(hours=1)
PAUSE = timedelta(minutes=10)
"""How long after a check an hour that may still grow is checked again."""


@dataclass(frozen=True, slots=True)
class DueHour:
    """An hour to be checked: its partition, the digest of its raw files, and why."""

    partition: str
    state: str
    reason: str


def due_hours(
    board: Blackboard,
    source: Source,
    of_kind: Sequence[Source],
    feed: Feed,
    *,
    now: datetime,
    early: bool = False,
    until: float = inf,
) -> Iterator[DueHour]:
    """The due hours of a source, oldest first; two listings of its raw data, and two of its checked hours.

    An hour is complete `buffer_hours` after its end. A complete hour is due if one of these holds:

    - It was never checked, and its day is not due yet. On a day that is due, one run for all hours is quicker.
    - It was checked, and has grown since by `growth_threshold_percent`, or its files were replaced. The check
      costs a LIST and a GET for each such hour, once in a process.
    - Its run ended before it published.

    On a disk, days with copied files that cannot be compared before `until` are left for later.

    `early`: hours that are over and not complete are due, too, as soon as they have files; again if they have others,
    PAUSE after the last check.

    `of_kind` are all sources of its kind: a day waits for the longest buffer among them.
    """
    first, last = now.date() - source.lookback_days * ONE_DAY, now.date()
    hours = {"first": hour_name(str(first), "00"), "last": hour_name(str(last), "23")}
    digests = recorded_digests(feed, **hours)
    in_force = latest_of_all(feed, now=now, **hours) if digests else {}
    for (_, day), read in sorted(raw_days(board, [source.key], first, last).items()):
        to_come = now < due_from(str(day), of_kind)
        if any(_is_other(digests.get(hour_name(str(day), hour), {}), read.during([hour])) for hour in read.hours):
            try:
                read = recognized(board, read, until=until)  # noqa: PLW2901 - the same files
            except StillComparingError:
                continue
        for hour in sorted(read.hours):
            complete = midnight(day) + (int(hour) + 1 + source.buffer_hours) * ONE_HOUR
            known = digests.get(partition := hour_name(str(day), hour), {})
            of_hour = read.during([hour])
            state = inputs_digest([of_hour])
            if early and now < complete:
                if state not in known.values() and (not known or now - begun(max(known)) >= PAUSE):
                    yield DueHour(partition, state, f"{source.key} {partition} has {counted(of_hour.count, 'file')}")
                continue
            if now < complete or not (to_come or known):
                continue
            if why := _why_due(source, feed, partition, of_hour, state, known, in_force.get(partition)):
                yield DueHour(partition, state, f"{source.key} {partition} {why}")


def _is_other(known: Mapping[str, str], of_hour: RawInput) -> bool:
    """Whether an hour was checked, and has other files now."""
    return bool(known) and inputs_digest([of_hour]) not in known.values()


def _why_due(
    source: Source,
    feed: Feed,
    partition: str,
    now: RawInput,
    state: str,
    known: Mapping[str, str],
    in_force: Update | None,
) -> str | None:
    """Why a complete hour is to be checked; None if it is not. `known` are the digests of its recorded updates."""
    if not known:
        return f"is complete: {counted(now.count, 'file')}"
    if same := [name for name, digest in known.items() if digest == state]:
        died = max(same) > (in_force.name if in_force else "") and not was_decided_against(feed, partition, max(same))
        return f"was checked as {max(same)}, and its run ended before it published" if died else None
    read = inputs_read(feed, partition, max(known))
    before = read.raw(now.partition).get(source.key) if read else None
    decision = decide_on(feed, partition, max(known), before, now, source.growth_threshold_percent)
    return decision.sentence() if decision.reprocess else None
