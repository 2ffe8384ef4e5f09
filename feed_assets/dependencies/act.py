"""One transaction's changes to the states of a dataset's slots: facts, reopenings, completions. Pure.

Not here: what is known (`slot_states`), the rule for one base slot (`completeness`), parts (`parts`), storage.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from feed_assets.datasets.containment import base_set
from feed_assets.datasets.grains import moved
from feed_assets.datasets.members import depth
from feed_assets.datasets.slots import Slot
from feed_assets.dependencies.completeness import BaseFacts, Verdict
from feed_assets.dependencies.errors import RefusedFactError
from feed_assets.dependencies.facts import Waiver
from feed_assets.dependencies.positions import size
from feed_assets.dependencies.rules import Basis
from feed_assets.dependencies.slot_states import (
    NO_TOTALS,
    BaseState,
    RollUp,
    SlotStates,
    State,
    Totals,
    totals_of,
)
from feed_assets.dependencies.streams import NEW_STREAM, Lookup, StreamState

COMPLETED: Final = "completed"
REOPENED: Final = "reopened"


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


class Act:
    """One transaction's changes to a dataset's states. The states stay as they are until `install`.

    First the facts and reopenings, then `finish` once.
    """

    def __init__(self, states: SlotStates, now: int) -> None:
        self.known = states
        self.windows = states.windows
        self.clock = max(now, states.clock)
        self.bases: dict[Slot, BaseState] = {}
        self.roll_ups: dict[Slot, RollUp] = {}
        self.streams: dict[tuple[str, str], StreamState] = {}
        self.waivers: dict[str, Waiver] = {}
        self.changes: list[Change] = []
        self.notes: list[tuple[str, Mapping[str, Any]]] = []
        """Other events: kind and details."""
        self._reopened: dict[Slot, str] = {}
        self._equal: set[Slot] = set()

    @property
    def states(self) -> Mapping[Slot, State]:
        """The states to store and install."""
        return {**self.bases, **self.roll_ups}

    @property
    def is_news(self) -> bool:
        """Whether there is anything to store."""
        new = self.bases or self.roll_ups or self.changes or self.streams or self.waivers or self.notes
        return bool(new) or self.known.is_counted_anew

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

    def lookup(self, member: str) -> Lookup:
        """Looks up the streams of a member, as changed so far."""
        return lambda key: self.streams.get((member, key)) or self.known.streams.get((member, key), NEW_STREAM)

    def set_stream(self, member: str, key: str, stream: StreamState) -> None:
        """Change a stream, and look again at the slots whose verdict depends on it."""
        before = self.lookup(member)(key)
        if stream == before:
            return
        self.streams[member, key] = stream
        if (dropped := size(stream.lost)) > size(before.lost):
            self.notes.append(("lost", {"member": member, "stream": key, "positions": dropped}))
        for slot in self.known.uncovered(member):
            self.touch(slot)
        if size(stream.covered) < size(before.covered):  # positions were taken back
            for slot, state in self.known.bases.items():
                if slot.member == member and state.facts.ends:
                    self.touch(slot)

    def touch(self, slot: Slot) -> None:
        """Decide about a base slot anew."""
        self.bases.setdefault(slot, self.known.base(slot))

    def reopen(self, slot: Slot, reason: str) -> None:
        """Raise the revision of a base slot, if it is complete."""
        self.touch(slot)
        self._reopened.setdefault(slot, reason)

    def unfold(self, slot: Slot) -> None:
        """Bring back the states of the slots in a folded slot, complete and without facts."""
        found = self._roll_up(slot)
        for above in (slot, *self.windows.ancestors(slot)):
            roll_up = self._roll_up(above)
            self.roll_ups[above] = roll_up._replace(totals=roll_up.totals.plus(found.totals.negative()))
        for each in base_set(self.windows.dataset, slot):
            self.bases[each] = BaseState(revision=found.folded, content=found.folded, complete=True)
            for above in self.windows.ancestors(each):
                finer = above.grain.seconds and above.grain.seconds < slot.grain.seconds
                if finer and above not in self.known.roll_ups:
                    self.roll_ups.setdefault(above, self._unfolded(above))
        self.roll_ups[slot] = self.roll_ups[slot]._replace(folded=0)

    def is_folded(self, slot: Slot) -> bool:
        """Whether the state of a slot is no longer kept, and was not brought back."""
        return slot not in self.bases and self.known.is_folded(slot)

    def keep_content(self, slot: Slot) -> None:
        """Say that the content of a base slot is that of its last complete revision."""
        self._equal.add(slot)

    def finish(self) -> None:
        """Decide what is complete now, and note the changes."""
        for slot in (*self.known.due_by(self.clock), *self.windows.holidays_ended(self.known.clock, self.clock)):
            self.touch(slot)
        if self.known.is_counted_anew:
            for slot, state in self.known.bases.items():
                if not state.complete:
                    self.touch(slot)
        verdicts = {
            slot: self.known.verdict(slot, state.facts, self.clock, self.lookup(slot.member))
            for slot, state in self.bases.items()
        }
        reopened = self._fall(verdicts)
        self._rise(verdicts)
        self.changes = [*reopened, *self.changes]
        self._pass_time()
        known = self.known
        if known.is_counted_anew:
            for slot in known.roll_ups:
                self.roll_ups.setdefault(slot, self._settled(slot, known.roll_ups[slot]))
        self.bases = {slot: state for slot, state in self.bases.items() if known.bases.get(slot) != state}
        self.roll_ups = {
            slot: state
            for slot, state in self.roll_ups.items()
            if known.is_counted_anew or known.roll_ups.get(slot) != state
        }

    def install(self) -> None:
        """Change the states, after the transaction."""
        self.known.install(self.clock, self.states.items(), self.streams, self.waivers)
        self.known.is_counted_anew = False

    def _unfolded(self, slot: Slot) -> RollUp:
        """A slot of a folded one, complete and without totals."""
        return self.known.roll_up(slot)._replace(balance=-self.windows.untimed(slot))

    def _fall(self, verdicts: Mapping[Slot, Verdict]) -> list[Change]:
        """Reopen base slots whose rule fails or that are to be reopened, and the roll-ups that have them."""
        fallen: dict[Slot, str] = {}
        for slot, state in self.bases.items():
            if not state.complete:
                continue
            reason = self._reopened.get(slot)
            if reason is None and not verdicts[slot].complete and not self.windows.is_timed(slot):
                reason = "its rule no longer holds"
            if reason is not None:
                fallen[slot] = reason
        for slot, reason in [*fallen.items()]:
            state = self.bases[slot]
            facts = state.facts._replace(late=0, late_parts=0, revised=state.facts.content)
            fell = state._replace(facts=facts, complete=False, revision=state.revision + 1, begun=self.clock)
            self.bases[slot] = fell
            for above in self.windows.ancestors(slot):
                roll_up = self._roll_up(above)
                if roll_up.complete:
                    fallen[above] = reason
                    revision = roll_up.revision + 1
                    lower = roll_up._replace(complete=False, revision=revision, fresh=False, begun=self.clock)
                    self.roll_ups[above] = lower
        return self._ranges(fallen)

    def _rise(self, verdicts: Mapping[Slot, Verdict]) -> None:
        """Complete base slots whose rule holds, and the roll-ups whose last base slot it was."""
        touched: dict[Slot, tuple[int, Totals, bool]] = {}
        for slot, state in sorted(self.bases.items()):
            new = self.bases[slot] = self._judged(slot, state, verdicts[slot])
            known = self.known.base(slot)
            weight = self.known.weight(slot, new, self.clock) - self.known.weight(slot, known, self.known.clock)
            totals = totals_of(new)
            if slot in self.known.bases:
                totals = totals.plus(totals_of(known).negative())
            risen = new.complete and (not known.complete or new.revision != known.revision)
            fresh = risen and new.content == new.revision
            for above in self.windows.ancestors(slot):
                weights, sums, any_fresh = touched.get(above, (0, NO_TOTALS, False))
                touched[above] = weights + weight, sums.plus(totals), any_fresh or fresh
        order = self.windows.dataset.grains.index
        for above in sorted(touched, key=lambda each: (order(each.grain), -depth(each.member), each)):
            weight, totals, fresh = touched[above]
            roll_up = self._roll_up(above)
            changed = roll_up._replace(
                balance=roll_up.balance + weight,
                totals=roll_up.totals.plus(totals),
                fresh=roll_up.fresh or (fresh and not roll_up.complete),
            )
            self.roll_ups[above] = self._settled(above, changed)

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
        self._completed(slot, done, found.flags, found.accounted, found.expected)
        return done

    def _settled(self, slot: Slot, roll_up: RollUp) -> RollUp:
        """A roll-up after its counters changed; notes its completion."""
        if roll_up.complete:
            return roll_up
        windows = self.windows
        if windows.untimed(slot) + windows.not_due(slot, self.clock) + roll_up.balance:
            return roll_up
        revision = max(roll_up.revision, 1)
        content = revision if roll_up.fresh or not roll_up.content else roll_up.content
        done = roll_up._replace(complete=True, revision=revision, content=content, fresh=False)
        totals, basis = roll_up.totals, windows.basis(slot)
        expected = totals.expected if basis in {Basis.COUNTED, Basis.COVERED} else None
        self._completed(slot, done, totals.shown(basis), totals.accounted, expected)
        return done

    def _pass_time(self) -> None:
        """Complete the slots that became due: those without a state in ranges."""
        if self.clock <= self.known.clock:
            return
        windows = self.windows
        for grain in windows.dataset.grains:
            for path in windows.dataset.hierarchy:
                run: list[Slot] = []
                for slot in windows.became_due(path, grain, self.known.clock, self.clock):
                    implicit = self._is_implicit(slot)
                    if implicit and (not run or moved(grain, run[-1].start, 1) == slot.start):
                        run.append(slot)
                    else:
                        self._note_run(run)
                        run = [slot] if implicit else []
                self._note_run(run)

    def _is_implicit(self, slot: Slot) -> bool:
        """Whether a slot that became due is complete without any state; settles those with one."""
        if self.windows.is_base(slot):
            return slot not in self.bases and slot not in self.known.bases
        if slot in self.roll_ups:
            return False
        if (roll_up := self.known.roll_ups.get(slot)) is not None:
            self.roll_ups[slot] = self._settled(slot, roll_up)
            return False
        return not self.windows.untimed(slot)

    def _note_run(self, run: list[Slot]) -> None:
        if run:
            basis = self.windows.basis(run[0])
            flags = ("empty",) if basis is Basis.ASSUMED else ()
            self.changes.append(Change(COMPLETED, run[0], run[-1], len(run), 1, basis, flags))

    def _completed(self, slot: Slot, done: State, flags: tuple[str, ...], accounted: int, expected: int | None) -> None:
        basis = self.windows.basis(slot)
        equal_to = done.content if done.content != done.revision else 0
        change = Change(COMPLETED, slot, slot, 1, done.revision, basis, flags, "", equal_to, accounted, expected)
        self.changes.append(change)

    def _roll_up(self, slot: Slot) -> RollUp:
        return self.roll_ups.get(slot) or self.known.roll_up(slot)

    def _ranges(self, fallen: Mapping[Slot, str]) -> list[Change]:
        """The reopened slots as few changes: neighbours of one member, grain, revision and reason are one."""
        order = self.windows.dataset.grains.index
        found: list[Change] = []
        for slot in sorted(fallen, key=lambda each: (order(each.grain), each.member, each.start)):
            revision = (self.bases.get(slot) or self.roll_ups[slot]).revision
            change = Change(REOPENED, slot, slot, 1, revision, self.windows.basis(slot), reason=fallen[slot])
            if found and _follows(found[-1], change):
                found[-1] = replace(found[-1], last=slot, count=found[-1].count + 1)
            else:
                found.append(change)
        return found


def reopen_all(act: Act, slots: Iterable[Slot], reason: str, *, equal: bool, hold: bool) -> None:
    """Reopen base slots; with `hold`, they stay incomplete until their backfill ends. Raises RefusedFactError."""
    named = dict.fromkeys(slots)
    for slot in named:
        if act.is_folded(slot):
            around = act.windows.fold_slot(slot) or slot
            if not hold or not named.keys() >= {*base_set(act.windows.dataset, around)}:
                raise RefusedFactError(f"{slot} is too old to be reopened alone: open a backfill of {around}.")
            act.unfold(around)
        act.reopen(slot, reason)
        if hold:
            act.set_facts(slot, act.facts(slot)._replace(backfill=reason))
        if equal:
            act.keep_content(slot)


def _follows(before: Change, after: Change) -> bool:
    """Whether a change goes on where another one ends, with the same words."""
    last, slot = before.last, after.first
    same = (last.member, last.grain, before.revision, before.reason)
    return same == (slot.member, slot.grain, after.revision, after.reason) and (
        moved(slot.grain, last.start, 1) == slot.start
    )
