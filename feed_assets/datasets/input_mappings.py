"""Which slots of an input a slot of an output waits for.

Here: pure functions from a slot of one dataset to slots of another. Not here: what is latest or complete, which needs
facts. Each function returns the slots that the input has, in order of time. The list is empty if the input has none,
such as before its first batch date: the caller decides what that means.

Slots from a day on map by the name of their batch dates. So a day in Paris needs the same date in Tokyo. Other slots
map by their windows. The member maps to the same path of the input, or to `-` if the input has no hierarchy.
"""

from __future__ import annotations

from collections.abc import Iterator

from feed_assets.datasets.containment import base_starts
from feed_assets.datasets.dataset import Dataset
from feed_assets.datasets.errors import MappingError
from feed_assets.datasets.grains import Grain, moved
from feed_assets.datasets.names import NO_MEMBER
from feed_assets.datasets.ranges import slots_between, slots_on
from feed_assets.datasets.slots import Slot


def same_slot(slot: Slot, output: Dataset, source: Dataset) -> list[Slot]:
    """The slot of the input with the same grain and start.

    Raises MappingError if the input has no such grain or no such member, or if its slots begin at other instants.

    >>> from datetime import date
    >>> hours = Dataset.flat("raw/ads", Grain.HOUR, first=date(2026, 1, 1))
    >>> days = Dataset.flat("revenue/v1.0", Grain.DAY, first=date(2026, 1, 1))
    >>> [str(each) for each in same_slot(days.slot("2026-11-27"), days, hours)]
    ['raw/ads - day 2026-11-27']
    """
    found = _same(slot, output, source)
    return [found] if _exists(source, found) else []


def slots_within(slot: Slot, output: Dataset, source: Dataset, grain: Grain | None = None) -> list[Slot]:
    """The slots of the input, of a finer or the same grain, that have time in the slot; by default at the input's base.

    If windows do not begin together, such as days in Kolkata and hours in UTC, the slots at both ends are among them:
    the data of the slot is complete only with them. Raises MappingError if the grain is coarser than the slot's, or if
    the input has no such grain or member.

    >>> from datetime import date
    >>> hours = Dataset.flat("raw/ads", Grain.HOUR, first=date(2026, 1, 1))
    >>> days = Dataset.flat("revenue/v1.0", Grain.DAY, first=date(2026, 1, 1))
    >>> len(slots_within(days.slot("2026-11-27"), days, hours))
    24
    """
    grain = source.base if grain is None else grain
    if slot.grain is Grain.WHOLE:
        raise MappingError(f"{slot} has no end, so no slots lie within it. Wait for the latest slot of {source.name}.")
    if not grain.divides(slot.grain):
        raise MappingError(f"{slot}: no {grain} lies within a {slot.grain}. Name a finer grain, or map by containing.")
    return _overlapping(slot, output, source, grain)


def slots_containing(slot: Slot, output: Dataset, source: Dataset, grain: Grain) -> list[Slot]:
    """The slot of the input, of a coarser or the same grain, that contains the slot.

    These are two slots if the slot begins in one and ends in the other, as an hour in Kolkata does at midnight UTC.
    There may be more at members of several calendars. Raises MappingError if the grain is finer than the slot's, or if
    the input has no such grain or member.

    >>> from datetime import date
    >>> hours = Dataset.flat("raw/ads", Grain.HOUR, first=date(2026, 1, 1))
    >>> [str(each) for each in slots_containing(hours.slot("2026-11-27T15"), hours, hours, Grain.MONTH)]
    ['raw/ads - month 2026-11']
    """
    if grain is Grain.WHOLE:
        _require_grain(source, grain)
        return [Slot(source.name, NO_MEMBER, grain, 0)]
    if not slot.grain.divides(grain):
        raise MappingError(f"{slot}: no {grain} contains a {slot.grain}. Name a coarser grain, or map by within.")
    return _overlapping(slot, output, source, grain)


def shifted_slot(slot: Slot, output: Dataset, source: Dataset, count: int, unit: Grain | None = None) -> list[Slot]:
    """The slot of the input that lies `count` units after the same slot; before it, if `count` is negative.

    The unit is the slot's grain or a multiple of fixed size: hours for `5min`, weeks for days, quarters for months.
    Below a day, it counts seconds, also where the clock changes. A date that the input's calendar skips is passed over,
    in the direction of `count`. Raises MappingError for another unit, such as months of days, and as `same_slot` does.

    >>> from datetime import date
    >>> hours = Dataset.flat("raw/ads", Grain.HOUR, first=date(2026, 1, 1))
    >>> [str(each) for each in shifted_slot(hours.slot("2026-11-27T15"), hours, hours, -1)]
    ['raw/ads - hour 2026-11-27T14:00Z']
    """
    same = _same(slot, output, source)
    steps = count * _steps(slot, unit or slot.grain)
    shifted = same._replace(start=moved(slot.grain, same.start, steps))
    return _at_or_beyond(source, shifted, -1 if count < 0 else 1)


def last_slots(slot: Slot, output: Dataset, source: Dataset, count: int) -> list[Slot]:
    """The `count` newest slots of the input up to the same slot, which is the last of them.

    There are fewer only at the beginning of the input: dates that its calendar skips do not count. Raises MappingError
    if `count` is less than 1, and as `same_slot` does.

    >>> from datetime import date
    >>> days = Dataset.flat("clean-ads/v1.0", Grain.DAY, first=date(2026, 11, 24))
    >>> [str(each) for each in last_slots(days.slot("2026-11-25"), days, days, 7)]
    ['clean-ads/v1.0 - day 2026-11-24', 'clean-ads/v1.0 - day 2026-11-25']
    """
    if count < 1:
        raise MappingError(f"{slot}: last({count}) names no slot. Use last(1) or more.")
    newest = _same(slot, output, source)
    found = _at_or_beyond(source, newest, -1)
    while found and len(found) < count:
        before = found[-1]._replace(start=moved(slot.grain, found[-1].start, -1))
        if not (earlier := _at_or_beyond(source, before, -1)):
            break
        found += earlier
    return found[::-1]


def _same(slot: Slot, output: Dataset, source: Dataset) -> Slot:
    """The slot of the input with the same grain and start, whether or not it exists."""
    output.check(slot)
    member = _member(slot.member, source)
    _require_grain(source, slot.grain, member)
    branch = source.branch(member)
    if slot.grain.seconds and (slot.start - branch.phases[slot.grain]) % slot.grain.seconds != 0:
        raise MappingError(
            f"{slot}: the slots of {source.name} begin at other instants. Map by within, or by containing."
        )
    return slot._replace(dataset=source.name, member=member)


def _overlapping(slot: Slot, output: Dataset, source: Dataset, grain: Grain) -> list[Slot]:
    """The slots of the input that have time, or batch dates, of the slot."""
    output.check(slot)
    if not grain.seconds and not slot.grain.seconds:
        member = _member(slot.member, source)
        _require_grain(source, grain, member)
        dates = output.member_dates(slot)
        first, last = min(each for _, each, _ in dates), max(each for _, _, each in dates)
        return [*slots_on(source, grain, first, last, member)]
    found: dict[Slot, None] = {}
    for member, begin, end in _windows(slot, output, source):
        _require_grain(source, grain, member)
        found.update(dict.fromkeys(slots_between(source, grain, begin, end, member)))
    return sorted(found, key=lambda each: (each.start, each.member))


def _windows(slot: Slot, output: Dataset, source: Dataset) -> Iterator[tuple[str, int, int]]:
    """The windows of a slot, each with a member of the input: one for each calendar of the output's members."""
    if slot.grain.seconds or output.branch(slot.member).days is not None:
        yield _member(slot.member, source), *output.window(slot)
        return
    for member, _ in base_starts(output, slot):
        yield _member(member, source), *output.window(slot._replace(member=member))


def _member(member: str, source: Dataset) -> str:
    """The path of the input that a member of the output reads."""
    if not source.hierarchy.levels:
        return NO_MEMBER
    if member not in source.hierarchy:
        raise MappingError(
            f"{source.name} has no member {member}, which reads it. Its levels are {source.hierarchy.levels}."
        )
    return member


def _require_grain(source: Dataset, grain: Grain, member: str = NO_MEMBER) -> None:
    if grain not in source.grains:
        grains = ", ".join(source.grains)
        raise MappingError(f"{source.name} has no slots of the grain {grain}; it has {grains}. Map to one of these.")
    source.check_grain(grain, member)


def _exists(source: Dataset, slot: Slot) -> bool:
    """Whether the input has a slot that is on its grain."""
    if slot.grain.seconds:
        leaves = source.branch(slot.member).leaves
        return any(each.begin <= slot.start < each.end for each in leaves)
    return bool(source.member_dates(slot))


def _at_or_beyond(source: Dataset, slot: Slot, step: int) -> list[Slot]:
    """The slot, or the next one in a direction if the calendar skips its date; none outside the members' dates."""
    leaves = source.branch(slot.member).leaves
    first, last = min(each.first_day for each in leaves), max(each.last_day for each in leaves)
    if slot.grain.seconds:
        return [slot] if _exists(source, slot) else []
    while first <= moved(slot.grain, slot.start, 1) - 1 and slot.start <= last:
        if _exists(source, slot):
            return [slot]
        slot = slot._replace(start=moved(slot.grain, slot.start, step))
    return []


def _steps(slot: Slot, unit: Grain) -> int:
    """How many slots a unit has."""
    if unit is slot.grain:
        return 1
    if slot.grain.seconds and unit.seconds and slot.grain.divides(unit):
        return unit.seconds // slot.grain.seconds
    fixed = {(Grain.DAY, Grain.WEEK): 7, (Grain.MONTH, Grain.QUARTER): 3}
    if steps := fixed.get((slot.grain, unit)):
        return steps
    raise MappingError(f"{slot} cannot be shifted by a {unit}, which has no fixed number of slots. Use {slot.grain}s.")
