"""Deadlines that will be missed are told before, and quiet series are left alone."""

from __future__ import annotations

import random
from datetime import date, timedelta

import pytest

from feed_assets.run_history.capacity import AHEAD, DAYS, forecast
from feed_assets_tests.run_history.histories import DEADLINE, FIRST, History


def first_warning(history: History, days: int) -> int | None:
    """The number of the first day on which there is a warning."""
    executions = list(history.executions(days))
    for number in range(days):
        today = FIRST + timedelta(days=number)
        found = forecast("prices", executions[: number + 1], DEADLINE, today)
        if found is not None and found.is_due(today):
            return number
    return None


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize(("growth", "slower"), [(0.03, 0.0), (0.0, 0.03), (0.02, 0.02), (0.06, 0.0)])
def test_a_deadline_that_growth_will_pass_is_told_about_two_weeks_before(seed: int, growth: float, slower: float):
    history = History(seed, growth=growth, slower=slower)
    missed = history.missed_on()
    assert missed is not None

    warned = first_warning(history, missed + 1)

    assert warned is not None
    assert missed - AHEAD - 21 <= warned <= missed - AHEAD + 7, (warned, missed)


def test_without_bytes_the_seconds_alone_are_forecast():
    history = History(1, growth=0.03, knows_bytes=False)
    missed = history.missed_on()
    assert missed is not None
    warned = first_warning(history, missed + 1)
    assert warned is not None
    assert abs(missed - AHEAD - warned) <= 14


def test_a_thousand_quiet_histories_give_no_warning():
    dice = random.Random(1)
    for seed in range(1000):
        history = History(
            seed,
            gigabytes=dice.uniform(1, 50),
            noise=dice.uniform(0.0, 0.1),
            weekend=dice.uniform(0.2, 1.5),
            outliers=dice.randrange(3),
            slow_days=dice.randrange(2),
            knows_bytes=dice.random() < 0.8,
        )
        # At most 80 % of the time until the deadline on the busiest day.
        busiest = history.gigabytes * max(1.0, history.weekend)
        quiet = History(**{**as_dict(history), "seconds": dice.uniform(0.1, 0.8) * 7200 / busiest})
        today = FIRST + timedelta(days=DAYS)
        found = forecast("prices", list(quiet.executions(DAYS + 1)), DEADLINE, today)
        assert found is not None
        assert not found.is_due(today), (quiet, found.warning)


def as_dict(history: History) -> dict[str, object]:
    return {name: getattr(history, name) for name in History.__slots__}


def test_the_warning_is_one_sentence_with_its_numbers():
    history = History(3, growth=0.04)
    missed = history.missed_on()
    assert missed is not None
    today = FIRST + timedelta(days=missed - 10)
    found = forecast("prices", list(history.executions(missed - 9)), DEADLINE, today)
    assert found is not None
    assert found.missed_on is not None
    assert found.warning.startswith(f"prices will miss its deadline 06:00 UTC on {found.missed_on}: it takes ")
    assert "longer each week, and is expected to end at 06:0" in found.warning


def test_too_few_days_say_nothing():
    executions = list(History(1, growth=0.5).executions(14))
    assert forecast("prices", executions, DEADLINE, FIRST + timedelta(days=14)) is None
    assert forecast("prices", [], DEADLINE, date(2026, 1, 1)) is None
