"""What is unusual in the profile of a slot."""

from __future__ import annotations

import random
from datetime import date

import pytest

from feed_assets.datasets.dataset import Dataset
from feed_assets.datasets.grains import Grain
from feed_assets.dependencies.quality.marks import ColumnProfile, Profile, QualityError
from feed_assets.dependencies.quality.profiles import Limits, anomalies, comparable_slots


def profile(rows: int, nulls: int = 10, distinct: int = 500, smallest: float = 0, largest: float = 100) -> Profile:
    return Profile(rows, {"price": ColumnProfile(nulls, distinct, smallest, largest)})


USUAL = [profile(rows, distinct=rows // 2) for rows in (1000, 1040, 980, 1010, 1020, 990)]


@pytest.mark.parametrize(
    ("unusual", "what"),
    [
        (profile(400, nulls=4, distinct=200), "rows"),
        (profile(1000, nulls=300), "nulls price"),
        (profile(1000, distinct=20), "distinct price"),
        (profile(1000, smallest=-50), "smallest price"),
        (profile(1000, largest=1e9), "largest price"),
    ],
)
def test_each_number_that_is_far_away_is_named(unusual: Profile, what: str):
    assert anomalies(unusual, USUAL)[0].what == what


def test_a_usual_profile_has_no_anomaly():
    assert anomalies(profile(1005), USUAL) == []


def test_one_bad_week_hides_nothing_and_alarms_nobody():
    recent = [*USUAL, profile(5, nulls=0)]
    assert anomalies(profile(1005), recent) == []
    assert [each.what for each in anomalies(profile(400, nulls=4, distinct=200), recent)][:1] == ["rows"]


def test_nothing_is_said_by_too_few_weeks():
    assert anomalies(profile(1, nulls=0), USUAL[:3]) == []


def test_numbers_that_never_changed_allow_for_a_little_change():
    same = [profile(1000, nulls=0)] * 8
    assert anomalies(profile(1000, nulls=3), same) == []
    assert [each.what for each in anomalies(profile(1000, nulls=200), same)] == ["nulls price"]


def test_small_counts_vary_by_chance():
    recent = [profile(rows, nulls=0, distinct=rows) for rows in (3, 5, 4, 2, 6)]
    assert anomalies(profile(9, nulls=0, distinct=9), recent) == []


def test_an_hour_without_rows_is_unusual():
    assert [each.what for each in anomalies(Profile(0), USUAL)] == ["rows"]


def test_a_new_column_is_not_compared():
    assert anomalies(Profile(1000, {"new": ColumnProfile(1000, 0)}), USUAL) == []


def test_random_weeks_without_a_fault_are_hardly_ever_unusual():
    rng = random.Random(1)

    def week() -> Profile:
        rows = round(rng.gauss(10_000, 600))
        return profile(rows, nulls=rng.randint(80, 120), distinct=rows // 3, largest=rng.uniform(90, 110))

    found = sum(bool(anomalies(week(), [week() for _ in range(8)])) for _ in range(500))
    assert found <= 15


def test_the_numbers_are_in_the_text():
    (found,) = anomalies(Profile(430), [Profile(rows) for rows in (1000, 1040, 980, 1010, 1020)], Limits(weeks=5))
    assert str(found) == "rows: 430, usually 1,010 (median of 5); 27.1 deviations away"


def test_a_profile_with_impossible_numbers_is_refused():
    with pytest.raises(QualityError, match="in price"):
        profile(5, nulls=6)
    with pytest.raises(QualityError, match="-1 rows"):
        Profile(-1)
    with pytest.raises(QualityError, match="in price"):
        profile(5, nulls=0, largest=float("nan"))


def test_a_slot_is_compared_with_the_same_hours_of_the_week():
    ads = Dataset.flat("raw/ads", Grain.HOUR, first=date(2026, 11, 10))
    assert [str(each) for each in comparable_slots(ads, ads.slot("2026-11-27T15"))] == [
        "raw/ads - hour 2026-11-20T15:00Z",
        "raw/ads - hour 2026-11-13T15:00Z",
    ]
    assert [str(each) for each in comparable_slots(ads, ads.slot("2026-11-27"), 1)] == ["raw/ads - day 2026-11-20"]
    assert [str(each) for each in comparable_slots(ads, ads.slot("2026-12"), 1)] == ["raw/ads - month 2026-11"]
