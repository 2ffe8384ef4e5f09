"""`SlotQuality` against the definition: all short histories of small alphabets, and random ones."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from feed_assets.datasets.grains import Grain
from feed_assets.datasets.slots import Slot
from feed_assets.dependencies.quality.lineage import Lineage
from feed_assets.dependencies.quality.marks import Author
from feed_assets.dependencies.quality.overlaps import SlotIndex
from feed_assets.dependencies.quality.revision_history import RevisionHistory
from feed_assets_tests.dependencies.quality_histories import (
    NAMES,
    NOON,
    Act,
    History,
    all_histories,
    chain,
    main,
    random_history,
)

CHAIN = chain()
RAW, MIDDLE, LAST = NAMES


def hour(dataset: str, number: int = 0) -> Slot:
    return Slot(dataset, "-", Grain.TEN_MINUTES, NOON + 600 * number)


def window(dataset: str, number: int = 0) -> Slot:
    return Slot(dataset, "-", Grain.FIVE_MINUTES, NOON + 300 * number)


def marked(slot: Slot, author: Author) -> Act:
    def act(history: History) -> bool:
        on = history.world.present(slot)
        if any((mark.on, mark.author) == (on, author) for mark in history.judge.marks):
            return False
        history.mark(on, author, f"m{history.steps}")
        return True

    return act


def unmarked(author: Author) -> Act:
    def act(history: History) -> bool:
        found = [mark for mark in history.judge.marks if mark.author == author]
        if found:
            history.unmark(found[0])
        return bool(found)

    return act


def reopened(slot: Slot) -> Act:
    """A backfill of a slot: reopened, and complete again."""

    def act(history: History) -> bool:
        history.reopen(slot)
        history.world.complete(slot)
        return True

    return act


def computed(output: Slot, *inputs: Slot) -> Act:
    def act(history: History) -> bool:
        present = [history.world.present(slot) for slot in inputs]
        on = history.world.present(output)
        known = history.judge.computations.get(on)
        if known is not None and list(known.inputs) == present:
            return False
        history.compute(on, present)
        return True

    return act


def passed(slot: Slot, check: str = "rows") -> Act:
    def act(history: History) -> bool:
        history.check_passes(history.world.present(slot), check)
        return True

    return act


ANN, ROWS = Author.person("ann"), Author.check("rows")
ALPHABETS: dict[str, Sequence[Act]] = {
    "a chain that a check marks, backfilled and computed again": [
        marked(hour(RAW), ROWS),
        reopened(window(RAW)),
        computed(hour(MIDDLE), hour(RAW)),
        computed(hour(LAST), hour(MIDDLE)),
        passed(hour(RAW)),
    ],
    "marks of a person and a check, and a backfill": [
        marked(window(RAW), ANN),
        marked(hour(RAW), ROWS),
        unmarked(ANN),
        reopened(window(RAW)),
        computed(window(MIDDLE, 1), hour(RAW)),
    ],
    "two hours that a window of the other dataset reads": [
        marked(hour(RAW, 1), ANN),
        marked(window(MIDDLE, 1), ROWS),
        reopened(hour(RAW, 1)),
        computed(window(MIDDLE), hour(RAW), window(RAW, 3)),
        computed(hour(LAST, 1), hour(MIDDLE)),
        unmarked(ANN),
    ],
    "windows that are read and checked one by one": [
        marked(window(RAW), ROWS),
        passed(window(RAW)),
        passed(window(RAW, 1)),
        reopened(window(RAW, 1)),
        computed(window(MIDDLE), window(RAW)),
        computed(window(LAST), window(MIDDLE), window(RAW, 1)),
    ],
}


@pytest.mark.parametrize("name", ALPHABETS)
def test_all_histories_of_seven_acts_agree_with_the_definition(name: str):
    states = sum(1 for _ in all_histories(CHAIN, ALPHABETS[name], depth=7))
    assert states > 400


def test_random_histories_agree_with_the_definition():
    main(150)


def test_random_histories_reach_all_states():
    found = set()
    for seed in range(40):
        history = random_history(CHAIN, seed)
        found |= {history.quality.state(slot) for slot in CHAIN.slots}
    assert len(found) == 4


def _ignores_the_past(history: RevisionHistory, slot: Slot, _sequence: int | None) -> int:
    return history.current(slot)


def _finds_itself_only(_index: SlotIndex, one: Slot, other: Slot) -> bool:
    return one == other


MISTAKES = {
    "the past is taken for the present": (RevisionHistory, "before", _ignores_the_past),
    "equal content is a new revision": (RevisionHistory, "same", lambda _history, _slot, revision: revision),
    "a late reader of a bad slot is forgotten": (Lineage, "extend", lambda _lineage, _computation: None),
    "a reopening leaves marks where they were": (Lineage, "near", lambda _lineage, _slots: set()),
    "slots overlap only themselves": (SlotIndex, "_overlap", _finds_itself_only),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_random_histories_find_a_mistake(name: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(*MISTAKES[name])
    with pytest.raises(AssertionError):
        main(300, 1)
