"""Deadlines that will be missed are told before, and quiet series are left alone."""

from __future__ import annotations

import random
from dataclasses import replace
from datetime import date, timedelta

import pytest

from feed_assets.run_history.capacity import AHEAD, DAYS, FEWEST, deadline_warning, forecast
from feed_assets_tests.run_history.histories import DEADLINE, FIRST, History


def first_warning(history: History, days: range) -> int | None:
    """The number of the first of these days on which there is a warning, if each day looks."""
    executions = list(history.executions(days.stop))
    for number in days:
        today = FIRST + timedelta(days=number)
        if deadline_warning("prices", executions[: number + 1], DEADLINE, today) is not None:
            return number
    return None


@pytest.mark.parametrize(
    ("growth", "slower"), [(0.03, 0.0), (0.0, 0.03), (0.02, 0.02), (0.06, 0.0), (0.1, 0.0)], ids=str
)
def test_w29_growth_is_told_about_two_weeks_before_the_deadline_is_missed(growth: float, slower: float):
    errors = []
    for seed in range(12):
        history = History(seed, growth=growth, slower=slower)
        missed = history.missed_on()
        assert missed is not None
        # Each looks from two months before on: a warning at once would be one that comes far too early.
        warned = first_warning(history, range(max(FEWEST, missed - 60), missed + 21))
        assert warned is not None, "no warning at all"
        errors.append(warned - (missed - AHEAD))

    assert -10 <= sorted(errors)[len(errors) // 2] <= 10, errors
    assert sum(-14 <= each <= AHEAD for each in errors) >= 9, errors
    assert min(errors) >= -28, errors


@pytest.mark.parametrize("growth", [0.03, 0.06])
def test_without_bytes_the_seconds_alone_are_forecast(growth: float):
    history = History(1, growth=growth, knows_bytes=False)
    missed = history.missed_on()
    assert missed is not None
    warned = first_warning(history, range(max(FEWEST, missed - 60), missed + 14))
    assert warned is not None
    assert abs(missed - AHEAD - warned) <= 14


def quiet(seed: int, dice: random.Random) -> History:
    """A history without growth, whose busiest day takes at most 80 % of the time until the deadline."""
    made = History(
        seed,
        gigabytes=dice.uniform(1, 50),
        noise=dice.uniform(0.0, 0.1),
        weekend=dice.uniform(0.2, 1.5),
        outliers=dice.randrange(3),
        slow_days=dice.randrange(2),
        knows_bytes=dice.random() < 0.8,
    )
    busiest = made.gigabytes * max(1.0, made.weekend)
    return replace(made, seconds=dice.uniform(0.1, 0.8) * 7200 / busiest)


def test_a_thousand_quiet_histories_give_no_warning():
    dice = random.Random(1)
    today = FIRST + timedelta(days=DAYS + 3)
    for seed in range(1000):
        history = quiet(seed, dice)
        executions = list(history.executions(DAYS + 4))
        assert forecast("prices", executions, DEADLINE, today) is not None
        found = deadline_warning("prices", executions, DEADLINE, today)
        assert found is None, (history, found.sentence)


def test_quiet_histories_give_no_warning_on_any_day_of_two_months():
    dice = random.Random(2)
    for seed in range(20):
        history = quiet(seed, dice)
        assert first_warning(history, range(FEWEST, 60)) is None, history


def test_slow_growth_far_from_the_deadline_gives_no_warning():
    for seed in range(10):
        history = History(seed, growth=0.02)
        missed = history.missed_on()
        assert missed is not None
        assert first_warning(history, range(missed - 130, missed - 75)) is None


def test_a_deadline_that_is_missed_already_is_told_without_growth():
    history = History(5, seconds=800.0)
    found = deadline_warning("prices", list(history.executions(30)), DEADLINE, FIRST + timedelta(days=29))
    assert found is not None
    assert found.missed_on == FIRST + timedelta(days=30)


def test_an_alarm_ends_when_the_series_has_become_fast_again():
    slow, fast = (list(History(7, seconds=seconds).executions(80)) for seconds in (800.0, 400.0))
    executions = slow[:40] + fast[40:]
    assert deadline_warning("prices", executions, DEADLINE, FIRST + timedelta(days=39)) is not None
    assert deadline_warning("prices", executions, DEADLINE, FIRST + timedelta(days=70)) is None


def test_a_single_forecast_is_no_warning():
    history = History(3, growth=0.04)
    missed = history.missed_on()
    assert missed is not None
    executions = list(history.executions(missed))
    due = [
        number
        for number in range(missed - 40, missed)
        if (found := forecast("prices", executions, DEADLINE, FIRST + timedelta(days=number)))
        and found.is_due(FIRST + timedelta(days=number))
    ]
    warned = first_warning(history, range(missed - 40, missed))
    assert warned is not None
    assert warned > due[0]


@pytest.mark.parametrize("ahead", [1, 14, 60])
@pytest.mark.parametrize("outliers", [0, 1])
def test_about_90_of_100_days_fall_into_the_band_which_widens_with_the_days_ahead(ahead: int, outliers: int):
    today = FIRST + timedelta(days=DAYS - 1)
    hits, widths = 0, []
    for seed in range(100):
        past = History(seed, outliers=outliers, slow_days=outliers)
        future = list(History(seed + 1000, outliers=0, slow_days=0).executions(DAYS + ahead))
        found = forecast("prices", past.executions(DAYS), DEADLINE, today)
        assert found is not None
        low, high = found.band[today + timedelta(days=ahead)]
        next_low, next_high = found.band[today + timedelta(days=ahead + 7)]
        hits += low <= future[-1].duration <= high
        widths.append(next_high / next_low > high / low)

    assert 80 <= hits <= 99
    assert all(widths)


def test_repetitions_of_earlier_days_do_not_count():
    history = History(4)
    executions = list(history.executions(40))
    again = [
        replace(
            each,
            run=f"{each.run}-again",
            wanted=each.wanted + timedelta(days=1, hours=6),
            started=each.started + timedelta(days=1, hours=6),
            ended=each.ended + timedelta(days=1, hours=9),
        )
        for each in executions[:-1]
    ]
    today = FIRST + timedelta(days=39)
    one, both = (forecast("prices", found, DEADLINE, today) for found in (executions, [*again, *executions]))
    assert one == both


def test_the_warning_is_one_sentence_with_its_numbers():
    history = History(3, growth=0.04)
    missed = history.missed_on()
    assert missed is not None
    warned = first_warning(history, range(missed - 40, missed + 7))
    assert warned is not None
    executions = list(history.executions(missed + 7))[: warned + 1]
    found = deadline_warning("prices", executions, DEADLINE, FIRST + timedelta(days=warned))
    assert found is not None
    assert found.missed_on is not None
    start = f"prices will miss its deadline 06:00 UTC from {found.missed_on} on: it takes "
    assert found.sentence.startswith(start)
    assert "longer each week, and is expected to end at 06:0" in found.sentence


def test_too_few_days_say_nothing():
    executions = list(History(1, growth=0.5).executions(FEWEST - 1))
    assert forecast("prices", executions, DEADLINE, FIRST + timedelta(days=FEWEST - 2)) is None
    assert forecast("prices", [], DEADLINE, date(2026, 1, 1)) is None
