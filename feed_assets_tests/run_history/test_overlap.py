"""A series that fills its interval is told of; one slow day, repetitions and quiet series are not."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from feed_assets.run_history.executions import Execution
from feed_assets.run_history.overlap import FULL, Overlap, in_words, overlap

FIRST = datetime(2026, 3, 2, tzinfo=UTC)


def hourly(
    days: int, minutes: float, *, seed: int = 0, growth: float = 0.0, slow_day: int = -1, every: int = 60
) -> Iterator[Execution]:
    """Runs of a schedule that take so many minutes, with noise; each day they take `growth` longer."""
    dice = random.Random(seed)
    for number in range(days * 24 * 60 // every):
        wanted = FIRST + timedelta(minutes=number * every)
        day = (wanted - FIRST).days
        taken = minutes * (1 + growth * day) * dice.lognormvariate(0, 0.05) * (4 if day == slow_day else 1)
        started = wanted + timedelta(seconds=dice.uniform(2, 40))
        yield Execution("hourly", f"run-{number}", None, wanted, started, started + timedelta(minutes=taken), True)


def found_on(executions: list[Execution], day: int) -> Overlap | None:
    at = FIRST + timedelta(days=day)
    known = [each for each in executions if each.wanted < at + timedelta(days=1)]
    return overlap("hourly", known, at.date())


def test_w23_a_series_that_grows_is_told_of_soon_after_it_takes_80_percent():
    # 95 of 100 runs take up to 1.08 times the usual duration: 48 min at 44.4 min, after 48 days.
    executions = list(hourly(80, 30, growth=0.01))
    tight = [day for day in range(80) if (found := found_on(executions, day)) and found.is_tight]
    assert 44 <= tight[0] <= 62
    assert tight == list(range(tight[0], 80))


def test_one_slow_day_is_no_warning_whether_runs_are_daily_or_each_five_minutes():
    for every in (5, 60, 1440):
        executions = list(hourly(20, 0.4 * every, every=every, slow_day=12))
        assert not any((found := found_on(executions, day)) and found.is_tight for day in range(20))


def test_the_warning_ends_days_after_the_runs_are_fast_again():
    slow, fast = list(hourly(30, 55)), list(hourly(30, 20))
    executions = slow[: 15 * 24] + fast[15 * 24 :]
    states = [bool((found := found_on(executions, day)) and found.is_tight) for day in range(30)]
    assert states[14]
    assert not any(states[15 + 7 - FULL + 1 :])


def test_a_thousand_quiet_series_give_no_warning():
    dice = random.Random(1)
    for seed in range(1000):
        every = dice.choice([60, 240, 1440])
        executions = list(
            hourly(14, dice.uniform(0.05, 0.65) * every, seed=seed, every=every, slow_day=dice.randrange(28))
        )
        found = found_on(executions, 13)
        assert found is not None
        assert not found.is_tight, found.sentence


def test_repetitions_of_a_partition_are_no_ticks():
    executions = [replace(each, partition=f"hour {number}") for number, each in enumerate(hourly(10, 30))]
    later = timedelta(minutes=7)
    again = [replace(each, wanted=each.wanted + later, started=each.started + later) for each in executions]
    assert overlap("hourly", [*again, *executions], FIRST.date() + timedelta(days=9)) == overlap(
        "hourly", executions, FIRST.date() + timedelta(days=9)
    )


def test_the_sentence_has_its_numbers():
    taken = timedelta(minutes=54)
    executions = [replace(each, started=each.wanted, ended=each.wanted + taken) for each in hourly(8, 1)]
    found = overlap("schedule hourly", executions, FIRST.date() + timedelta(days=7))
    assert found is not None
    assert found.is_tight
    assert found.sentence == (
        "schedule hourly: 95 of 100 runs start within 0 s and take up to 54 min, together 90 % of the 1 h between runs."
    )
    assert list(found.shares.values()) == [pytest.approx(0.9)] * 8


def test_few_executions_say_nothing():
    assert overlap("hourly", list(hourly(1, 50))[:7], FIRST.date()) is None


@pytest.mark.parametrize(("seconds", "words"), [(45, "45 s"), (600, "10 min"), (7200, "2 h"), (5400, "1 h 30 min")])
def test_durations_are_words(seconds: int, words: str):
    assert in_words(timedelta(seconds=seconds)) == words
