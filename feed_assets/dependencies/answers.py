"""What is known of a slot, as one value: complete or not, and what is missing. Not here: why a flow waits."""

from __future__ import annotations

from itertools import islice
from typing import Final, NamedTuple

from feed_assets.datasets.containment import base_set
from feed_assets.datasets.slots import Slot
from feed_assets.dependencies.rules import Basis
from feed_assets.dependencies.slot_states import SlotStates, flags_of

SHOWN: Final = 5
"""How many of the missing base slots an answer names."""


class Answer(NamedTuple):
    """A slot at the newest known time.

    `revision` is 0 before the first completion, and the number of the incomplete one after a reopening. `content` is
    the oldest revision with the content of the last complete one. `accounted` and `expected` are records; None: nobody
    has said what to expect. `missing` counts the base slots that are not complete, and `first_missing` names some.
    `waived` has the reasons of persons.
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
    )
    if roll_up.complete:
        return found
    incomplete = (each for each in base_set(windows.dataset, slot) if not states.base(each).complete)
    missing = states.missing(slot, roll_up.balance)
    return found._replace(missing=missing, first_missing=tuple(islice(incomplete, SHOWN)))
