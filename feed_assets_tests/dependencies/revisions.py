"""Revisions of slots against a brute-force account, in all histories up to a depth.

Two members have four days each, in two weeks and two months. An act publishes, replaces or invalidates the update of a
day, or reopens a month. The account looks at every base slot of every slot after every act. The command tries all
histories of six acts:

    python -m feed_assets_tests.dependencies.revisions [DEPTH]
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping
from datetime import date
from typing import NamedTuple

from feed_assets.datasets.containment import ancestors, base_set
from feed_assets.datasets.dataset import Dataset
from feed_assets.datasets.grains import Grain
from feed_assets.datasets.instants import instant_of
from feed_assets.datasets.members import Hierarchy, Member
from feed_assets.datasets.slots import Slot
from feed_assets.dependencies.act import COMPLETED, REOPENED, Act, reopen_all
from feed_assets.dependencies.answers import answer
from feed_assets.dependencies.facts import Published
from feed_assets.dependencies.rules import Basis, Declared, Rule
from feed_assets.dependencies.slot_states import SlotStates
from feed_assets.dependencies.updates import take_published
from feed_assets.dependencies.windows import Windows
from feed_assets_tests.dependencies.datasets import at

FIRST, LAST = date(2026, 11, 28), date(2026, 12, 1)
NOW = instant_of(at("2026-12-02T00:00"))
TREE = Hierarchy(("region",), (Member("eu", FIRST, LAST), Member("us", FIRST, LAST)))
DATASET = Dataset("revenue/v1.0", (Grain.DAY, Grain.WEEK, Grain.MONTH), TREE)
WINDOWS = Windows(Declared(DATASET, Rule(Basis.PUBLISHED)))
BASES = [*base_set(DATASET, DATASET.slot("2026-11")), *base_set(DATASET, DATASET.slot("2026-12"))]
ROLL_UPS = [*dict.fromkeys(above for slot in BASES for above in ancestors(DATASET, slot))]
INSIDE = {slot: {*base_set(DATASET, slot)} for slot in (*BASES, *ROLL_UPS)}


class Known(NamedTuple):
    """What the account knows of a slot."""

    complete: bool = False
    revision: int = 0


Account = Mapping[Slot, Known]
Updates = Mapping[Slot, str | None]


class Operation(NamedTuple):
    """An act: what it does to the states, the updates that are in force after it, and the slots that it reopens."""

    do: Callable[[Act], None]
    updates: Callable[[Updates], Updates]
    reopens: Callable[[Updates], set[Slot]]


def _publish(slot: Slot, *, replace: bool) -> Operation:
    """Publish an update. If one is in force, replace it by another, or else invalidate it."""

    def new(known: str | None) -> str | None:
        if known is not None and not replace:
            return None
        return "b" if known == "a" else "a"

    return Operation(
        lambda act: take_published(act, Published(slot, new(act.facts(slot).update))),
        lambda updates: {**updates, slot: new(updates[slot])},
        lambda updates: {slot} if updates[slot] is not None else set(),
    )


def _reopen(slot: Slot) -> Operation:
    inside = [*base_set(DATASET, slot)]
    return Operation(
        lambda act: reopen_all(act, inside, "late data", equal=False, hold=False),
        lambda updates: updates,
        lambda updates: {each for each in inside if updates[each] is not None},
    )


OPERATIONS = [
    *(_publish(slot, replace=False) for slot in BASES),
    _publish(BASES[0], replace=True),
    _reopen(DATASET.slot("2026-11")),
]


def by_definition(
    before: Account, updates: Updates, reopened: Iterable[Slot]
) -> tuple[Account, set[tuple[str, Slot, int]]]:
    """The account after an act, and the events that it must tell."""
    reopened, after, events = {*reopened}, dict(before), set()
    for slot in (*BASES, *ROLL_UPS):
        inside = INSIDE[slot]
        known = after[slot]
        if known.complete and inside & reopened:
            known = known._replace(complete=False, revision=known.revision + 1)
            events.add((REOPENED, slot, known.revision))
        if not known.complete and all(updates[each] is not None for each in inside):
            known = known._replace(complete=True, revision=max(known.revision, 1))
            events.add((COMPLETED, slot, known.revision))
        after[slot] = known
    return after, events


def try_all(depth: int) -> tuple[int, int]:
    """All histories of so many acts, from two beginnings. Returns the numbers of states and of acts."""
    seen: set[int] = set()
    acts = 0
    for published in (BASES, BASES[:-1]):
        nothing: Account = dict.fromkeys((*BASES, *ROLL_UPS), Known())
        first = [_publish(slot, replace=False) for slot in published]
        level = [_step(SlotStates(WINDOWS), nothing, dict.fromkeys(BASES), first)]
        for left in reversed(range(depth)):
            following = []
            for known in level:
                for operation in OPERATIONS:
                    found = _step(*known, [operation])
                    acts += 1
                    key = hash((tuple(found[1].values()), tuple(found[2].values())))
                    if key not in seen:
                        seen.add(key)
                        following += [found] * (left > 0)  # nothing is built on the states of the last acts
            level = following
    return len(seen), acts


def _step(
    states: SlotStates, account: Account, updates: Updates, operations: Iterable[Operation]
) -> tuple[SlotStates, Account, Updates]:
    act = Act(states, NOW)
    reopened: set[Slot] = set()
    for operation in operations:
        operation.do(act)
        reopened |= operation.reopens(updates)
        updates = operation.updates(updates)
    act.finish()
    account, events = by_definition(account, updates, reopened)
    after = SlotStates(WINDOWS, states.clock, {**states.bases}, {**states.roll_ups})
    after.install(NOW, act.states.items())
    for slot, known in account.items():
        said = answer(after, slot)
        assert (said.complete, said.revision) == (known.complete, known.revision), (slot, said, known)
    told = [(each.kind, slot, each.revision) for each in act.changes for slot in _slots(each.first, each.count)]
    assert len(told) == len({*told})
    assert {*told} == events, {*told} ^ events
    return after, account, updates


def _slots(first: Slot, count: int) -> list[Slot]:
    following = [slot for slot in (*BASES, *ROLL_UPS) if slot[:3] == first[:3] and slot.start >= first.start]
    return sorted(following)[:count]


def main(depth: str = "6") -> None:
    states, acts = try_all(int(depth))
    print(f"{states} states, {acts} acts: revisions and events are as defined.")


if __name__ == "__main__":
    main(*sys.argv[1:])
