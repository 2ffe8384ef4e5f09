"""New columns and columns that are gone, by the days of arrival."""

from __future__ import annotations

import random
from datetime import date, timedelta

import pytest

from feed_assets.arrivals.columns import MOST_NAMES, changes, day_of, shown

TODAY = date(2026, 5, 20)


def landing(looked=100, unknown=(), empty=()):
    return {"looked": looked, "unknown": dict.fromkeys(unknown, looked), "empty": list(empty)}


def history(*days):
    """The days up to TODAY, each a list of landings."""
    first = TODAY - timedelta(days=len(days) - 1)
    return {first + timedelta(days=number): day_of(each) for number, each in enumerate(days)}


def test_names_of_the_first_day_are_left_out_on_purpose_and_later_ones_are_new():
    found = changes(history([landing(unknown=["a"])], [landing(unknown=["a", "b"])], [landing(unknown=["b"])]))
    assert found.new == {"b": TODAY - timedelta(days=1)}
    assert found.sentences(TODAY) == ["1 column that the description does not name: b (from 2026-05-19)."]
    assert found.sentences(TODAY + timedelta(days=6)) == []


def test_a_name_that_the_description_has_by_now_is_not_new_any_more():
    days = history([landing()], [landing(unknown=["a", "b"])])
    assert changes(days, {"id", "b"}).new == {"a": TODAY}


def test_a_column_is_gone_from_the_first_day_on_which_no_landing_has_a_value():
    usual, without = [landing()] * 20 + [landing(empty=["cost"])] * 20, [landing(empty=["cost"])] * 25
    found = changes(history(usual, usual, usual, without, without))
    assert found.gone == {"cost": TODAY - timedelta(days=1)}
    assert found.sentences(TODAY) == ["No values any more of cost (from 2026-05-19)."]


def test_in_a_daily_file_a_column_that_was_always_there_is_missed_at_once():
    assert changes(history(*[[landing()]] * 14, [landing(empty=["cost"])])).gone == {"cost": TODAY}
    assert changes(history(*[[landing()]] * 13, [landing(empty=["cost"])])).gone == {}


@pytest.mark.parametrize(
    "days",
    [
        [[landing(empty=["cost"])]] * 9,  # it never had one
        [[landing()] * 40, [landing()] * 40, [landing(empty=["cost"])] * 40],  # too short a time
        [[landing()]] * 20 + [[landing(10, empty=["cost"])]],  # too few records
        [[landing()]] * 20 + [[landing(empty=["cost"])], [landing()]],  # it is back
        [[landing()] + [landing(empty=["cost"])] * 9] * 5 + [[landing(empty=["cost"])]],  # it is seldom there
    ],
    ids=["never", "new", "few", "back", "seldom"],
)
def test_a_column_is_not_missed_without_enough_reason(days):
    assert changes(history(*days)).gone == {}


def test_in_a_thousand_histories_of_optional_columns_none_is_missed_and_none_is_new():
    for seed in range(1000):
        dice = random.Random(seed)
        shares = {name: dice.uniform(0, 1) for name in "abcdefgh"}
        size = dice.choice([1, 50])
        days = [
            [
                landing(
                    size,
                    unknown=[] if dice.random() < 0.5 else ["left out"],
                    empty=[name for name, share in shares.items() if dice.random() > share],
                )
                for _ in range(dice.randrange(1, 40))
            ]
            for _ in range(20)
        ]
        days[0].append(landing(unknown=["left out"]))
        assert changes(history(*days)).sentences(TODAY) == [], seed


def test_the_names_of_a_day_are_bounded():
    names = [f"name {number}" for number in range(500)]
    seen = day_of([landing(1, unknown=[name]) for name in names] + [landing(5, unknown=["often"])])
    assert len(seen["unknown"]) == MOST_NAMES
    assert seen["unknown"]["often"] == 5


def test_names_from_outside_are_shown_safely():
    assert shown("a\u202eb\x00c\nd\ud800é ü") == "a\\u202eb\\u0000c\\u000ad\\ud800é ü"
    assert shown("x" * 500) == f"{'x' * 60}..."
