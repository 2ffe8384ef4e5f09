"""What is known of a slot, as one value: complete or not, and what is missing. Not here: why a flow waits."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from itertools import islice
from typing import Final, NamedTuple, cast

from feed_assets.datasets.containment import base_starts, member_children, time_children
from feed_assets.datasets.grains import Grain
from feed_assets.datasets.instants import moment_of
from feed_assets.datasets.slots import Slot
from feed_assets.dependencies.completeness import NEVER
from feed_assets.dependencies.rules import Basis
from feed_assets.dependencies.slot_states import BaseState, RollUp, SlotStates
from feed_assets.dependencies.streams import gaps
from feed_assets.dependencies.windows import Windows
from feed_assets.sources.day_files import is_day_file, key_of_day

SHOWN: Final = 5
"""How many of the missing base slots an answer names."""


class Answer(NamedTuple):
    """A slot at the newest known time.

    `revision` is 0 before the first completion, and the number of the incomplete one after a reopening. `content` is
    the oldest revision with the content of the last complete one. `accounted` and `expected` are records; None: nobody
    has said what to expect. `missing` counts the base slots that are not complete, and `first_missing` names some.
    `overlap` and `gap` are positions that the parts of a base slot cover twice, and that no part covers between them.
    `waived` has the reasons of persons, with the ids of their waivers. `grown`: a listing of the base slot shows other
    content than that with which its revision began. `begun` is when a revision after the first began.
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
    overlap: int = 0
    gap: int = 0
    waived: tuple[str, ...] = ()
    grown: bool = False
    begun: datetime | None = None


def answer(states: SlotStates, slot: Slot) -> Answer:
    """The answer about a slot. Raises a DatasetError if the dataset has no such slot."""
    if (known := states.answers.get(slot)) is not None:
        return cast("Answer", known)
    version = states.version
    if slot not in states.bases and slot not in states.roll_ups:
        states.windows.dataset.check(slot)
    if states.windows.is_base(slot):
        found = _of_base(states, slot, states.base(slot))
    else:
        found = _of_roll_up(states, slot, states.roll_up(slot))
    if not found.gap:  # a gap is smaller after parts of other slots
        states.remember(slot, found, version)
    return found


def _of_base(states: SlotStates, slot: Slot, state: BaseState) -> Answer:
    facts, complete, flags = state.facts, state.complete, state.flags
    basis = states.windows.basis(slot)
    gap = gaps(facts.spans, states.stream(slot.member)) if facts.spans else 0
    reasons = tuple(f"{states.waivers[each].reason} ({each})" for each in facts.waivers)
    return Answer(
        slot,
        complete,
        state.revision,
        state.content,
        basis,
        (*flags, "gap") if gap else flags,
        state.accounted,
        state.expected,
        0 if complete else 1,
        () if complete else (slot,),
        facts.overlap if facts.length else 0,
        gap,
        reasons,
        facts.content != facts.revised,
        _moment(state.begun),
    )


def _of_roll_up(states: SlotStates, slot: Slot, roll_up: RollUp) -> Answer:
    windows, totals = states.windows, roll_up.totals
    basis = windows.basis(slot)
    flags = totals.shown(basis)
    expected = totals.expected if basis in {Basis.COUNTED, Basis.COVERED} else None
    if expected == 0 and not roll_up.complete and not totals.is_zero_said:
        flags, expected = tuple(flag for flag in flags if flag != "empty"), None
    waived = tuple(_waivers(states, slot)) if "waived" in flags else ()
    missing, first = 0, tuple[Slot, ...]()
    if not roll_up.complete:
        missing = states.missing(slot, roll_up.balance)
        first = tuple(islice(_missing(states, slot), SHOWN))
    return Answer(
        slot,
        roll_up.complete,
        roll_up.revision,
        roll_up.content,
        basis,
        flags,
        totals.accounted,
        expected,
        missing,
        first,
        waived=waived,
        begun=_moment(roll_up.begun),
    )


def _missing(states: SlotStates, slot: Slot) -> Iterator[Slot]:
    """The base slots of a slot that are not complete, found by way of the incomplete slots in it."""
    windows = states.windows
    if windows.is_base(slot):
        if not states.base(slot).complete:
            yield slot
    elif not states.roll_up(slot).complete:
        of_members = [] if windows.is_member(slot.member) else member_children(windows.dataset, slot)
        for each in of_members or time_children(windows.dataset, slot):
            yield from _missing(states, each)


def _waivers(states: SlotStates, slot: Slot) -> Iterator[str]:
    """The reasons of the waivers that have a base slot of a slot, and still hold."""
    for waiver in sorted(states.waivers.values(), key=lambda each: (each.at, each.id)):
        if not waiver.over and any(_meet(states.windows, slot, each) for each in waiver.slots):
            yield f"{waiver.reason} ({waiver.id})"


def _meet(windows: Windows, one: Slot, other: Slot) -> bool:
    """Whether two slots have a base slot in common."""
    mine = dict(base_starts(windows.dataset, one))
    return any(
        member in mine and starts and mine[member] and starts[0] <= mine[member][-1] and mine[member][0] <= starts[-1]
        for member, starts in base_starts(windows.dataset, other)
    )


def why_missing(states: SlotStates, slot: Slot) -> str:
    """What an incomplete slot waits for, with its numbers; "" for a complete one."""
    found = answer(states, slot)
    if found.complete or not found.first_missing:
        return ""
    first = found.first_missing[0]
    why = _until_its_end(states, first) or _why(states, first)
    if first == slot:
        return why
    what = f"slots of {first.grain}" if 0 < first.grain.seconds < Grain.HOUR.seconds else f"{first.grain}s"
    more = f"; {found.missing} {what} of {slot.dataset} are missing" if found.missing > 1 else ""
    return f"{first} {why}{more}"


def _until_its_end(states: SlotStates, slot: Slot) -> str:
    """That only the end of a slot is waited for; "" if it needs facts, or a buffer."""
    facts = states.base(slot).facts
    ends = states.verdict(slot, facts, states.clock).check_at
    if ends is None or states.windows.is_timed(slot) or not states.verdict(slot, facts, ends).complete:
        return ""
    return f"has all that it needs, and ends at {moment_of(ends):%Y-%m-%d %H:%M}"


def _why(states: SlotStates, slot: Slot) -> str:
    state, rule = states.base(slot), states.windows.rule_of(slot)
    facts = state.facts
    if facts.backfill:
        return f"is being backfilled: {facts.backfill}"
    match rule.basis:
        case Basis.PUBLISHED:
            return "has no valid update"
        case Basis.ASSUMED:
            due = moment_of(states.windows.due(slot))
            looked = "" if states.clock == NEVER else f"; last looked at {moment_of(states.clock):%Y-%m-%d %H:%M}"
            return f"counts as complete from {due:%Y-%m-%d %H:%M} on, if nothing new comes{looked}"
        case Basis.COUNTED:
            given = {witness for witness, number in facts.numbers if number.final}
            if absent := [each for each in rule.witnesses if each not in given]:
                return f"has no final number of {', '.join(_named(states, slot, each) for each in absent)}"
            share = 100 * state.accounted / state.expected if state.expected else 100.0
            return f"has {state.accounted:,} of {state.expected:,} records, {share:.3f} %"
        case _:
            return f"has {state.accounted:,} records; its source's end positions do not say that these are all"


def _named(states: SlotStates, slot: Slot, witness: str) -> str:
    """A witness for people: the key of the day's file, or its name."""
    return key_of_day(witness, states.windows.date_of_base(slot)) if is_day_file(witness) else witness


def _moment(instant: int) -> datetime | None:
    return None if instant == NEVER else moment_of(instant)
