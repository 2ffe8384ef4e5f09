"""States of slots as rows, and changes as events: the text forms. Not here: SQL (`tables`)."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, Final

from feed_assets.datasets.grains import Grain
from feed_assets.datasets.slots import Slot, parse_slot, start_text
from feed_assets.dependencies.act import Change
from feed_assets.dependencies.completeness import NEVER, NO_FACTS, BaseFacts, Count
from feed_assets.dependencies.facts import Waiver
from feed_assets.dependencies.parts import StoredPart
from feed_assets.dependencies.slot_states import BaseState, RollUp, State, Totals
from feed_assets.dependencies.streams import StreamState
from feed_assets.dependencies.tables import PartRow, SlotRow, StreamRow, WaiverRow
from feed_assets.dependencies.windows import StoredMember, Windows

_ENCODE: Final = json.JSONEncoder(separators=(",", ":"), ensure_ascii=False).encode
_DEFAULTS: Final = NO_FACTS._asdict()


def row_of(slot: Slot, state: State) -> SlotRow:
    """The row of a state."""
    if isinstance(state, BaseState):
        facts = {name: value for name, value in state.facts._asdict().items() if value != _DEFAULTS[name]}
        stored = {"facts": facts, "accounted": state.accounted, "expected": state.expected, "flags": state.flags}
    else:
        stored = {"fresh": state.fresh, "balance": state.balance, "totals": state.totals, "folded": state.folded}
    if state.begun != NEVER:
        stored["begun"] = state.begun
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
        more = stored["fresh"], stored["balance"], totals, stored["folded"], begun
        roll_up = RollUp(row.revision, row.content, bool(row.complete), *more)
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


def declaration_text(windows: Windows) -> str:
    """What the states of a dataset are counted by, as JSON: its grains, and for each member what `since_of` needs."""
    return _ENCODE({"grains": windows.dataset.grains, "members": windows.stored_members})


def stored_declaration(text: str) -> Mapping[str, StoredMember]:
    """The members of a declaration that was stored; none of an empty text."""
    members = json.loads(text)["members"] if text else {}
    return {path: StoredMember(*each) for path, each in members.items()}


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
    return details | {name: value for name, value in more.items() if value or (name == "expected" and value == 0)}


def stream_row(key: tuple[str, str], stream: StreamState) -> StreamRow:
    """The row of a stream, whose key is its member and its own key."""
    return StreamRow(*key, _ENCODE(stream))


def stream_of(row: StreamRow) -> tuple[tuple[str, str], StreamState]:
    """The stream of a row, and its key."""
    epoch, writer, covered, low, high = json.loads(row.state)
    return (row.member, row.stream), StreamState(epoch, writer, _pairs(covered), low, high)


def waiver_row(waiver: Waiver) -> WaiverRow:
    """The row of a waiver."""
    return WaiverRow(
        waiver.id, _ENCODE([[str(slot) for slot in waiver.slots], waiver.reason, waiver.by, waiver.at, waiver.over])
    )


def waiver_of(row: WaiverRow) -> Waiver:
    """The waiver of a row."""
    slots, *more = json.loads(row.state)
    return Waiver(row.id, tuple(map(parse_slot, slots)), *more)


def part_row(part: StoredPart) -> PartRow:
    """The row of a part."""
    content = _ENCODE([part.object, part.stream, part.ranges, part.records])
    return PartRow(part.member, part.id, part.digest, content, part.until, part.retracted)


def part_of(row: PartRow) -> StoredPart:
    """The part of a row."""
    put, stream, ranges, records = json.loads(row.content)
    return StoredPart(
        row.member, row.part, row.digest, stream, _pairs(ranges), _pairs(records), put, row.until, row.retracted
    )


def _same(value: Any) -> Any:
    return value


def _pairs(value: list[list[Any]]) -> tuple[tuple[Any, ...], ...]:
    return tuple(tuple(each) for each in value)


_READERS: Final[dict[str, Callable[[Any], Any]]] = {
    "spans": lambda value: tuple((stream, _pairs(ranges)) for stream, ranges in value),
    "numbers": lambda value: tuple((witness, Count(*number)) for witness, number in value),
    "ends": _pairs,
    "waivers": tuple,
}
