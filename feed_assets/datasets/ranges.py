"""Ranges of slots, as integers. Not here: how slots contain each other (`containment`).

A range looks up the calendar once, not for each slot. Below a day it is a Python `range` of instants.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from feed_assets.datasets.dataset import Dataset
from feed_assets.datasets.errors import SlotError
from feed_assets.datasets.grains import Grain, moved, period_start
from feed_assets.datasets.members import Member
from feed_assets.datasets.names import NO_MEMBER
from feed_assets.datasets.slots import Slot


def member_starts(member: Member, grain: Grain, first: int, last: int) -> Sequence[int]:
    """The starts of a member's slots from one of its batch dates to another, both included.

    Below a day: the instants at which the slots of these dates begin. From a day on: the first days of the slots that
    have one of these dates. Both dates are ones on which the member delivers.

    >>> from datetime import date
    >>> member_starts(Member("eu", date(2026, 1, 1)), Grain.HOUR, 20784, 20784)
    range(1795737600, 1795824000, 3600)
    """
    days = member.calendar.days
    if grain.seconds:
        return range(days.begins(first), days.begins(last + 1), grain.seconds)
    return _periods(days.existing(first, last), grain)


def slots_on(dataset: Dataset, grain: Grain, first: int, last: int, member: str = NO_MEMBER) -> Iterator[Slot]:
    """The slots that have one of the batch dates from first to last, both included, in order of time.

    Both are days since 1970-01-01. Dates without a member that delivers have no slots. Raises GrainError if the dataset
    has no such grain. Raises SlotError for a grain below a day if the members below have several calendars.
    """
    branch = dataset.branch(member)
    dataset.check_grain(grain, member)
    if grain.seconds and branch.days is None:
        raise SlotError(
            f"{dataset.name}: a date has no {grain}s at {member}, whose members have several calendars. Ask for one of "
            "its members."
        )
    found = [(each, *dates) for each in branch.leaves if (dates := each.dates_in(first, last)) is not None]
    return _slots(dataset, member, grain, _merged([member_starts(each, grain, *dates) for each, *dates in found]))


def slots_between(dataset: Dataset, grain: Grain, begin: int, end: int, member: str = NO_MEMBER) -> Iterator[Slot]:
    """The slots whose windows overlap the time from `begin` to before `end`, in order of time.

    Both are instants. Times without a member that delivers have no slots. Raises GrainError if the dataset has no such
    grain.
    """
    branch = dataset.branch(member)
    dataset.check_grain(grain, member)
    starts: list[Sequence[int]] = []
    for each in branch.leaves:
        first, after = max(begin, each.begin), min(end, each.end)
        if first >= after:
            continue
        if grain.seconds:
            first -= (first - branch.phases[grain]) % grain.seconds
            starts.append(range(first, after, grain.seconds))
        else:
            days = each.calendar.days
            starts.append(member_starts(each, grain, days.day_at(first), days.day_at(after - 1)))
    return _slots(dataset, member, grain, _merged(starts))


def _periods(days: Sequence[int], grain: Grain) -> Sequence[int]:
    """The first days of the periods that have some of these days, in order."""
    if grain is Grain.DAY or not days:
        return days
    if isinstance(days, range):
        starts = [period_start(grain, days[0])]
        while (following := moved(grain, starts[-1], 1)) <= days[-1]:
            starts.append(following)
        return tuple(starts)
    return tuple(dict.fromkeys(period_start(grain, day) for day in days))


def _merged(starts: Sequence[Sequence[int]]) -> Sequence[int]:
    """All of these starts, in order, each once."""
    distinct = [*dict.fromkeys(starts)]
    if len(distinct) == 1:
        return distinct[0]
    return sorted({start for each in distinct for start in each})


def _slots(dataset: Dataset, member: str, grain: Grain, starts: Sequence[int]) -> Iterator[Slot]:
    return (Slot(dataset.name, member, grain, start) for start in starts)
