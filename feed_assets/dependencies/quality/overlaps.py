"""Which slots of a dataset share base slots: an index of slots, and all slots that overlap some.

Two slots overlap if their base sets do. A slot overlaps itself, the slots in it and the slots that contain it. It also
overlaps slots that cross it: a week and a month, or a day of one member and an hour of all members. Not here:
revisions (`revision_history`), and what it means (`quality`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final, TypeAlias

from feed_assets.datasets.containment import base_starts
from feed_assets.datasets.dataset import Dataset
from feed_assets.datasets.grains import Grain, moved
from feed_assets.datasets.instants import DAY_SECONDS
from feed_assets.datasets.members import Member, ancestry
from feed_assets.datasets.ranges import member_starts
from feed_assets.datasets.slots import Slot
from feed_assets.dependencies.quality.marks import SlotRange

Spans: TypeAlias = dict[str, tuple[int, int]]
"""The base set of a slot: for each member that delivers in it, the first and the last start of its base slots."""
Footprint: TypeAlias = dict[tuple[str, Grain], Sequence[int]]
"""Slots of one dataset: for each member and grain the starts, in order."""

_SPANS_KEPT: Final = 20_000


class SlotIndex:
    """A set of slots that finds those that overlap a slot. Its memory is that of its slots, and of a bounded cache.

    A slot is listed under each day that it touches: once for its member, and once for each path at or above it. So a
    search looks at the slots of its own days, at related members.
    """

    def __init__(self, datasets: Mapping[str, Dataset]) -> None:
        self._datasets = datasets
        self._slots: set[Slot] = set()
        self._at: dict[tuple[str, str, int], dict[Slot, None]] = {}
        self._at_or_below: dict[tuple[str, str, int], dict[Slot, None]] = {}
        self._counts: dict[str, int] = {}
        self._spans: dict[Slot, Spans] = {}

    def __contains__(self, slot: object) -> bool:
        return slot in self._slots

    def __iter__(self) -> Iterator[Slot]:
        return iter(self._slots)

    def add(self, slot: Slot) -> None:
        """Add a slot; nothing happens if it is there."""
        if slot in self._slots:
            return
        self._slots.add(slot)
        self._counts[slot.dataset] = self._counts.get(slot.dataset, 0) + 1
        for day in self._days(slot):
            self._at.setdefault((slot.dataset, slot.member, day), {})[slot] = None
            for path in ancestry(slot.member):
                self._at_or_below.setdefault((slot.dataset, path, day), {})[slot] = None

    def discard(self, slot: Slot) -> None:
        """Remove a slot, if it is there."""
        if slot not in self._slots:
            return
        self._slots.remove(slot)
        self._counts[slot.dataset] -= 1
        for day in self._days(slot):
            _remove(self._at, (slot.dataset, slot.member, day), slot)
            for path in ancestry(slot.member):
                _remove(self._at_or_below, (slot.dataset, path, day), slot)

    def overlapping(self, slot: Slot) -> list[Slot]:
        """The slots of the index that overlap a slot."""
        if not self._counts.get(slot.dataset):
            return []
        found = self._on_days(slot.dataset, slot.member, self._days(slot))
        return [other for other in found if other == slot or self._overlap(slot, other)]

    def near(self, slots: SlotRange) -> Iterable[Slot]:
        """The slots of the index that touch the days of a range, at related members. Some may overlap none of it."""
        name, member, grain, first, last, _ = slots
        if not self._counts.get(name):
            return ()
        begin, end = (self._days(Slot(name, member, grain, start)) for start in (first, last))
        return self._on_days(name, member, range(begin.start, end.stop))

    def _on_days(self, dataset: str, member: str, days: range) -> dict[Slot, None]:
        found: dict[Slot, None] = {}
        above = [path for path in ancestry(member) if path != member]
        for day in days:
            found |= self._at_or_below.get((dataset, member, day), {})
            for path in above:
                found |= self._at.get((dataset, path, day), {})
        return found

    def _overlap(self, one: Slot, other: Slot) -> bool:
        fewer, more = sorted((self._spans_of(one), self._spans_of(other)), key=len)
        for member, (first, last) in fewer.items():
            if (span := more.get(member)) is not None and first <= span[1] and span[0] <= last:
                return True
        return False

    def _spans_of(self, slot: Slot) -> Spans:
        if (found := self._spans.get(slot)) is None:
            if len(self._spans) >= _SPANS_KEPT:
                self._spans.clear()
            found = self._spans[slot] = spans(self._datasets[slot.dataset], slot)
        return found

    def _days(self, slot: Slot) -> range:
        """The UTC days that a slot touches. The only slot of a dataset without partitions has one place."""
        if slot.grain is Grain.WHOLE:
            return range(1)
        if slot.grain.seconds:
            begin, end = slot.start, slot.start + slot.grain.seconds
        else:
            begin, end = self._datasets[slot.dataset].window(slot)
        return range(begin // DAY_SECONDS, (end - 1) // DAY_SECONDS + 1)


def spans(dataset: Dataset, slot: Slot) -> Spans:
    """The base set of a slot. Raises SlotError if the slot does not exist."""
    return {member: (starts[0], starts[-1]) for member, starts in base_starts(dataset, slot) if starts}


def footprint(dataset: Dataset, slots: Iterable[Slot]) -> Footprint:
    """All slots of the dataset that overlap one of these.

    Takes time for members, grains and stretches of time, not for slots.

    >>> from datetime import date
    >>> ads = Dataset.flat("raw/ads", Grain.HOUR, first=date(2026, 1, 1))
    >>> {str(grain): len(starts) for (_, grain), starts in footprint(ads, [ads.slot("2026-11-27")]).items()}
    {'hour': 24, 'day': 1, 'week': 1, 'month': 1, 'quarter': 1}
    """
    by_member: dict[str, list[tuple[int, int]]] = {}
    for slot in slots:
        for path, span in spans(dataset, slot).items():
            by_member.setdefault(path, []).append(span)
    members = {member.path: member for member in dataset.hierarchy.members}
    found: dict[tuple[str, Grain], dict[Sequence[int], None]] = {}
    cut = _Cuts(dataset.base)
    for leaf, parts in by_member.items():
        joined = _joined(dataset.base, parts)
        for path in ancestry(leaf):
            phases = dataset.branch(path).phases
            for grain in dataset.grains:
                if not grain.seconds:
                    starts = cut.dates(members[leaf], grain, joined)
                elif grain in phases:
                    starts = cut.windows(grain, phases[grain], joined)
                else:
                    continue
                found.setdefault((path, grain), {}).update(starts)
    return {key: _merged([*starts]) for key, starts in found.items()}


class _Cuts:
    """The slots of a grain that have base slots of some spans. Each answer is worked out once for all members."""

    def __init__(self, base: Grain) -> None:
        self._base = base
        self._known: dict[tuple[object, ...], dict[Sequence[int], None]] = {}

    def windows(self, grain: Grain, phase: int, joined: tuple[tuple[int, int], ...]) -> dict[Sequence[int], None]:
        key = grain, phase, joined
        if key not in self._known:
            self._known[key] = dict.fromkeys(_windows(grain, phase, span) for span in joined)
        return self._known[key]

    def dates(self, member: Member, grain: Grain, joined: tuple[tuple[int, int], ...]) -> dict[Sequence[int], None]:
        dates = () if self._base.seconds else (member.first_day, member.last_day)
        key = grain, id(member.calendar.days), dates, joined
        if key not in self._known:
            self._known[key] = dict.fromkeys(_dates(self._base, member, grain, span) for span in joined)
        return self._known[key]


def _windows(grain: Grain, phase: int, span: tuple[int, int]) -> range:
    first, last = span
    return range(first - (first - phase) % grain.seconds, last + 1, grain.seconds)


def _dates(base: Grain, member: Member, grain: Grain, span: tuple[int, int]) -> Sequence[int]:
    """The starts of the slots of days or longer that have base slots of this span."""
    first, last = span
    if base.seconds:
        days = member.calendar.days
        return member_starts(member, grain, days.day_at(first), days.day_at(last))
    dates = member.dates_in(first, moved(base, last, 1) - 1)
    return member_starts(member, grain, *dates) if dates else ()


def _joined(base: Grain, parts: list[tuple[int, int]]) -> tuple[tuple[int, int], ...]:
    """The spans in order, of which those that continue each other are one."""
    parts.sort()
    joined = parts[:1]
    for first, last in parts[1:]:
        if first <= moved(base, joined[-1][1], 1):
            joined[-1] = joined[-1][0], max(joined[-1][1], last)
        else:
            joined.append((first, last))
    return tuple(joined)


def _merged(starts: list[Sequence[int]]) -> Sequence[int]:
    if len(starts) == 1:
        return starts[0]
    return sorted({start for each in starts for start in each})


def _remove(index: dict[tuple[str, str, int], dict[Slot, None]], key: tuple[str, str, int], slot: Slot) -> None:
    del index[key][slot]
    if not index[key]:
        del index[key]
