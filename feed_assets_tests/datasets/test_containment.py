"""Base sets, children and parents: on cases that the documents name, and on random datasets."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from feed_assets.datasets.calendars import Calendar
from feed_assets.datasets.containment import (
    ancestors,
    base_set,
    base_starts,
    member_children,
    member_parent,
    time_children,
    time_parents,
)
from feed_assets.datasets.dataset import Dataset
from feed_assets.datasets.errors import GrainError, MemberError, SlotError
from feed_assets.datasets.grains import Grain
from feed_assets.datasets.instants import day_of, instant_of
from feed_assets.datasets.members import Hierarchy, Member
from feed_assets.datasets.ranges import slots_between, slots_on
from feed_assets.datasets.slots import Slot

START = date(2010, 1, 1)
MIDNIGHTS = Dataset(
    "raw/ads",
    Grain.HOUR.and_coarser,
    Hierarchy(
        ("region", "country"),
        tuple(
            Member(path, START, calendar=Calendar(zone))
            for path, zone in [("apac/cn", "+8"), ("in/pk", "+5"), ("eu/gb", "UTC"), ("us/ca", "-8"), ("us/or", "-8")]
        ),
    ),
)


def utc(text: str) -> int:
    return instant_of(datetime.fromisoformat(text).replace(tzinfo=UTC))


def test_the_windows_of_the_text_are_in_the_hour_and_the_ten_minutes_that_it_lists():
    ads = Dataset.flat("raw/ads", Grain.FIVE_MINUTES, first=date(2026, 1, 1))
    windows = [*slots_between(ads, Grain.FIVE_MINUTES, utc("2026-11-27T15:58"), utc("2026-11-27T16:08"))]
    assert [str(each)[-6:] for each in windows] == ["15:55Z", "16:00Z", "16:05Z"]
    above = [str(each) for each in ancestors(ads, windows[0])]
    assert above[:2] == ["raw/ads - 10min 2026-11-27T15:50Z", "raw/ads - hour 2026-11-27T15:00Z"]
    day = ads.slot("2026-11-27")
    assert len(time_children(ads, day)) == 24
    assert len(time_children(ads, day, Grain.TEN_MINUTES)) == 144
    assert base_starts(ads, day)[0].starts == range(day.start * 86_400, (day.start + 1) * 86_400, 300)


def test_a_batch_date_has_the_hours_of_each_member_in_its_own_day():
    date_of_all = MIDNIGHTS.slot("2026-11-27")
    starts = dict(base_starts(MIDNIGHTS, date_of_all))
    assert {member: hours[0] for member, hours in starts.items()} == {
        "apac/cn": utc("2026-11-26T16:00"),
        "in/pk": utc("2026-11-26T19:00"),
        "eu/gb": utc("2026-11-27T00:00"),
        "us/ca": utc("2026-11-27T08:00"),
        "us/or": utc("2026-11-27T08:00"),
    }
    assert all(len(hours) == 24 for hours in starts.values())
    assert MIDNIGHTS.window(date_of_all) == (utc("2026-11-26T16:00"), utc("2026-11-28T08:00"))


def test_such_a_date_is_cut_by_members_first_and_its_members_by_hours():
    of_all = MIDNIGHTS.slot("2026-11-27")
    assert [each.member for each in member_children(MIDNIGHTS, of_all)] == ["apac", "eu", "in", "us"]
    with pytest.raises(SlotError, match="a date has no hours at -, whose members have several calendars"):
        time_children(MIDNIGHTS, of_all)
    of_us = of_all._replace(member="us")
    assert [each.start for each in time_children(MIDNIGHTS, of_us)] == [
        utc("2026-11-27T08:00") + hour * 3600 for hour in range(24)
    ]


def test_an_hour_of_one_region_leads_to_the_dates_of_that_region_and_of_all():
    hour = MIDNIGHTS.slot_at(utc("2026-11-27T17:00"), Grain.HOUR, "apac/cn")
    above = {str(each).removeprefix("raw/ads ") for each in ancestors(MIDNIGHTS, hour)}
    assert {"apac hour 2026-11-27T17:00Z", "- hour 2026-11-27T17:00Z", "- day 2026-11-28"} <= above
    assert "- day 2026-11-27" not in above
    assert time_parents(MIDNIGHTS, hour._replace(member="-")) == []


@pytest.mark.parametrize(("text", "hours"), [("2026-03-29", 23), ("2026-10-25", 25), ("2026-11-27", 24)])
def test_a_day_has_as_many_hours_as_its_calendar_says(text: str, hours: int):
    paris = Dataset.flat("raw/x", Grain.HOUR, first=START, calendar=Calendar("Europe/Paris"))
    assert len(time_children(paris, paris.slot(text))) == hours


def test_a_week_with_a_skipped_date_has_six_days():
    apia = Dataset.flat("raw/x", Grain.HOUR, first=START, calendar=Calendar("Pacific/Apia"))
    week = apia.slot("2011-W52")
    assert len(time_children(apia, week)) == 6
    assert len([*base_set(apia, week)]) == 6 * 24


def test_a_month_has_the_days_on_which_a_member_delivers():
    dataset = Dataset.flat("raw/x", Grain.DAY, first=date(2026, 11, 10), last=date(2026, 12, 5))
    assert len([*base_set(dataset, dataset.slot("2026-11"))]) == 21
    assert len([*base_set(dataset, dataset.slot("2026-12"))]) == 5
    assert dataset.window(dataset.slot("2026-Q4")) == (utc("2026-11-10"), utc("2026-12-06"))


def test_weeks_do_not_divide_months():
    days = Dataset.flat("raw/x", Grain.DAY, first=START)
    assert [each.grain for each in time_parents(days, days.slot("2026-11-27"))] == [Grain.WEEK, Grain.MONTH]
    assert time_parents(days, days.slot("2026-W48")) == []
    assert [each.grain for each in time_parents(days, days.slot("2026-11"))] == [Grain.QUARTER]
    with pytest.raises(SlotError, match="has no children of the grain week; use day"):
        time_children(days, days.slot("2026-11"), Grain.WEEK)


def test_a_grain_that_the_dataset_leaves_out_is_passed_over():
    grains = (Grain.TEN_MINUTES, Grain.DAY)
    island = Dataset("raw/x", grains, Hierarchy.flat(date(2026, 1, 1), calendar=Calendar("Australia/Lord_Howe")))
    day = island.slot("2026-04-05")
    assert len(time_children(island, day)) == 147
    assert time_parents(island, time_children(island, day)[0]) == [day]
    with pytest.raises(GrainError, match="raw/x has no slots of the grain hour; it has 10min, day"):
        island.slot_at(utc("2026-04-05"), Grain.HOUR)


def test_a_path_that_does_not_exist_is_refused_with_those_that_do():
    with pytest.raises(MemberError, match=r"raw/ads: no member has the path 'us/xx'. Below us are: us/ca, us/or"):
        MIDNIGHTS.slot("2026-11-27", "us/xx")
    with pytest.raises(MemberError, match=r"no member has the path 'xx'. Below - are: apac, eu, in, us"):
        MIDNIGHTS.slot("2026-11-27", "xx")


def test_base_sets_are_ranges_however_large():
    ads = Dataset.flat("raw/ads", Grain.FIVE_MINUTES, first=START, calendar=Calendar("Europe/Paris"))
    (member,) = base_starts(ads, ads.slot("2026-Q4"))
    assert isinstance(member.starts, range)
    assert len(member.starts) == 92 * 288 + 12  # October has an hour more


# Random datasets, around dates that are odd in their zones.

ZONES = ["UTC", "Europe/Paris", "Asia/Kolkata", "Pacific/Apia", "America/St_Johns", "UTC-08:00", "Australia/Lord_Howe"]
AROUND = [date(2011, 12, 30), date(2010, 11, 7), date(2011, 3, 27), date(2011, 10, 2), date(2011, 6, 15)]


@st.composite
def datasets(draw: Any) -> tuple[Dataset, int]:
    """A dataset with up to three members in two regions, and a day near which a member may begin or end."""
    middle = draw(st.sampled_from(AROUND))
    near = st.integers(-9, 9).map(lambda days: middle + timedelta(days=days))
    paths = draw(st.sampled_from([["-"], ["a/x"], ["a/x", "a/y"], ["a/x", "b/x"], ["a/x", "a/y", "b/x"]]))
    members = []
    for path in paths:
        first = draw(st.one_of(st.just(date(2010, 1, 1)), near))
        last = draw(st.one_of(st.none(), near.filter(lambda day, first=first: day >= first)))
        members.append(Member(path, first, last, Calendar(draw(st.sampled_from(ZONES)))))
    levels = () if paths == ["-"] else ("region", "country")
    fine = (Grain.TEN_MINUTES, Grain.DAY)  # divides the days of all zones
    grains = draw(
        st.sampled_from([fine, (*fine, Grain.HOUR), (Grain.HOUR, Grain.DAY, Grain.WEEK), Grain.DAY.and_coarser])
    )
    try:
        dataset = Dataset("raw/x", grains, Hierarchy(levels, tuple(members)))
    except GrainError:
        dataset = Dataset("raw/x", fine, Hierarchy(levels, tuple(members)))
    return dataset, day_of(middle)


def slots_near(dataset: Dataset, day: int, member: str) -> list[Slot]:
    """The slots of all grains near a day; below a day only some hours, for time."""
    found: list[Slot] = []
    for grain in dataset.grains:
        try:
            begin = day * 86_400 - (1 if grain.seconds else 36) * 3600
            end = day * 86_400 + (1 if grain.seconds else 60) * 3600
            found += slots_between(dataset, grain, begin, end, member)
        except GrainError:
            assert len(dataset.branch(member).leaves) > 1
    return found


@settings(max_examples=40)
@given(datasets())
def test_the_slots_of_a_member_part_its_time_without_gap_or_overlap(drawn: tuple[Dataset, int]):
    dataset, day = drawn
    for member in dataset.hierarchy.members:
        begin, end = max(member.begin, (day - 12) * 86_400), min(member.end, (day + 12) * 86_400)
        for grain in dataset.grains:
            slots = [*slots_between(dataset, grain, begin, end, member.path)]
            windows = [dataset.window(each) for each in slots]
            assert all(before[1] == after[0] and before[0] < before[1] for before, after in pairwise(windows))
            if begin < end:
                assert windows[0][0] <= begin < windows[0][1]
                assert windows[-1][0] < end <= windows[-1][1]
            for slot, window in zip(slots[:30], windows, strict=False):
                middle = (window[0] + window[1]) // 2
                assert [dataset.slot_at(at, grain, member.path) for at in (window[0], middle, window[1] - 1)] == [
                    slot
                ] * 3


@settings(max_examples=40)
@given(datasets())
def test_the_base_set_of_a_slot_is_the_union_of_its_childrens_base_sets(drawn: tuple[Dataset, int]):
    dataset, day = drawn
    for member in dataset.hierarchy:
        for slot in slots_near(dataset, day, member):
            whole = [*base_set(dataset, slot)]
            assert len(set(whole)) == len(whole) > 0
            if parts := member_children(dataset, slot):
                assert sorted(each for part in parts for each in base_set(dataset, part)) == sorted(whole)
            if dataset.branch(member).days is not None and (parts := time_children(dataset, slot)):
                assert sorted(each for part in parts for each in base_set(dataset, part)) == sorted(whole)
                assert all(slot in ancestors(dataset, part) for part in parts)


@settings(max_examples=40)
@given(datasets())
def test_parents_and_ancestors_are_the_slots_whose_base_sets_contain_a_slots(drawn: tuple[Dataset, int]):
    dataset, day = drawn
    slots = [slot for member in dataset.hierarchy for slot in slots_near(dataset, day, member)]
    near = {slot: frozenset(base_set(dataset, slot)) for slot in slots}
    for slot, inside in near.items():
        above = ancestors(dataset, slot)
        assert len(above) == len(set(above))
        for parent in above:
            assert inside <= (near.get(parent) or set(base_set(dataset, parent))), (slot, parent)
        direct = [*time_parents(dataset, slot), *filter(None, [member_parent(dataset, slot)])]
        assert set(direct) <= set(above)
        # Complete: a slot at or above the member, of a coarser or the same grain, that has the whole base set.
        for other, outside in near.items():
            is_above = other.member in {slot.member, "-"} or slot.member.startswith(other.member + "/")
            if is_above and slot.grain.divides(other.grain) and inside < outside and _led_to(dataset, slot, other):
                assert other in above, (slot, other)


def _led_to(dataset: Dataset, slot: Slot, other: Slot) -> bool:
    """Below a day, a date of several calendars may have the hours of an hour of all by chance, near members' ends."""
    return not (slot.grain.seconds and not other.grain.seconds and dataset.branch(slot.member).days is None)


@settings(max_examples=40)
@given(datasets())
def test_the_slots_of_dates_are_those_whose_base_sets_have_them(drawn: tuple[Dataset, int]):
    dataset, day = drawn
    for member in dataset.hierarchy.members:
        calendar = member.calendar
        dates = [each for each in range(day - 5, day + 6) if member.first_day <= each <= member.last_day]
        windows = [calendar.window(each) for each in dates if calendar.exists(each)]
        for grain in dataset.grains:
            found = [*slots_on(dataset, grain, day - 5, day + 5, member.path)]
            expected = (slots_between(dataset, grain, each.start, each.end, member.path) for each in windows)
            assert found == sorted({slot for slots in expected for slot in slots})
