"""Completeness does not depend on the order of facts: in all orders of a few, and in random orders of many."""

from __future__ import annotations

import random
from collections import Counter
from datetime import date, timedelta

import pytest

from feed_assets.datasets.containment import base_starts
from feed_assets.datasets.dataset import Dataset
from feed_assets.datasets.grains import Grain
from feed_assets.datasets.instants import instant_of
from feed_assets.datasets.members import Hierarchy
from feed_assets.datasets.slots import Slot
from feed_assets.dependencies.act import Act
from feed_assets.dependencies.facts import Ends, Number, Part
from feed_assets.dependencies.numbers import take_number
from feed_assets.dependencies.parts import take_part
from feed_assets.dependencies.rules import Basis, Declared, Rule
from feed_assets.dependencies.slot_states import SlotStates
from feed_assets.dependencies.windows import Windows
from feed_assets_tests.dependencies.orders import (
    BEGIN,
    GRAINS,
    SLOTS,
    Fact,
    Replace,
    Tick,
    Told,
    accounts,
    checked,
    declared,
    in_all_orders,
    try_histories,
)

FIRST, SECOND = SLOTS[0].start, SLOTS[1].start
NOW = BEGIN + timedelta(minutes=10)


def part(id_: str, ranges: tuple[tuple[int, int], ...], records: dict[int, int]) -> Part:
    return Part("raw/foo", "-", id_, f"s3://raw/{id_}", "foo-0", ranges, records)


ONE = part("one", ((0, 50),), {FIRST: 30, SECOND: 20})
OVERLAP = part("two", ((45, 80),), {FIRST: 15, SECOND: 20})
AFTER_GAP = part("three", ((90, 100),), {SECOND: 10})
REPLACE = Replace(("three",), (part("four", ((80, 100),), {SECOND: 20}),))
FACTS: dict[Basis, list[Fact]] = {
    Basis.COUNTED: [
        ONE,
        ONE,
        OVERLAP,
        REPLACE,
        Number("source", SLOTS[0], 40, final=False),
        Number("source", SLOTS[0], 45, version=1),
        Tick(NOW),
    ],
    Basis.COVERED: [
        ONE,
        ONE,
        OVERLAP,
        AFTER_GAP,
        REPLACE,
        Ends(SLOTS[0], {"foo-0": 100}, NOW),
        Ends(SLOTS[1], {"foo-0": 110}, NOW),
    ],
}


@pytest.mark.parametrize("basis", FACTS)
def test_all_orders_of_duplicate_overlap_gap_replacement_and_revision_give_one_answer(basis: Basis) -> None:
    windows = Windows(declared(basis, threshold=88_000))
    facts = FACTS[basis]
    told = Told(windows)
    if not any(isinstance(fact, Tick) for fact in facts):
        told.take(Tick(NOW))
    expected = accounts(windows.newest_rule("-"), [Tick(NOW), *facts])
    answers = {tuple(checked(each, expected).answers()) for each in in_all_orders(told, facts)}

    assert len(answers) == 1
    ((first, *_),) = answers
    assert first.complete
    assert (first.accounted, first.overlap) == (40, 5)


def test_random_histories_of_a_source_are_complete_only_if_their_records_are_there() -> None:
    slots, complete = try_histories(150)
    assert 0 < complete < slots


def test_d17_each_window_of_a_day_is_told_once_at_each_grain_in_whatever_order_parts_and_numbers_arrive() -> None:
    dataset = Dataset("raw/foo", (*GRAINS, Grain.DAY), Hierarchy.flat(date(2026, 11, 27)))
    windows = Windows(Declared(dataset, Rule(Basis.COUNTED, ("source",))))
    day = dataset.slot("2026-11-27")
    slots = base_starts(dataset, day)[0].starts
    five = [Slot("raw/foo", "-", Grain.FIVE_MINUTES, start) for start in slots]
    facts: list[Fact] = [Number("source", slot, 10) for slot in five]
    facts += [part(f"{slot.start}-{each}", (), {slot.start: 5}) for slot in five for each in (1, 2)]
    for seed in range(12):
        chance = random.Random(seed)
        order, states, changes = chance.sample(facts, len(facts)), SlotStates(windows), []
        told = Told(windows)
        while order:
            act = Act(states, instant_of(BEGIN + timedelta(days=1)))
            for fact in order[: (size := chance.randint(1, 60))]:
                if isinstance(fact, Part):
                    take_part(act, told, fact)
                elif isinstance(fact, Number):
                    take_number(act, fact)
            del order[:size]
            act.finish()
            act.install()
            changes += act.changes
        completed = Counter((change.first, change.revision) for change in changes)
        assert {*completed.values()} == {1}
        assert Counter(slot.grain for slot, _ in completed) == {"5min": 288, "10min": 144, "hour": 24, "day": 1}
        assert changes[-1].first == day
