"""All states of the model: as the rules are nothing is lost, and each rule that is switched off is found."""

from __future__ import annotations

import pytest

from feed_assets_tests.workflow.fence_model import Rules, search


@pytest.mark.parametrize(
    "rules", [Rules(), Rules(looks_behind_the_seal=False), Rules(looks_before_deleting=False)], ids=str
)
def test_three_masters_lose_nothing_in_three_epochs(rules: Rules) -> None:
    states, wrong = search(rules, masters=3, numbers=2, epochs=3)

    assert (states > 3_000, wrong) == (True, "")


@pytest.mark.slow
def test_nor_with_longer_epochs() -> None:
    states, wrong = search(Rules(), masters=3, numbers=3, epochs=3)

    assert (states > 100_000, wrong) == (True, "")


@pytest.mark.parametrize(
    ("rules", "numbers"),
    [
        (Rules(seals_stay=False), 3),
        (Rules(newest_entry_stays=False), 3),
        (Rules(reads_back=False), 3),
        (Rules(looks_before_deleting=False, looks_behind_the_seal=False), 4),
    ],
    ids=str,
)
def test_a_rule_that_is_switched_off_is_found(rules: Rules, numbers: int) -> None:
    assert search(rules, masters=2, numbers=numbers, epochs=2 if rules.seals_stay else 3)[1]
