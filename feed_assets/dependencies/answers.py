"""What is known of a slot, as one value: complete or not, and what is missing. Not here: why a flow waits."""

from __future__ import annotations

from datetime import datetime
from itertools import islice
from typing import Final, NamedTuple

from feed_assets.datasets.containment import base_set
from feed_assets.datasets.instants import moment_of
from feed_assets.datasets.slots import Slot
from feed_assets.dependencies.completeness import NEVER
from feed_assets.dependencies.rules import Basis
from feed_assets.dependencies.slot_states import SlotStates, flags_of

SHOWN: Final = 5
"""How many of the missing base slots an answer names."""


class Answer(NamedTuple):
    """A slot at the newest known time.

    `revision` is 0 before the first completion, and the number of the incomplete one after a reopening. `content` is
    the oldest revision with the content of the last complete one. `accounted` and `expected` are records; None: nobody
    has said what to expect. `missing` counts the base slots that are not complete, and `first_missing` names some.
    `waived` has the reasons of persons. `grown`: a listing of the base slot shows other content than that with which
    its revision began. `begun` is when a revision after the first began.
    """

    slot: Slot
    complete: bool
    revision: int
    content: int
    basis: Basis
    flags: tuple[str, ...] = ()
    accounted: int = 0
    expected: int | None = None
    missing: int = 0
    first_missing: tuple[Slot, ...] = ()
    waived: tuple[str, ...] = ()
    grown: bool = False
    begun: datetime | None = None


def answer(states: SlotStates, slot: Slot) -> Answer:
    """The answer about a slot that the dataset has."""
    windows = states.windows
    basis = windows.basis(slot.member)
    if windows.is_base(slot):
        state = states.base(slot)
        missing = 0 if state.complete else 1
        first = (slot,) if missing else ()
        return Answer(
            slot,
            state.complete,
            state.revision,
            state.content,
            basis,
            state.flags,
            state.accounted,
            state.expected,
            missing,
            first,
            grown=state.facts.content != state.facts.revised,
            begun=_moment(state.begun),
        )
    roll_up = states.roll_up(slot)
    totals = roll_up.totals
    expected = totals.expected if basis in {Basis.COUNTED, Basis.COVERED} else None
    found = Answer(
        slot,
        roll_up.complete,
        roll_up.revision,
        roll_up.content,
        basis,
        flags_of(totals, basis),
        totals.accounted,
        expected,
        begun=_moment(roll_up.begun),
    )
    if roll_up.complete:
        return found
    incomplete = (each for each in base_set(windows.dataset, slot) if not states.base(each).complete)
    missing = states.missing(slot, roll_up.balance)
    return found._replace(missing=missing, first_missing=tuple(islice(incomplete, SHOWN)))


def why_missing(states: SlotStates, slot: Slot) -> str:
    """What an incomplete slot waits for, with its numbers; "" for a complete one."""
    found = answer(states, slot)
    if found.complete or not found.first_missing:
        return ""
    first = found.first_missing[0]
    why = _why(states, first)
    if first == slot:
        return why
    more = f"; {found.missing} {first.grain}s of {slot.dataset} are missing" if found.missing > 1 else ""
    return f"{first} {why}{more}"


def _why(states: SlotStates, slot: Slot) -> str:
    state, rule = states.base(slot), states.windows.rule_of(slot.member)
    facts = state.facts
    if facts.backfill:
        return f"is being backfilled: {facts.backfill}"
    match rule.basis:
        case Basis.PUBLISHED:
            return "has no valid update"
        case Basis.ASSUMED:
            due = moment_of(states.windows.due(slot))
            return f"counts as complete from {due:%Y-%m-%d %H:%M} on, if nothing new comes"
        case Basis.COUNTED:
            given = {witness for witness, number in facts.numbers if number.final}
            if absent := [each for each in rule.witnesses if each not in given]:
                return f"has no final number of {', '.join(absent)}"
            share = 100 * state.accounted / state.expected if state.expected else 100.0
            return f"has {state.accounted:,} of {state.expected:,} records, {share:.3f} %"
        case _:
            return f"has {state.accounted:,} records; its source's end positions do not say that these are all"


def _moment(instant: int) -> datetime | None:
    return None if instant == NEVER else moment_of(instant)
