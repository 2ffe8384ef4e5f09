"""How the slots of a dataset contain each other, over time and over members.

Here: base sets, children, parents. Not here: slots of another dataset (`input_mappings`). A slot contains another if
its base set does. Time and members are two ways to cut one base set, so both roll-ups agree.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from feed_assets.datasets.dataset import Dataset
from feed_assets.datasets.errors import SlotError
from feed_assets.datasets.grains import Grain, moved, period_start
from feed_assets.datasets.members import parent_path
from feed_assets.datasets.names import NO_MEMBER
from feed_assets.datasets.ranges import member_starts, slots_on
from feed_assets.datasets.slots import Slot


class BaseStarts(NamedTuple):
    """The part of a base set that one member has: the starts of its base slots, in order; a `range` below a day."""

    member: str
    starts: Sequence[int]


def base_starts(dataset: Dataset, slot: Slot) -> list[BaseStarts]:
    """The base set of a slot: the base slots of every member that delivers in it, each in the member's own window.

    Takes a calendar lookup for each member, however many base slots there are. Raises SlotError if the slot does not
    exist.

    >>> from datetime import date
    >>> ads = Dataset.flat("raw/ads", Grain.HOUR, first=date(2026, 1, 1))
    >>> base_starts(ads, ads.slot("2026-11-27"))
    [BaseStarts(member='-', starts=range(1795737600, 1795824000, 3600))]
    """
    dataset.check(slot)
    if slot.grain.seconds:
        starts = range(slot.start, slot.start + slot.grain.seconds, dataset.base.seconds)
        leaves = dataset.branch(slot.member).leaves
        return [BaseStarts(each.path, starts) for each in leaves if each.begin <= slot.start < each.end]
    dates = dataset.member_dates(slot)
    return [BaseStarts(member.path, member_starts(member, dataset.base, first, last)) for member, first, last in dates]


def base_set(dataset: Dataset, slot: Slot) -> Iterator[Slot]:
    """The slots of `base_starts`, member by member in order of time. Raises SlotError if the slot does not exist."""
    found = base_starts(dataset, slot)
    return (Slot(dataset.name, member, dataset.base, start) for member, starts in found for start in starts)


def time_children(dataset: Dataset, slot: Slot, grain: Grain | None = None) -> list[Slot]:
    """The slots of a finer grain in a slot, at the same member, in order of time. Empty for a slot at the base grain.

    Without `grain`: the coarsest of the dataset's grains that divides the slot's. Raises SlotError if the slot does not
    exist, or if `grain` does not divide it. Also raises SlotError for a slot of a day or longer at members of several
    calendars, if the grain is below a day: cut such a slot by members first.
    """
    dataset.check(slot)
    finer = [each for each in dataset.grains if each.divides(slot.grain) and each is not slot.grain]
    if grain is None:
        if not finer:
            return []
        grain = finer[-1]
    elif grain not in finer:
        raise SlotError(f"{slot} has no children of the grain {grain}; use {', '.join(finer) or 'none'}.")
    if slot.grain.seconds:
        dataset.check_grain(grain, slot.member)
        starts = range(slot.start, slot.start + slot.grain.seconds, grain.seconds)
        return [Slot(slot.dataset, slot.member, grain, start) for start in starts]
    last = moved(slot.grain, slot.start, 1) - 1
    return [*slots_on(dataset, grain, slot.start, last, slot.member)]


def member_children(dataset: Dataset, slot: Slot) -> list[Slot]:
    """The same slot at each member one level below that delivers in it. Empty for a member without members below.

    Raises SlotError if the slot does not exist.
    """
    dataset.check(slot)
    below = (slot._replace(member=path) for path in dataset.hierarchy.children(slot.member))
    return [each for each in below if _delivers(dataset, each)]


def time_parents(dataset: Dataset, slot: Slot) -> list[Slot]:
    """The slots of the next coarser grains that contain a slot, at the same member.

    A day has two, its week and its month, because weeks do not divide months. An hour at members of several calendars
    has none: it lies in different batch dates. Raises SlotError if the slot does not exist.

    >>> from datetime import date
    >>> ads = Dataset.flat("raw/ads", Grain.HOUR, first=date(2026, 1, 1))
    >>> [str(each) for each in time_parents(ads, ads.slot("2026-11-27"))]
    ['raw/ads - week 2026-W48', 'raw/ads - month 2026-11']
    """
    dataset.check(slot)
    return _time_parents(dataset, slot)


def member_parent(dataset: Dataset, slot: Slot) -> Slot | None:
    """The same slot one level up in the hierarchy. None at the top, and where it has no slots of this grain.

    Raises SlotError if the slot does not exist.
    """
    return _member_parent(dataset, dataset.check(slot))


def ancestors(dataset: Dataset, slot: Slot) -> list[Slot]:
    """All slots that contain a slot, over time and over members, without itself. Raises SlotError if it does not exist.

    >>> from datetime import date
    >>> ads = Dataset.flat("raw/ads", Grain.HOUR, first=date(2026, 1, 1))
    >>> [str(each.grain) for each in ancestors(ads, ads.slot("2026-11-27T15"))]
    ['day', 'week', 'month', 'quarter']
    """
    found = {dataset.check(slot): None}
    waiting = [slot]
    for each in waiting:
        parents = _time_parents(dataset, each)
        if above := _member_parent(dataset, each):
            parents.append(above)
        waiting += [parent for parent in parents if parent not in found]
        found.update(dict.fromkeys(parents))
    return [*found][1:]


def _time_parents(dataset: Dataset, slot: Slot) -> list[Slot]:
    name, member, grain, start = slot
    branch = dataset.branch(member)
    parents = []
    for coarser in branch.coarser[grain]:
        if coarser.seconds:
            begin = start - (start - branch.phases[coarser]) % coarser.seconds
        elif grain.seconds and branch.days is not None:
            begin = period_start(coarser, branch.days.day_at(start))
        else:
            begin = period_start(coarser, start)
        parents.append(Slot(name, member, coarser, begin))
    return parents


def _member_parent(dataset: Dataset, slot: Slot) -> Slot | None:
    if slot.member == NO_MEMBER:
        return None
    above = parent_path(slot.member)
    has_grain = not slot.grain.seconds or slot.grain in dataset.branch(above).phases
    return slot._replace(member=above) if has_grain else None


def _delivers(dataset: Dataset, slot: Slot) -> bool:
    """Whether a slot that is on its grain has a member that delivers in it."""
    if slot.grain.seconds:
        leaves = dataset.branch(slot.member).leaves
        return any(each.begin <= slot.start < each.end for each in leaves)
    return bool(dataset.member_dates(slot))
