"""Which revisions of slots were in force together.

Here: the reopenings that ended revisions, and what they say about the past. Not here: when a revision ends
(`slot_states`), and what a mark on a revision means (`quality`).

A revision is as it was when it ended; the present one as it is now. So a mark on an hour counts for a revision of its
day if the hour was at the marked revision when that revision of the day ended.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from feed_assets.datasets.grains import Grain, moved
from feed_assets.datasets.slots import Slot
from feed_assets.dependencies.quality.marks import Ended, SlotRange, SlotRevision


class Revisions(Protocol):
    """What decides on revisions, as quality needs it."""

    def revision_of(self, slot: Slot) -> int:
        """The present revision of a slot; 0 if it was never complete."""
        ...


class RevisionHistory:
    """The reopenings of the retention, over the present revisions. Its memory is that of ranges, not of slots."""

    def __init__(self, revisions: Revisions) -> None:
        self._revisions = revisions
        self._ended: dict[tuple[str, str, Grain], dict[int, list[Ended]]] = {}
        self._has_equal = False

    def add(self, ended: Ended) -> None:
        """Take a reopening. They come in any order; the same one again changes nothing."""
        name, member, grain, first, last, _ = ended.slots
        by_start = self._ended.setdefault((name, member, grain), {})
        for place in range(_place(grain, first), _place(grain, last) + 1):
            found = by_start.setdefault(place, [])
            if ended not in found:
                found.append(ended)
                found.sort(key=lambda each: (each.sequence, each.equal))
        self._has_equal |= ended.equal

    def current(self, slot: Slot) -> int:
        """The present revision. The first one counts from its making on, so it is never 0."""
        return self.same(slot, self._revisions.revision_of(slot) or 1)

    def same(self, slot: Slot, revision: int) -> int:
        """The oldest revision with the same content, by which all of them are known."""
        if not self._has_equal:
            return revision
        endings = self._endings(slot)
        while revision > 1 and (before := endings.get(revision - 1)) is not None and before.equal:
            revision -= 1
        return revision

    def ended_at(self, slot: Slot, revision: int) -> int | None:
        """The sequence of the reopening that ended a revision, and all with its content; None for the present one."""
        ends = (each.sequence for number, each in self._endings(slot).items() if number >= revision and not each.equal)
        return min(ends, default=None)

    def before(self, slot: Slot, sequence: int | None) -> int:
        """The revision of a slot just before a reopening of any slot; None: now."""
        if sequence is not None:
            after = [each for each in self._endings(slot).values() if each.sequence >= sequence and not each.equal]
            if after:
                return self.same(slot, min(after, key=lambda each: each.sequence).revision)
        return self.current(slot)

    def _endings(self, slot: Slot) -> dict[int, Ended]:
        """The newest reopening that ended each revision of a slot."""
        by_start = self._ended.get((slot.dataset, slot.member, slot.grain))
        if not by_start:
            return {}
        found = by_start.get(_place(slot.grain, slot.start), ())
        return {each.revision: each for each in found if each.slots.first <= slot.start <= each.slots.last}


def ended_ranges(ended: Iterable[SlotRevision], sequence: int, *, equal: bool = False) -> list[Ended]:
    """The revisions that one act ended, as ranges without gaps."""
    ranges: list[Ended] = []
    for (name, member, grain, start), revision in sorted(
        set(ended), key=lambda each: (each.slot[:3], each[1], each[0])
    ):
        slots = SlotRange(name, member, grain, start, start, 1)
        if ranges:
            last = ranges[-1]
            continued = last.slots[:3] == slots[:3] and last.revision == revision
            if continued and moved(grain, last.slots.last, 1) == start:
                ranges[-1] = Ended(last.slots._replace(last=start, size=last.slots.size + 1), revision, sequence, equal)
                continue
        ranges.append(Ended(slots, revision, sequence, equal))
    return ranges


def _place(grain: Grain, start: int) -> int:
    """Where reopenings that touch a slot are listed: a day for windows, a month or so for longer slots."""
    return start // 86_400 if grain.seconds else start // 32
