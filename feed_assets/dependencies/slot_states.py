"""The states of a dataset's slots: which are complete, at which revision; and what changes with new facts.

Pure and in memory: `SlotStates` is what is known, `Act` is one transaction's worth of changes to it. Not here: the rule
for one base slot (`completeness`), calendars (`windows`), storage (`tables`, `service`).

A roll-up is complete when its whole base set is. It counts: `balance` is one less for each complete base slot that
needs facts, and one more for each base slot that is due by time but not complete. So

    missing base slots = base slots that need facts + timed base slots not due yet + balance

where the first two come from the calendar, without looking at any base slot. Slots without facts have no state here.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from operator import add
from typing import Final, NamedTuple

from feed_assets.datasets.grains import moved
from feed_assets.datasets.members import depth
from feed_assets.datasets.slots import Slot
from feed_assets.dependencies.completeness import FLAGS, NEVER, NO_FACTS, BaseFacts, Verdict, verdict
from feed_assets.dependencies.rules import Basis, Declared
from feed_assets.dependencies.windows import Windows

_NO_FLAGS: Final = (0,) * len(FLAGS)

COMPLETED: Final = "completed"
REOPENED: Final = "reopened"


class BaseState(NamedTuple):
    """A base slot. `revision` is 0 before the first completion.

    `content` is the revision whose content the last complete one has: an older one, if the content is equal. `begun` is
    when a revision after the first began.
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


class RollUp(NamedTuple):
    """A slot that contains base slots. `fresh`: some of it got new content since it was reopened."""

    revision: int = 0
    content: int = 0
    complete: bool = False
    fresh: bool = False
    balance: int = 0
    totals: Totals = Totals()
    begun: int = NEVER


State = BaseState | RollUp
UNTOUCHED_ROLL_UP: Final = RollUp()


@dataclass(frozen=True, slots=True)
class Change:
    """One event: slots of one member and grain that were completed or reopened, from `first` to `last`.

    Several slots are in one change only where time alone completed them, or one act reopened them.
    """

    kind: str
    first: Slot
    last: Slot
    count: int
    revision: int
    basis: Basis
    flags: tuple[str, ...] = ()
    reason: str = ""
    equal_to: int = 0
    accounted: int = 0
    expected: int | None = None


@dataclass(slots=True)
class SlotStates:
    """What is known of a dataset's slots at the time `clock`."""

    windows: Windows
    clock: int = NEVER
    bases: dict[Slot, BaseState] = field(default_factory=dict)
    roll_ups: dict[Slot, RollUp] = field(default_factory=dict)
    _pending: list[tuple[int, Slot]] = field(default_factory=list)
    """When time may change a base slot with facts: a heap. A slot may be in it in vain."""

    @classmethod
    def of(cls, declared: Declared) -> SlotStates:
        """No facts yet."""
        return cls(Windows(declared))

    def base(self, slot: Slot) -> BaseState:
        """The state of a base slot, with facts or without."""
        return self.bases.get(slot) or self._without_facts(slot)

    def roll_up(self, slot: Slot) -> RollUp:
        """The state of a slot that is no base slot."""
        return self.roll_ups.get(slot) or self._untouched(slot)

    def missing(self, slot: Slot, balance: int) -> int:
        """How many base slots a roll-up of this balance lacks."""
        return self.windows.untimed(slot) + self.windows.not_due(slot, self.clock) + balance

    def next_check(self) -> int | None:
        """The next time at which a slot may become complete without a fact; None: never."""
        found = [self._pending[0][0]] if self._pending else []
        if (due := self.windows.next_due(self.clock)) is not None:
            found.append(due)
        return min(found, default=None)

    def verdict(self, slot: Slot, facts: BaseFacts, clock: int) -> Verdict:
        """What the rule says of a base slot."""
        windows = self.windows
        end, holiday = windows.end(slot), windows.is_holiday(slot)
        return verdict(facts, windows.rule_of(slot.member), end=end, clock=clock, holiday=holiday)

    def install(self, clock: int, states: Iterable[tuple[Slot, State]]) -> None:
        """Take over what a transaction has stored, by this process or by another."""
        bases = {slot: state for slot, state in states if isinstance(state, BaseState)}
        roll_ups = {slot: state for slot, state in states if isinstance(state, RollUp)}
        self.bases.update(bases)
        self.roll_ups.update(roll_ups)
        self.clock = max(clock, self.clock)
        waiting = [*bases]
        while self._pending and self._pending[0][0] <= self.clock:
            waiting.append(heapq.heappop(self._pending)[1])
        for slot in dict.fromkeys(waiting):
            if (at := self._check_at(slot)) is not None:
                heapq.heappush(self._pending, (at, slot))

    def due_by(self, clock: int) -> list[Slot]:
        """The base slots with facts that time may complete by then."""
        return [slot for at, slot in self._pending if at <= clock]

    def _check_at(self, slot: Slot) -> int | None:
        """When time may complete a base slot with facts, or makes it a missing one of its roll-ups; None: never."""
        state = self.bases[slot]
        if self.windows.is_timed(slot.member) and self.clock < (due := self.windows.due(slot)):
            return due
        return None if state.complete else self.verdict(slot, state.facts, self.clock).check_at

    def _without_facts(self, slot: Slot) -> BaseState:
        if self.windows.is_timed(slot.member) and self.clock >= self.windows.due(slot):
            flags = self.verdict(slot, NO_FACTS, self.clock).flags
            return BaseState(revision=1, content=1, complete=True, flags=flags)
        return BaseState()

    def _untouched(self, slot: Slot) -> RollUp:
        if self.windows.untimed(slot) or self.clock < self.windows.due(slot):
            return UNTOUCHED_ROLL_UP
        return RollUp(revision=1, content=1, complete=True)


class Act:
    """One transaction's changes to a dataset's states. The states stay as they are until `SlotStates.install`.

    First the facts and reopenings, then `finish` once.
    """

    def __init__(self, states: SlotStates, now: int) -> None:
        self.known = states
        self.windows = states.windows
        self.clock = max(now, states.clock)
        self.bases: dict[Slot, BaseState] = {}
        self.roll_ups: dict[Slot, RollUp] = {}
        self.changes: list[Change] = []
        self._reopened: dict[Slot, str] = {}
        self._equal: set[Slot] = set()

    @property
    def states(self) -> Mapping[Slot, State]:
        """The states to store and install."""
        return {**self.bases, **self.roll_ups}

    @property
    def is_news(self) -> bool:
        """Whether there is anything to store."""
        return bool(self.bases or self.roll_ups or self.changes)

    def base(self, slot: Slot) -> BaseState:
        """The state of a base slot, as changed so far."""
        return self.bases.get(slot) or self.known.base(slot)

    def facts(self, slot: Slot) -> BaseFacts:
        """The facts about a base slot, as changed so far."""
        return self.base(slot).facts

    def set_facts(self, slot: Slot, facts: BaseFacts) -> None:
        """Change the facts about a base slot."""
        state = self.base(slot)
        if state.facts != facts or slot in self.bases:
            self.bases[slot] = state._replace(facts=facts)

    def reopen(self, slot: Slot, reason: str) -> None:
        """Raise the revision of a base slot, if it is complete."""
        self.bases[slot] = self.base(slot)
        self._reopened.setdefault(slot, reason)

    def keep_content(self, slot: Slot) -> None:
        """Say that the content of a base slot is that of its last complete revision."""
        self._equal.add(slot)

    def finish(self) -> None:
        """Decide what is complete now, and note the changes."""
        due = [*self.known.due_by(self.clock), *self.windows.holidays_ended(self.known.clock, self.clock)]
        for slot in due:
            self.bases.setdefault(slot, self.known.base(slot))
        verdicts = {slot: self.known.verdict(slot, state.facts, self.clock) for slot, state in self.bases.items()}
        lost = self._fall(verdicts)
        self._rise(verdicts)
        self.changes = [*lost, *self.changes]
        self._pass_time()
        self._drop_unchanged()

    def _fall(self, verdicts: Mapping[Slot, Verdict]) -> list[Change]:
        """Reopen base slots whose rule fails or that are to be reopened, and the roll-ups that have them."""
        fallen: dict[Slot, str] = {}
        for slot, state in self.bases.items():
            if not state.complete:
                continue
            reason = self._reopened.get(slot)
            if reason is None and not verdicts[slot].complete and not self.windows.is_timed(slot.member):
                reason = f"{slot} is no longer complete"
            if reason is not None:
                fallen[slot] = reason
        for slot, reason in [*fallen.items()]:
            state = self.bases[slot]
            facts = state.facts._replace(late=0, late_parts=0, revised=state.facts.content)
            self.bases[slot] = state._replace(
                facts=facts, complete=False, revision=state.revision + 1, begun=self.clock
            )
            for above in self.windows.ancestors(slot):
                roll_up = self._roll_up(above)
                if roll_up.complete:
                    fallen[above] = reason
                    revision = roll_up.revision + 1
                    fell = roll_up._replace(complete=False, revision=revision, fresh=False, begun=self.clock)
                    self.roll_ups[above] = fell
        return self._ranges(fallen)

    def _rise(self, verdicts: Mapping[Slot, Verdict]) -> None:
        """Complete base slots whose rule holds, and the roll-ups whose last base slot it was."""
        touched: dict[Slot, list[tuple[int, Totals, bool]]] = {}
        for slot, state in sorted(self.bases.items()):
            new = self._judged(slot, state, verdicts[slot])
            self.bases[slot] = new
            known = self.known.base(slot)
            timed = self.windows.is_timed(slot.member)
            before = self._weight(known, timed=timed, due=timed and self.known.clock >= self.windows.due(slot))
            after = self._weight(new, timed=timed, due=timed and self.clock >= self.windows.due(slot))
            was = _totals(known) if slot in self.known.bases else Totals()
            risen = new.complete and (not known.complete or new.revision != known.revision)
            difference = (after - before, _minus(_totals(new), was), risen and new.content == new.revision)
            for above in self.windows.ancestors(slot):
                touched.setdefault(above, []).append(difference)
        order = self.windows.dataset.grains.index
        for above in sorted(touched, key=lambda each: (order(each.grain), -depth(each.member), each)):
            roll_up = self._roll_up(above)
            for weight, totals, fresh in touched[above]:
                roll_up = roll_up._replace(
                    balance=roll_up.balance + weight,
                    totals=_plus(roll_up.totals, totals),
                    fresh=roll_up.fresh or (fresh and not roll_up.complete),
                )
            self.roll_ups[above] = self._settled(above, roll_up)

    def _judged(self, slot: Slot, state: BaseState, found: Verdict) -> BaseState:
        """A base slot after its verdict; notes its completion."""
        shown = state._replace(accounted=found.accounted, expected=found.expected, flags=found.flags)
        if state.complete or not found.complete:
            return shown
        revision = max(state.revision, 1)
        content = state.content if slot in self._equal and state.content else revision
        if not state.revision:
            shown = shown._replace(facts=shown.facts._replace(revised=shown.facts.content))
        done = shown._replace(complete=True, revision=revision, content=content)
        self._completed(slot, revision, content, found.flags, found.accounted, found.expected)
        return done

    def _settled(self, slot: Slot, roll_up: RollUp) -> RollUp:
        """A roll-up after its counters changed; notes its completion."""
        missing = (
            self.windows.untimed(slot) + self.windows.not_due(slot, self.clock) + roll_up.balance
            if not roll_up.complete
            else 0
        )
        if roll_up.complete or missing:
            return roll_up
        revision = max(roll_up.revision, 1)
        content = revision if roll_up.fresh or not roll_up.content else roll_up.content
        totals = roll_up.totals
        flags = flags_of(totals, self.windows.basis(slot.member))
        self._completed(slot, revision, content, flags, totals.accounted, totals.expected)
        return roll_up._replace(complete=True, revision=revision, content=content, fresh=False)

    def _pass_time(self) -> None:
        """Complete the slots that became due, and have no state: in ranges."""
        if self.clock <= self.known.clock:
            return
        windows = self.windows
        for grain in windows.dataset.grains:
            for path in windows.dataset.hierarchy:
                run: list[Slot] = []
                for slot in windows.became_due(path, grain, self.known.clock, self.clock):
                    if windows.is_base(slot):
                        implicit = slot not in self.bases and slot not in self.known.bases
                    elif slot in self.roll_ups:
                        implicit = False
                    elif (roll_up := self.known.roll_ups.get(slot)) is not None:
                        settled = self._settled(slot, roll_up)
                        if settled != roll_up:
                            self.roll_ups[slot] = settled
                        implicit = False
                    else:
                        implicit = not windows.untimed(slot)
                    if implicit and (not run or moved(grain, run[-1].start, 1) == slot.start):
                        run.append(slot)
                    else:
                        self._note_run(run)
                        run = [slot] if implicit else []
                self._note_run(run)

    def _note_run(self, run: list[Slot]) -> None:
        if run:
            first = run[0]
            flags = ("empty",) if self.windows.basis(first.member) is Basis.ASSUMED else ()
            basis = self.windows.basis(first.member)
            self.changes.append(Change(COMPLETED, first, run[-1], len(run), 1, basis, flags))

    def _completed(
        self, slot: Slot, revision: int, content: int, flags: tuple[str, ...], accounted: int, expected: int | None
    ) -> None:
        basis = self.windows.basis(slot.member)
        equal_to = content if content != revision else 0
        change = Change(COMPLETED, slot, slot, 1, revision, basis, flags, "", equal_to, accounted, expected)
        self.changes.append(change)

    def _roll_up(self, slot: Slot) -> RollUp:
        return self.roll_ups.get(slot) or self.known.roll_up(slot)

    def _ranges(self, fallen: Mapping[Slot, str]) -> list[Change]:
        """The reopened slots as few changes: neighbours of one member, grain, revision and reason are one."""
        order = self.windows.dataset.grains.index
        found: list[Change] = []
        for slot in sorted(fallen, key=lambda each: (order(each.grain), each.member, each.start)):
            revision = (self.bases.get(slot) or self.roll_ups[slot]).revision
            before = found[-1] if found else None
            if (
                before is not None
                and before.last.member == slot.member
                and before.last.grain is slot.grain
                and moved(slot.grain, before.last.start, 1) == slot.start
                and (before.revision, before.reason) == (revision, fallen[slot])
            ):
                found[-1] = replace(before, last=slot, count=before.count + 1)
            else:
                basis = self.windows.basis(slot.member)
                found.append(Change(REOPENED, slot, slot, 1, revision, basis, reason=fallen[slot]))
        return found

    def _drop_unchanged(self) -> None:
        """Leave out what is as it was."""
        known = self.known
        self.bases = {slot: state for slot, state in self.bases.items() if known.bases.get(slot) != state}
        self.roll_ups = {slot: state for slot, state in self.roll_ups.items() if known.roll_ups.get(slot) != state}

    @staticmethod
    def _weight(state: BaseState, *, timed: bool, due: bool) -> int:
        """What a base slot adds to the balance of the roll-ups that have it."""
        if timed:
            return 1 if due and not state.complete else 0
        return -1 if state.complete else 0


def flags_of(totals: Totals, basis: Basis) -> tuple[str, ...]:
    """The flags of a roll-up: those of any of its base slots; but `empty` only if all of them are."""
    empty = basis is not Basis.PUBLISHED and not totals.filled
    return tuple(flag for flag, count in zip(FLAGS, totals.flags, strict=True) if (empty if flag == "empty" else count))


def _totals(state: BaseState) -> Totals:
    flags = tuple(1 if flag in state.flags else 0 for flag in FLAGS) if state.flags else _NO_FLAGS
    return Totals(state.accounted, state.expected or 0, 1 if state.facts.files or state.accounted else 0, flags)


def _plus(one: Totals, other: Totals) -> Totals:
    return Totals(
        one.accounted + other.accounted,
        one.expected + other.expected,
        one.filled + other.filled,
        tuple(map(add, one.flags, other.flags)),
    )


def _minus(one: Totals, other: Totals) -> Totals:
    return _plus(one, Totals(-other.accounted, -other.expected, -other.filled, tuple(-each for each in other.flags)))
