"""States of slots as rows, and changes as events: the text forms. Not here: SQL (`tables`)."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, Final

from feed_assets.datasets.grains import Grain
from feed_assets.datasets.slots import Slot, start_text
from feed_assets.dependencies.completeness import NEVER, NO_FACTS, BaseFacts, Number
from feed_assets.dependencies.slot_states import BaseState, Change, RollUp, State, Totals
from feed_assets.dependencies.tables import SlotRow

_ENCODE: Final = json.JSONEncoder(separators=(",", ":"), ensure_ascii=False).encode
_DEFAULTS: Final = NO_FACTS._asdict()


def row_of(slot: Slot, state: State) -> SlotRow:
    """The row of a state."""
    if isinstance(state, BaseState):
        facts = {name: value for name, value in state.facts._asdict().items() if value != _DEFAULTS[name]}
        stored = {"facts": facts, "accounted": state.accounted, "expected": state.expected, "flags": state.flags}
        stored |= {"begun": state.begun} if state.begun != NEVER else {}
    else:
        stored = {"fresh": state.fresh, "balance": state.balance, "totals": state.totals}
        stored |= {"begun": state.begun} if state.begun != NEVER else {}
    return SlotRow(
        slot.member, slot.grain.value, slot.start, state.revision, state.content, state.complete, _ENCODE(stored)
    )


def state_of(dataset: str, row: SlotRow) -> tuple[Slot, State]:
    """The state of a row, and its slot."""
    slot = Slot(dataset, row.member, Grain.named(row.grain), row.start)
    stored = json.loads(row.state)
    begun = stored.get("begun", NEVER)
    if "totals" in stored:
        accounted, expected, filled, flags = stored["totals"]
        totals = Totals(accounted, expected, filled, tuple(flags))
        roll_up = RollUp(
            row.revision, row.content, bool(row.complete), stored["fresh"], stored["balance"], totals, begun
        )
        return slot, roll_up
    facts = BaseFacts(**{name: _READERS.get(name, _same)(value) for name, value in stored["facts"].items()})
    state = BaseState(
        facts,
        row.revision,
        row.content,
        bool(row.complete),
        stored["accounted"],
        stored["expected"],
        tuple(stored["flags"]),
        begun,
    )
    return slot, state


def details_of(base: str, change: Change) -> dict[str, Any]:
    """An event's details; what is empty is left out."""
    first = change.first
    details = {
        "base": base,
        "dataset": first.dataset,
        "member": first.member,
        "grain": first.grain.value,
        "first": start_text(first.grain, first.start),
        "last": start_text(first.grain, change.last.start),
        "count": change.count,
        "revision": change.revision,
        "basis": change.basis.value,
    }
    more = {
        "flags": list(change.flags),
        "reason": change.reason,
        "equal_to": change.equal_to,
        "accounted": change.accounted,
        "expected": change.expected,
    }
    return details | {name: value for name, value in more.items() if value}


def _same(value: Any) -> Any:
    return value


def _pairs(value: list[list[Any]]) -> tuple[tuple[Any, ...], ...]:
    return tuple(tuple(each) for each in value)


_READERS: Final[dict[str, Callable[[Any], Any]]] = {
    "spans": lambda value: tuple((stream, _pairs(ranges)) for stream, ranges in value),
    "numbers": lambda value: tuple((witness, Number(*number)) for witness, number in value),
    "ends": _pairs,
    "waivers": tuple,
}
