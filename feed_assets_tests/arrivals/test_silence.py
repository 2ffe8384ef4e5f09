"""A source is silent on the right hour, and never while nothing is wrong; a second program makes up the histories."""

from __future__ import annotations

import random
from datetime import UTC, datetime, timedelta

import pytest
from pydantic import ValidationError

from feed_assets.arrivals.silence import HOUR, Arrivals, Arrived, State
from feed_assets.sources.expect_spec import Expected
from feed_assets_tests.arrivals.arrival_histories import (
    FIRST,
    LEARNT,
    PARTNERS,
    by_hour,
    history,
    quiet,
    standing_at,
    told_at,
)

LANDED = datetime(2026, 4, 8, 10, tzinfo=UTC)  # a Wednesday
LONG_AGO = LANDED - timedelta(days=365)
STOPS = datetime(2026, 4, 8, 10, 30, tzinfo=UTC)
BY_NAME = {partner.name: partner for partner in PARTNERS}


def silent_from(expected: Expected, *, watched_since: datetime = LONG_AGO, landed: datetime = LANDED) -> datetime:
    """The first look, one each ten minutes, at which a source is silent that landed once."""
    looks = (landed + number * timedelta(minutes=10) for number in range(6 * 24 * 7))
    hours = {landed: Arrived(1, 100)}
    return next(now for now in looks if Arrivals(hours, now, watched_since).standing(expected).state is State.SILENT)


def test_a_source_with_a_duration_is_silent_when_so_many_whole_hours_have_passed():
    assert silent_from(Expected(every="2h")) == LANDED + 3 * HOUR
    assert silent_from(Expected(every="1d")) == LANDED + 25 * HOUR


def test_hours_that_nobody_watched_are_no_silence():
    assert silent_from(Expected(every="2h"), watched_since=LANDED + timedelta(hours=9, minutes=1)) == LANDED + 12 * HOUR


def test_nights_and_weekends_do_not_count_if_the_source_says_when_the_partner_sends():
    expected = Expected(every="2h", during="Mon-Fri 08:00-19:00")
    friday = datetime(2026, 4, 10, 18, tzinfo=UTC)
    assert silent_from(expected, landed=friday) == datetime(2026, 4, 13, 10, tzinfo=UTC)
    over_midnight = Expected(every="2h", during="22:00-02:00")
    assert silent_from(over_midnight) == datetime(2026, 4, 9, 0, tzinfo=UTC)


def test_a_source_that_has_never_sent_is_not_silent():
    for expected in (LEARNT, Expected(every="2h")):
        assert Arrivals({}, LANDED, LONG_AGO).standing(expected).state is State.UNKNOWN


@pytest.mark.parametrize("wrong", ["30min", "90min", "2 hours", "often"])
def test_what_is_no_duration_of_whole_hours_is_refused(wrong):
    with pytest.raises(ValidationError, match=r"such as 6h|at least 1h"):
        Expected(every=wrong)


@pytest.mark.parametrize("wrong", ["Mon-Fri", "Mo-Fr 08:00-19:00", "08:30-19:00", "08:00-08:00"])
def test_what_is_no_time_of_the_week_is_refused(wrong):
    with pytest.raises(ValidationError, match="such as 'Mon-Fri 06:00-22:00'"):
        Expected(every="2h", during=wrong)


def test_nothing_is_learnt_in_the_first_three_weeks():
    hours = by_hour(history(BY_NAME["hourly"], random.Random(1), 3))
    last = max(hours)
    stopped = {hour: each for hour, each in hours.items() if hour < FIRST + timedelta(days=20)}
    found = standing_at(stopped, FIRST + timedelta(days=20, hours=20))
    assert found.state is State.UNKNOWN
    assert "Its usual hours are known from 2026-02-19 on" in found.sentence
    assert last > FIRST


@pytest.mark.slow
def test_no_history_in_which_nothing_is_wrong_has_an_alarm():
    """`python -m feed_assets_tests.arrivals.arrival_histories 1000` lives more."""
    for seed in range(len(PARTNERS)):
        partner, found = quiet(seed, weeks=5)
        assert found == [], partner.name


@pytest.mark.parametrize(
    ("name", "earliest", "latest"),
    [
        ("each five minutes", 4, 5),
        ("hourly", 4, 5),
        ("each six hours", 12, 24),
        ("by chance, often", 3, 10),
        ("by chance", 6, 30),
        ("in office hours", 3, 10),
        ("daily", 19, 31),  # it is due the next morning at about two o'clock UTC
        ("daily on workdays", 21, 33),
        ("daily, late in the evening", 12, 24),
    ],
)
def test_a_partner_that_stops_is_told_within_its_own_hours(name, earliest, latest):
    told = told_at(BY_NAME[name], 1, STOPS)
    assert told is not None
    assert earliest * HOUR <= told - STOPS <= latest * HOUR


def test_a_silence_lasts_until_something_lands():
    hours = by_hour(history(BY_NAME["in office hours"], random.Random(1), 10, stops=STOPS))
    states = [standing_at(hours, STOPS + timedelta(hours=number)).state for number in range(0, 24 * 8, 7)]
    first = states.index(State.SILENT)
    assert set(states[first:]) == {State.SILENT}  # also at night and on Saturday

    back = STOPS.replace(minute=0) + timedelta(days=5)
    assert standing_at({**hours, back: Arrived(1, 10)}, back + HOUR).state is not State.SILENT


def test_files_with_hardly_any_record_are_far_less_than_usual():
    hours = by_hour(history(BY_NAME["hourly"], random.Random(1), 12))
    broken = {hour: Arrived(each.landings, 0 if hour > STOPS else each.records) for hour, each in hours.items()}
    states = [standing_at(broken, STOPS + timedelta(hours=number)).state for number in (2, 30, 47, 72)]
    assert states == [State.USUAL, State.RECOVERING, State.LESS, State.LESS]
    assert " % of the usual " in standing_at(broken, STOPS + timedelta(hours=72)).sentence
