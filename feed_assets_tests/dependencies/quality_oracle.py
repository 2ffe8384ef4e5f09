"""Quality by brute force, straight from its definition, and a small world of revisions to compare it in.

Here: a world that raises revisions as reopenings do; a judge that walks over all slots, revisions and computations for
each answer; and the comparison with `SlotQuality`. Not here: which histories are compared (`quality_histories`, tests).

The definition. Slots overlap if their base sets share a slot. A revision is as it was when it ended; the present one as
it is now. It is bad by the marks on overlapping revisions that were in force with it, and by those of all revisions
that overlapping revisions in force with it were computed from.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from feed_assets.datasets.containment import base_set
from feed_assets.datasets.dataset import Dataset
from feed_assets.datasets.members import ancestry
from feed_assets.datasets.slots import Slot
from feed_assets.dependencies.quality.events import Change, Kind
from feed_assets.dependencies.quality.marks import (
    CheckResult,
    Computation,
    Mark,
    QualityState,
    SlotRevision,
)
from feed_assets.dependencies.quality.overlaps import footprint
from feed_assets.dependencies.quality.slot_quality import SlotQuality


@dataclass(frozen=True)
class Universe:
    """The slots that histories use: some base slots, and all slots that overlap them."""

    datasets: Mapping[str, Dataset]
    slots: tuple[Slot, ...]
    base: Mapping[Slot, frozenset[Slot]]
    """The base sets, of the base slots that the universe has."""
    whole: Mapping[Slot, frozenset[Slot]]
    """The base sets, with base slots that the universe has not."""
    overlapping: Mapping[Slot, tuple[Slot, ...]]

    @classmethod
    def of(cls, datasets: Iterable[Dataset], base_slots: Iterable[Slot]) -> Universe:
        by_name = {dataset.name: dataset for dataset in datasets}
        chosen = [*base_slots]
        slots: list[Slot] = []
        for name, dataset in by_name.items():
            print_of = footprint(dataset, [slot for slot in chosen if slot.dataset == name])
            slots += [
                Slot(name, member, grain, start) for (member, grain), starts in print_of.items() for start in starts
            ]
        whole = {slot: frozenset(base_set(by_name[slot.dataset], slot)) for slot in slots}
        base = {slot: whole[slot] & frozenset(chosen) for slot in slots}
        there = [slot for slot in slots if base[slot]]
        overlapping = {slot: tuple(each for each in there if not whole[slot].isdisjoint(whole[each])) for slot in there}
        return cls(by_name, tuple(there), base, whole, overlapping)


@dataclass
class World:
    """Revisions as the definition has them: a reopening raises base slots, and roll-ups that were complete."""

    universe: Universe
    revisions: dict[Slot, int] = field(default_factory=dict)
    incomplete: frozenset[Slot] = frozenset()
    same: dict[SlotRevision, int] = field(default_factory=dict)
    """Revisions with the content of an earlier one."""
    moments: list[dict[Slot, int]] = field(default_factory=list)
    """All revisions after each reopening, from the beginning."""
    last_act: tuple[SlotRevision, ...] = ()
    never: frozenset[Slot] = frozenset()
    """Slots that were never complete."""

    def __post_init__(self) -> None:
        if not self.moments:
            self.revisions = dict.fromkeys(self.universe.slots, 1)
            self.moments = [dict(self.revisions)]

    def begin_without(self, base_slot: Slot) -> None:
        """Let a base slot be incomplete from the beginning."""
        self.never = self.incomplete = frozenset(self.universe.overlapping[base_slot])

    def revision_of(self, slot: Slot) -> int:
        return 0 if slot in self.never else self.revisions.get(slot, 1)

    def present(self, slot: Slot) -> SlotRevision:
        return SlotRevision(slot, self.revisions.get(slot, 1))

    def reopen(self, slot: Slot) -> list[SlotRevision]:
        """Reopen a base set. Returns the revisions that ended."""
        fresh = self.universe.base[slot] - self.incomplete
        touched = {other for base in fresh for other in self.universe.overlapping[base]}
        ended = [SlotRevision(each, self.revisions[each]) for each in sorted(touched - self.incomplete)]
        for each, revision in ended:
            self.revisions[each] = revision + 1
        self.incomplete |= touched
        self.moments.append(dict(self.revisions))
        self.last_act = tuple(ended)
        return ended

    def complete(self, slot: Slot) -> None:
        """The base set of a slot is complete; roll-ups whose base sets are, too."""
        still = {
            base for base in self.incomplete if len(self.universe.base[base]) == 1 and base in self.universe.base[base]
        }
        still -= self.universe.base[slot]
        self.incomplete = frozenset(each for each in self.incomplete if self.universe.base[each] & still)
        self.never &= self.incomplete
        self.last_act = ()

    def abandon(self) -> list[SlotRevision]:
        """The last act of reopening changed nothing after all. Returns the revisions that are in force again."""
        ended = [*self.last_act]
        for slot, revision in ended:
            self.same[SlotRevision(slot, revision + 1)] = revision
        self.incomplete -= {slot for slot, _ in ended}
        self.last_act = ()
        return ended

    def first_same(self, on: SlotRevision) -> int:
        slot, revision = on
        while self.same and SlotRevision(slot, revision) in self.same:
            revision = self.same[SlotRevision(slot, revision)]
        return revision


@dataclass
class Judge:
    """Answers by the definition. `marks` are those that are not removed."""

    world: World
    marks: list[Mark] = field(default_factory=list)
    computations: dict[SlotRevision, Computation] = field(default_factory=dict)
    results: list[CheckResult] = field(default_factory=list)
    _known: dict[tuple[str, SlotRevision], Any] = field(default_factory=dict)

    def look_again(self) -> None:
        """Forget answers, because facts have changed."""
        self._known.clear()

    def once(self, name: str, on: SlotRevision) -> Any:
        """An answer that is worked out once."""
        key = name, on
        if key not in self._known:
            self._known[key] = getattr(self, f"_{name}")(on)
        return self._known[key]

    def is_same(self, one: SlotRevision, other: SlotRevision) -> bool:
        return one.slot == other.slot and self.world.first_same(one) == self.world.first_same(other)

    def beside(self, on: SlotRevision) -> dict[Slot, SlotRevision]:
        return self.once("beside", on)

    def _beside(self, on: SlotRevision) -> dict[Slot, SlotRevision]:
        """The revisions of all overlapping slots when a revision ended, or now."""
        revision = self.world.first_same(on)
        moment = next(
            each
            for each in reversed(self.world.moments)
            if self.world.first_same(SlotRevision(on.slot, each[on.slot])) == revision
        )
        return {other: SlotRevision(other, moment[other]) for other in self.world.universe.overlapping[on.slot]}

    def carried(self, on: SlotRevision) -> set[str]:
        return self.once("carried", on)

    def _carried(self, on: SlotRevision) -> set[str]:
        """The marks on a revision, and those of what it was computed from."""
        found: set[str] = set()
        seen: set[SlotRevision] = set()
        waiting = [on]
        while waiting:
            each = waiting.pop()
            if each in seen:
                continue
            seen.add(each)
            found |= {mark.id for mark in self.marks if self.is_same(mark.on, each)}
            for output, computation in self.computations.items():
                if self.is_same(output, each):
                    for read in computation.inputs:
                        waiting += self.beside(read).values()
        return found

    def effective(self, on: SlotRevision) -> set[str]:
        return self.once("effective", on)

    def _effective(self, on: SlotRevision) -> set[str]:
        return set().union(*(self.carried(other) for other in self.beside(on).values()))

    def passed_own(self, on: SlotRevision) -> bool:
        results = {each.check: each.passed for each in self.results if self.is_same(each.on, on)}
        return bool(results) and all(results.values())

    def passed(self, on: SlotRevision) -> bool:
        return self.once("passed", on)

    def _passed(self, on: SlotRevision) -> bool:
        if self.passed_own(on):
            return True
        there = [
            other
            for other, revision in self.beside(on).items()
            if on.slot.member in ancestry(other.member)
            and other.grain.divides(on.slot.grain)
            and self.passed_own(revision)
        ]
        covered = set().union(*(self.world.universe.whole[other] for other in there))
        return self.world.universe.whole[on.slot] <= covered

    def left_behind(self, on: SlotRevision) -> set[str]:
        return self.once("left_behind", on)

    def _left_behind(self, on: SlotRevision) -> set[str]:
        found: set[str] = set()
        for other, newest in self.beside(on).items():
            for number in range(1, newest.revision):
                then = SlotRevision(other, number)
                if not self.is_same(then, newest) and not self.checked_since(on, then, newest):
                    found |= self.carried(then)
        return found

    def checked_since(self, on: SlotRevision, then: SlotRevision, newest: SlotRevision) -> bool:
        marked_since = [SlotRevision(then.slot, each) for each in range(then.revision + 1, newest.revision + 1)]
        own_since = [
            each
            for number in range(1, on.revision + 1)
            for each in [SlotRevision(on.slot, number)]
            if self.world.first_same(self.beside(each)[then.slot]) > self.world.first_same(then)
        ]
        return any(self.passed(each) for each in [*own_since, *marked_since] if not self.is_same(each, then))

    def state(self, on: SlotRevision) -> QualityState:
        if self.effective(on):
            return QualityState.BAD
        if self.left_behind(on):
            return QualityState.BACKFILLED
        return QualityState.PASSED if self.passed(on) else QualityState.UNCHECKED

    def consumers(self, on: SlotRevision) -> set[tuple[SlotRevision, SlotRevision]]:
        near = self.world.universe.overlapping[on.slot]
        return {
            (computation.output, read)
            for computation in self.computations.values()
            for read in computation.inputs
            if read.slot in near and self.is_same(self.beside(read)[on.slot], on)
        }


@dataclass
class Follower:
    """A subscriber that knows the marks of each slot by events alone."""

    marks: dict[Slot, frozenset[str]] = field(default_factory=dict)

    def follow(self, universe: Universe, change: Change) -> None:
        seen = set()
        for event in change.events:
            key = event.kind, event.subject, event.slots[:3]
            assert key not in seen, f"two events for {key}"
            seen.add(key)
            if event.kind not in {Kind.MARKED, Kind.UNMARKED}:
                continue
            dataset, member, grain, first, last, _ = event.slots
            parts = event.parts or [(first, last)]
            for slot in universe.slots:
                if slot[:3] == (dataset, member, grain) and any(one <= slot.start <= other for one, other in parts):
                    had = self.marks.get(slot, frozenset())
                    assert (event.subject in had) == (event.kind is Kind.UNMARKED), f"{event} for {slot}, marks {had}"
                    self.marks[slot] = had ^ {event.subject}


def compare(quality: SlotQuality, judge: Judge, follower: Follower | None = None) -> None:
    """Assert that all answers agree, for each slot and each of its revisions."""
    world = judge.world
    judge.look_again()
    for slot in world.universe.slots:
        present = world.present(slot)
        answer = quality.answer(slot)
        expected = judge.effective(present)
        assert {mark.id for mark in answer.marks} == expected, f"marks of {slot}"
        assert {mark.id for mark in answer.left_behind} == judge.left_behind(present), f"left behind of {slot}"
        assert answer.state is judge.state(present), f"state of {slot}"
        if expected:
            assert {path.mark.id for path in quality.why_bad(slot)} == expected
        if follower is not None:
            assert follower.marks.get(slot, frozenset()) == expected, f"events about {slot}"
        for revision in range(1, present.revision + 1):
            on = SlotRevision(slot, revision)
            assert {mark.id for mark in quality.effective(on)} == judge.effective(on), f"marks of {on}"
            assert set(quality.consumers(*on)) == judge.consumers(on), f"consumers of {on}"
