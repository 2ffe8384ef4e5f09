"""Which revisions of slots were computed from which, and how far each mark reaches over them.

Here: the graph of computations, who consumed a slot, and the reach of each mark. Not here: commands, states and events
(`quality`).

A revision is bad by a mark if a revision with the mark overlaps it and was in force with it, or if it was computed from
a revision that is bad by the mark; so on from there. The reach of a mark has the revisions that carry it: the marked
one, and those that were computed from bad ones. What overlaps them is found when somebody asks.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple, TypeAlias

from feed_assets.datasets.dataset import Dataset
from feed_assets.datasets.slots import Slot
from feed_assets.dependencies.quality.marks import Computation, SlotRange, SlotRevision
from feed_assets.dependencies.quality.overlaps import SlotIndex
from feed_assets.dependencies.quality.revision_history import RevisionHistory


class Step(NamedTuple):
    """Why a mark reaches an output: it read `read`, which overlaps `carrier`, which carries the mark."""

    read: SlotRevision
    carrier: SlotRevision


class Consumption(NamedTuple):
    """An output was computed from an input."""

    output: SlotRevision
    read: SlotRevision


Reach: TypeAlias = dict[SlotRevision, Step | None]
"""The revisions that carry a mark, each with the step before; None for the marked one."""


class Lineage:
    """The computations and the reaches of marks in the retention. Its memory is that of both."""

    def __init__(self, datasets: Mapping[str, Dataset], history: RevisionHistory) -> None:
        self._datasets = datasets
        self._history = history
        self._computations: dict[SlotRevision, Computation] = {}
        self._readers: dict[Slot, dict[int, dict[SlotRevision, None]]] = {}
        self._read = SlotIndex(datasets)
        self._reaches: dict[str, Reach] = {}
        self._carried: dict[Slot, dict[int, set[str]]] = {}
        self._carriers = SlotIndex(datasets)

    @property
    def computations(self) -> Mapping[SlotRevision, Computation]:
        """The newest computation of each revision, by output."""
        return self._computations

    def computed(self, computation: Computation) -> None:
        """Take a computation. Reaches do not follow: `extend` or `spread` them."""
        output = computation.output
        self.forget(output)
        self._computations[output] = computation
        for read in computation.inputs:
            self._read.add(read.slot)
            self._readers.setdefault(read.slot, {}).setdefault(read.revision, {})[output] = None

    def forget(self, output: SlotRevision) -> None:
        """Drop the computation of a revision, if there is one."""
        computation = self._computations.pop(output, None)
        for slot, revision in computation.inputs if computation else ():
            readers = self._readers.get(slot, {})
            readers.get(revision, {}).pop(output, None)
            if not readers.get(revision, True):
                del readers[revision]
            if slot in self._readers and not readers:
                del self._readers[slot]
                self._read.discard(slot)

    def consumers(self, slot: Slot, revision: int | None = None) -> Iterator[Consumption]:
        """Who read a revision of a slot, or of a slot that overlaps it in the same revision; None: any revision."""
        wanted = None if revision is None else self._history.same(slot, revision)
        for read in self._read.overlapping(slot):
            for number, outputs in self._readers[read].items():
                ended = self._history.ended_at(read, number) if wanted is not None else None
                if wanted is None or self._history.before(slot, ended) == wanted:
                    yield from (Consumption(output, SlotRevision(read, number)) for output in outputs)

    def spread(self, mark: str, on: SlotRevision) -> None:
        """Compute the reach of a mark anew."""
        self.withdraw(mark)
        self._reaches[mark] = {}
        self._carry(mark, on, None)

    def extend(self, computation: Computation) -> None:
        """Extend the reach of marks by an output that carried none before this computation."""
        steps: dict[str, Step] = {}
        for read in computation.inputs:
            for mark, carrier in self.marks_with_carriers(*read):
                steps.setdefault(mark, Step(read, carrier))
        for mark, step in steps.items():
            self._carry(mark, computation.output, step)

    def _carry(self, mark: str, first: SlotRevision, step: Step | None) -> None:
        """Let a revision carry a mark, and all that is computed from it."""
        reach = self._reaches[mark]
        if first in reach:
            return
        reach[first] = step
        waiting = [first]
        for carrier in waiting:
            slot, revision = carrier
            self._carriers.add(slot)
            self._carried.setdefault(slot, {}).setdefault(revision, set()).add(mark)
            for output, read in self.consumers(slot, revision):
                if output not in reach:
                    reach[output] = Step(read, carrier)
                    waiting.append(output)

    def withdraw(self, mark: str) -> None:
        """Drop the reach of a mark, if it has one."""
        for slot, revision in self._reaches.pop(mark, {}):
            carried = self._carried[slot]
            carried[revision].discard(mark)
            if not carried[revision]:
                del carried[revision]
            if not carried:
                del self._carried[slot]
                self._carriers.discard(slot)

    def reach(self, mark: str) -> Reach:
        """The revisions that carry a mark; empty for an unknown or removed mark."""
        return self._reaches.get(mark, {})

    def carried_by(self, on: SlotRevision) -> set[str]:
        """The marks that a revision carries itself."""
        return set(self._carried.get(on.slot, {}).get(on.revision, ()))

    def marks_of(self, slot: Slot, revision: int) -> set[str]:
        """The effective marks of a revision."""
        return {mark for mark, _ in self.marks_with_carriers(slot, revision)}

    def marks_with_carriers(self, slot: Slot, revision: int) -> Iterator[tuple[str, SlotRevision]]:
        """The effective marks of a revision, each with the overlapping revisions that carry it."""
        carriers = self._carriers.overlapping(slot)
        if not carriers:
            return
        ended = self._history.ended_at(slot, revision)
        for carrier in carriers:
            wanted = self._history.before(carrier, ended)
            for number, marks in self._carried[carrier].items():
                if self._history.same(carrier, number) == wanted:
                    for mark in marks:
                        yield mark, SlotRevision(carrier, number)

    def carriers(self, slot: Slot) -> Iterator[tuple[SlotRevision, set[str]]]:
        """All revisions of overlapping slots that carry marks, in force now or in the past."""
        for carrier in self._carriers.overlapping(slot):
            for number, marks in self._carried[carrier].items():
                yield SlotRevision(carrier, number), marks

    def path(self, mark: str, carrier: SlotRevision) -> list[SlotRevision]:
        """How a mark came to a revision that carries it: this one, what it read, and so on to the marked one."""
        reach = self._reaches[mark]
        found = [carrier]
        while (step := reach[carrier]) is not None:
            found += step
            carrier = step.carrier
        return [*dict.fromkeys(found)]  # what was read may be the carrier itself

    def near(self, slots: SlotRange) -> set[str]:
        """The marks that revisions carry whose slots touch the days of a range, at related members. Perhaps more."""
        carriers = self._carriers.near(slots)
        return {mark for slot in carriers for marks in self._carried[slot].values() for mark in marks}
