"""Completeness does not depend on the order of facts: in all orders of a few, and in random orders of many."""

from __future__ import annotations

from datetime import timedelta

import pytest

from feed_assets.dependencies.facts import Ends, Number, Part
from feed_assets.dependencies.rules import Basis
from feed_assets.dependencies.windows import Windows
from feed_assets_tests.dependencies.orders import (
    BEGIN,
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
