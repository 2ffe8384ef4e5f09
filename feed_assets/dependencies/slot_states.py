"""The states of a dataset's slots: which are complete, at which revision. Pure and in memory.

Not here: changes (`act`), the rule for one base slot (`completeness`), calendars (`windows`), storage (`kept_states`).

A roll-up is complete when its whole base set is. It counts: `balance` is one less for each complete base slot that
needs facts, and one more for each base slot that is due by time but not complete. So

    missing base slots = base slots that need facts + timed base slots not due yet + balance

where the first two come from the calendar, without looking at any base slot. Slots without facts have no state here.
"""

from __future__ import annotations

import heapq
import threading
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from operator import add
from typing import Any, Final, NamedTuple

from feed_assets.datasets.instants import DAY_SECONDS
from feed_assets.datasets.slots import Slot
from feed_assets.dependencies.completeness import FLAGS, NEVER, NO_FACTS, BaseFacts, Verdict, verdict
from feed_assets.dependencies.facts import Waiver
from feed_assets.dependencies.positions import size
from feed_assets.dependencies.rules import Basis, Declared
from feed_assets.dependencies.streams import NEW_STREAM, Lookup, StreamState, lost, uncovered
from feed_assets.dependencies.windows import Windows

BASES_KEPT: Final = 35 * DAY_SECONDS
"""How long the states of slots below an hour are kept after the end of their hour, in seconds."""
ANSWERS_KEPT: Final = 100_000
_NO_FLAGS: Final = (0,) * len(FLAGS)


class BaseState(NamedTuple):
    """A base slot. `revision` is 0 before the first completion.

    `content` is the revision whose content the last complete one has: an older one, if the content is equal.
    `accounted`, `expected` and `flags` are those of the newest verdict.
    """

    facts: BaseFacts = NO_FACTS
    revision: int = 0
    content: int = 0
    complete: bool = False
    accounted: int = 0
    expected: int | None = None
    flags: tuple[str, ...] = ()
    begun: int = NEVER


class Totals(NamedTuple):
    """Sums over the base slots of a roll-up that have facts. `flags` has a count for each of FLAGS."""

    accounted: int = 0
    expected: int = 0
    filled: int = 0
    flags: tuple[int, ...] = _NO_FLAGS

    def plus(self, other: Totals) -> Totals:
        """The sums of both."""
        flags = tuple(map(add, self.flags, other.flags))
        return Totals(
            self.accounted + other.accounted, self.expected + other.expected, self.filled + other.filled, flags
        )

    def negative(self) -> Totals:
        """What takes these sums back."""
        return Totals(-self.accounted, -self.expected, -self.filled, tuple(-each for each in self.flags))

    @property
    def is_zero_said(self) -> bool:
        """Whether somebody said that a base slot has no records: expected is 0, too, if nobody said anything."""
        found = zip(FLAGS, self.flags, strict=True)
        return any(count for flag, count in found if flag in {"empty", "over", "holiday"})

    def shown(self, basis: Basis) -> tuple[str, ...]:
        """The flags of a roll-up: those of any of its base slots; but `empty` only if all of them are."""
        empty = basis is not Basis.PUBLISHED and not self.filled
        found = zip(FLAGS, self.flags, strict=True)
        return tuple(flag for flag, count in found if (empty if flag == "empty" else count))


NO_TOTALS: Final = Totals()


class RollUp(NamedTuple):
    """A slot that contains base slots. `fresh`: some of it got new content since it was reopened.

    `folded` is the highest revision of the slots in it whose states were deleted, because they are old; 0: none was.
    `begun` is when a revision after the first began.
    """

    revision: int = 0
    content: int = 0
    complete: bool = False
    fresh: bool = False
    balance: int = 0
    totals: Totals = NO_TOTALS
    folded: int = 0
    begun: int = NEVER


State = BaseState | RollUp
UNTOUCHED_ROLL_UP: Final = RollUp()


@dataclass(slots=True)
class SlotStates:
    """What is known of a dataset's slots at the time `clock`. Streams are keyed by member and key."""

    windows: Windows
    clock: int = NEVER
    bases: dict[Slot, BaseState] = field(default_factory=dict)
    roll_ups: dict[Slot, RollUp] = field(default_factory=dict)
    streams: dict[tuple[str, str], StreamState] = field(default_factory=dict)
    waivers: dict[str, Waiver] = field(default_factory=dict)
    answers: dict[Slot, Any] = field(default_factory=dict)
    """Answers about slots that have not changed since, kept by whoever makes them."""
    version: int = 0
    """How often the states have changed."""
    _answering: threading.Lock = field(default_factory=threading.Lock)
    is_counted_anew: bool = False
    """Whether the declaration has changed since the states were stored: the next act decides about all of them."""
    _pending: list[tuple[int, Slot]] = field(default_factory=list)
    """When time may change a base slot with facts: a heap. A slot may be in it in vain."""
    _uncovered: dict[str, set[Slot]] = field(default_factory=dict)
    """For each member, the base slots whose verdict changes when more positions are covered."""

    @classmethod
    def of(cls, declared: Declared, since: Mapping[str, int] | None = None) -> SlotStates:
        """No facts yet. `since` has the first day of rules that were introduced later, by member."""
        return cls(Windows(declared, since))

    def base(self, slot: Slot) -> BaseState:
        """The state of a base slot, with facts or without."""
        return self.bases.get(slot) or self._without_facts(slot)

    def roll_up(self, slot: Slot) -> RollUp:
        """The state of a slot that is no base slot."""
        return self.roll_ups.get(slot) or self._untouched(slot)

    def stream(self, member: str) -> Lookup:
        """Looks up the streams of a member."""
        return lambda key: self.streams.get((member, key), NEW_STREAM)

    def missing(self, slot: Slot, balance: int) -> int:
        """How many base slots a roll-up of this balance lacks."""
        return self.windows.untimed(slot) + self.windows.not_due(slot, self.clock) + balance

    def next_check(self) -> int | None:
        """The next time at which a slot may become complete without a fact; None: never."""
        found = [self._pending[0][0]] if self._pending else []
        if (due := self.windows.next_due(self.clock)) is not None:
            found.append(due)
        return min(found, default=None)

    def is_due(self, clock: int) -> bool:
        """Whether the time `clock` or a new declaration may complete a slot."""
        at = self.next_check()
        return self.is_counted_anew or (at is not None and at <= clock)

    def verdict(self, slot: Slot, facts: BaseFacts, clock: int, lookup: Lookup | None = None) -> Verdict:
        """What the rule says of a base slot. `lookup` has other streams than those that are known."""
        windows, rule = self.windows, self.windows.rule_of(slot)
        waits = drops = 0
        if rule.basis is Basis.COVERED:
            find = lookup or self.stream(slot.member)
            waits, drops = uncovered(facts.ends, find), lost(facts.ends, facts.spans, find)
        end, holiday = windows.end(slot), windows.is_holiday(slot)
        return verdict(facts, rule, end=end, clock=clock, holiday=holiday, uncovered=waits, lost=drops)

    def install(
        self,
        clock: int,
        states: Iterable[tuple[Slot, State]],
        streams: Mapping[tuple[str, str], StreamState] | None = None,
        waivers: Mapping[str, Waiver] | None = None,
    ) -> None:
        """Take over what a transaction has stored, by this process or by another."""
        check_at = self.next_check() if self.answers else None
        everything = bool(waivers) or (check_at is not None and check_at <= clock)
        for key, stream in (streams or {}).items():
            everything = everything or size(stream.covered) < size(self.streams.get(key, NEW_STREAM).covered)
        self.streams.update(streams or {})
        self.waivers.update(waivers or {})
        bases: dict[Slot, BaseState] = {}
        roll_ups: dict[Slot, RollUp] = {}
        for slot, state in states:
            if isinstance(state, BaseState):
                bases[slot] = state
            else:
                roll_ups[slot] = state
        self.bases.update(bases)
        self.roll_ups.update(roll_ups)
        self.clock = max(clock, self.clock)
        waiting = [*bases]
        while self._pending and self._pending[0][0] <= self.clock:
            waiting.append(heapq.heappop(self._pending)[1])
        for slot in dict.fromkeys(waiting):
            if (at := self._check_at(slot)) is not None:
                heapq.heappush(self._pending, (at, slot))
        self._forget_answers(None if everything else [*bases, *roll_ups])
        for slot, each in bases.items():
            found = self._uncovered.setdefault(slot.member, set())
            waits = each.facts.ends and (not each.complete or each.accounted != each.expected)
            (found.add if waits else found.discard)(slot)

    def count_anew(self) -> None:
        """Count the base slots of all roll-ups by the present declaration. What is complete stays complete."""
        windows = self.windows
        added = [(slot, self.weight(slot, state, self.clock), totals_of(state)) for slot, state in self.bases.items()]
        for slot, each in self.roll_ups.items():
            if each.folded and windows.is_member(slot.member):
                added.append((slot, -windows.untimed(slot), each.totals))
        counts: dict[Slot, tuple[int, Totals]] = {}
        for slot, weight, totals in added:
            for above in (slot, *windows.ancestors(slot)):
                before, sums = counts.get(above, (0, NO_TOTALS))
                counts[above] = before + weight, sums.plus(totals)
        for slot, each in self.roll_ups.items():
            balance, totals = counts.get(slot, (0, NO_TOTALS))
            self.roll_ups[slot] = each._replace(balance=balance, totals=totals)
        self.is_counted_anew = True
        self._forget_answers(None)

    def weight(self, slot: Slot, state: BaseState, clock: int) -> int:
        """What a base slot adds to the balance of the roll-ups that have it."""
        if self.windows.is_timed(slot):
            return 1 if not state.complete and clock >= self.windows.due(slot) else 0
        return -1 if state.complete else 0

    def remember(self, slot: Slot, answer: Any, version: int) -> None:
        """Keep an answer that was made of the states of this version, unless they have changed since."""
        with self._answering:
            if len(self.answers) >= ANSWERS_KEPT:
                self.answers.clear()
            if version == self.version:
                self.answers[slot] = answer

    def _forget_answers(self, slots: Iterable[Slot] | None) -> None:
        """Drop the answers about slots that have changed; None: all."""
        with self._answering:
            self.version += 1
            if slots is None:
                self.answers.clear()
            for slot in slots or ():
                self.answers.pop(slot, None)

    def due_by(self, clock: int) -> list[Slot]:
        """The base slots with facts that time may complete by then."""
        return [slot for at, slot in self._pending if at <= clock]

    def uncovered(self, member: str) -> Iterable[Slot]:
        """The base slots of a member whose verdict changes when more positions are covered."""
        return self._uncovered.get(member, ())

    def to_fold(self, clock: int) -> tuple[dict[Slot, RollUp], list[Slot]]:
        """The slots that keep what is known of old slots below an hour, and these old slots, whose states may go.

        Only complete slots without an open backfill are folded: what is missing in others must stay known.
        """
        inside: dict[Slot, list[Slot]] = {}
        for slot in (*self.bases, *self.roll_ups):
            around = self.windows.fold_slot(slot)
            if around is not None and self.windows.end(around) + BASES_KEPT <= clock:
                inside.setdefault(around, []).append(slot)
        folded: dict[Slot, RollUp] = {}
        gone: list[Slot] = []
        for around, slots in inside.items():
            roll_up = self.roll_up(around)
            if roll_up.complete:
                revisions = [(self.bases.get(slot) or self.roll_ups[slot]).revision for slot in slots]
                folded[around] = roll_up._replace(folded=max(roll_up.folded, *revisions))
                gone += slots
        return folded, gone

    def is_folded(self, slot: Slot) -> bool:
        """Whether the state of a slot was deleted, because it is old."""
        return slot not in self.bases and slot not in self.roll_ups and self._fold(slot) > 0

    def _check_at(self, slot: Slot) -> int | None:
        """When time may complete a base slot with facts, or makes it a missing one of its roll-ups; None: never."""
        state = self.bases[slot]
        if self.windows.is_timed(slot) and self.clock < (due := self.windows.due(slot)):
            return due
        return None if state.complete else self.verdict(slot, state.facts, self.clock).check_at

    def _fold(self, slot: Slot) -> int:
        """The highest revision of the deleted states around a slot; 0: they are not deleted."""
        found = self.roll_ups.get(self.windows.fold_slot(slot) or slot)
        return found.folded if found else 0

    def _without_facts(self, slot: Slot) -> BaseState:
        if revision := self._fold(slot):
            return BaseState(revision=revision, content=revision, complete=True, flags=("folded",))
        if self.windows.is_timed(slot) and self.clock >= self.windows.due(slot):
            flags = self.verdict(slot, NO_FACTS, self.clock).flags
            return BaseState(revision=1, content=1, complete=True, flags=flags)
        return BaseState()

    def _untouched(self, slot: Slot) -> RollUp:
        if revision := self._fold(slot):
            return RollUp(revision=revision, content=revision, complete=True)
        if self.windows.untimed(slot) or self.clock < self.windows.due(slot):
            return UNTOUCHED_ROLL_UP
        return RollUp(revision=1, content=1, complete=True)


def totals_of(state: BaseState) -> Totals:
    """What a base slot adds to the totals of the roll-ups that have it."""
    flags = tuple(1 if flag in state.flags else 0 for flag in FLAGS) if state.flags else _NO_FLAGS
    return Totals(state.accounted, state.expected or 0, 1 if state.facts.files or state.accounted else 0, flags)
