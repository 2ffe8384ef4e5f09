from __future__ import annotations

from datetime import UTC, date, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from feed_assets.datasets.calendars import Calendar
from feed_assets.datasets.dataset import Dataset
from feed_assets.datasets.errors import DatasetError, MappingError
from feed_assets.datasets.grains import Grain
from feed_assets.datasets.input_mappings import last_slots, same_slot, shifted_slot, slots_containing, slots_within
from feed_assets.datasets.instants import instant_of
from feed_assets.datasets.members import Hierarchy, Member
from feed_assets.datasets.ranges import slots_on
from feed_assets.datasets.slots import Slot

START = date(2011, 1, 1)
PARIS = Calendar("Europe/Paris")
HOURS = Dataset.flat("raw/ads", Grain.HOUR, first=START)
FINE = Dataset.flat("raw/fine", Grain.FIVE_MINUTES, first=START)
DAYS = Dataset.flat("revenue/v1.0", Grain.DAY, first=START)
PARIS_DAYS = Dataset.flat("paris/v1.0", Grain.DAY, first=START, calendar=PARIS)
INDIA = Dataset.flat("india/v1.0", Grain.HOUR, first=START, calendar=Calendar("Asia/Kolkata"))
APIA = Dataset.flat("apia/v1.0", Grain.DAY, first=START, calendar=Calendar("Pacific/Apia"))
USERS = Dataset.flat("users/v1.0", Grain.WHOLE, first=START)


def regions(name: str, *, first: date = START) -> Dataset:
    members = [
        Member("asia", first, calendar=Calendar("UTC+08:00")),
        Member("europe", first),
        Member("us", first, calendar=Calendar("UTC-08:00")),
    ]
    return Dataset(name, Grain.HOUR.and_coarser, Hierarchy(("region",), tuple(members)))


REGIONS, COPY = regions("raw/r"), regions("clean/r")


def texts(slots: list[Slot]) -> list[str]:
    return [str(each).split(" ", 1)[1] for each in slots]


# same


def test_same_is_the_slot_with_the_same_start():
    assert texts(same_slot(DAYS.slot("2026-11-27"), DAYS, HOURS)) == ["- day 2026-11-27"]
    assert texts(same_slot(HOURS.slot("2026-11-27T15"), HOURS, FINE)) == ["- hour 2026-11-27T15:00Z"]


def test_same_keeps_the_batch_date_across_calendars():
    assert texts(same_slot(PARIS_DAYS.slot("2026-11-27"), PARIS_DAYS, DAYS)) == ["- day 2026-11-27"]


def test_same_is_empty_where_the_input_has_no_such_date():
    assert same_slot(DAYS.slot("2011-12-30"), DAYS, APIA) == []
    young = Dataset.flat("young/v1.0", Grain.DAY, first=date(2026, 1, 1))
    assert same_slot(DAYS.slot("2025-12-31"), DAYS, young) == []


def test_same_goes_to_the_same_member_or_to_the_one_of_a_flat_input():
    assert texts(same_slot(REGIONS.slot("2026-11-27", "asia"), REGIONS, COPY)) == ["asia day 2026-11-27"]
    assert texts(same_slot(REGIONS.slot("2026-11-27", "asia"), REGIONS, DAYS)) == ["- day 2026-11-27"]
    assert texts(same_slot(DAYS.slot("2026-11-27"), DAYS, REGIONS)) == ["- day 2026-11-27"]


def test_same_is_refused_where_it_has_no_meaning():
    with pytest.raises(
        MappingError, match=r"revenue/v1.0 has no slots of the grain hour; it has day, week, month, quarter"
    ):
        same_slot(HOURS.slot("2026-11-27T15"), HOURS, DAYS)
    with pytest.raises(MappingError, match="the slots of raw/ads begin at other instants"):
        same_slot(INDIA.slot("2026-11-27T15:30Z", grain=Grain.HOUR), INDIA, HOURS)
    other = Dataset("raw/b", Grain.HOUR.and_coarser, Hierarchy(("region",), (Member("moon", START),)))
    with pytest.raises(MappingError, match="raw/r has no member moon"):
        same_slot(other.slot("2026-11-27", "moon"), other, REGIONS)


# within


@pytest.mark.parametrize(("text", "hours"), [("2026-11-27", 24), ("2026-03-29", 23), ("2026-10-25", 25)])
def test_within_a_day_are_the_hours_of_its_window(text: str, hours: int):
    found = slots_within(PARIS_DAYS.slot(text), PARIS_DAYS, HOURS)
    assert len(found) == hours
    assert found[0].start == PARIS_DAYS.window(PARIS_DAYS.slot(text))[0]


def test_within_reaches_the_slots_at_both_ends_if_windows_do_not_begin_together():
    day = INDIA.slot("2026-11-27")
    found = slots_within(day, INDIA, HOURS)
    assert texts(found[:1]) == ["- hour 2026-11-26T18:00Z"]
    assert len(found) == 25


def test_within_a_month_are_its_dates():
    found = slots_within(DAYS.slot("2026-11"), DAYS, PARIS_DAYS, Grain.DAY)
    assert (texts(found)[0], texts(found)[-1], len(found)) == ("- day 2026-11-01", "- day 2026-11-30", 30)
    assert len(slots_within(HOURS.slot("2026-11-27T15"), HOURS, FINE, Grain.TEN_MINUTES)) == 6
    assert len(slots_within(DAYS.slot("2011-12"), DAYS, APIA)) == 30


def test_within_a_date_of_all_regions_are_the_hours_of_each_region_in_its_own_day():
    found = slots_within(REGIONS.slot("2026-11-27"), REGIONS, COPY)
    assert {each.member for each in found} == {"asia", "europe", "us"}
    assert len(found) == 72
    asia = min(each for each in found if each.member == "asia")
    assert str(asia) == "clean/r asia hour 2026-11-26T16:00Z"
    # A flat input has the hours of all windows once: from midnight in Asia to midnight in the US.
    assert len(slots_within(REGIONS.slot("2026-11-27"), REGIONS, HOURS)) == 40


def test_within_a_coarser_grain_or_a_slot_without_end_is_refused():
    with pytest.raises(MappingError, match=r"no month lies within a day. Name a finer grain"):
        slots_within(DAYS.slot("2026-11-27"), DAYS, DAYS, Grain.MONTH)
    with pytest.raises(MappingError, match="no week lies within a month"):
        slots_within(DAYS.slot("2026-11"), DAYS, DAYS, Grain.WEEK)
    with pytest.raises(MappingError, match=r"users/v1.0 - - - has no end"):
        slots_within(USERS.slot("-"), USERS, DAYS)


# containing


def test_containing_is_the_coarser_slot():
    hour = HOURS.slot("2026-11-27T23")
    assert texts(slots_containing(hour, HOURS, DAYS, Grain.DAY)) == ["- day 2026-11-27"]
    assert texts(slots_containing(hour, HOURS, PARIS_DAYS, Grain.DAY)) == ["- day 2026-11-28"]
    assert texts(slots_containing(hour, HOURS, DAYS, Grain.WEEK)) == ["- week 2026-W48"]
    assert texts(slots_containing(DAYS.slot("2026-11-27"), DAYS, PARIS_DAYS, Grain.QUARTER)) == ["- quarter 2026-Q4"]
    assert texts(slots_containing(hour, HOURS, USERS, Grain.WHOLE)) == ["- - -"]


def test_containing_are_two_slots_if_the_slot_lies_in_both():
    hour = INDIA.slot("2026-11-27T23:30Z", grain=Grain.HOUR)
    assert texts(slots_containing(hour, INDIA, DAYS, Grain.DAY)) == ["- day 2026-11-27", "- day 2026-11-28"]
    of_all = slots_containing(HOURS.slot("2026-11-27T20"), HOURS, REGIONS, Grain.DAY)
    assert texts(of_all) == ["- day 2026-11-27", "- day 2026-11-28"]


def test_containing_a_finer_grain_is_refused():
    with pytest.raises(MappingError, match=r"no hour contains a day. Name a coarser grain"):
        slots_containing(DAYS.slot("2026-11-27"), DAYS, HOURS, Grain.HOUR)
    with pytest.raises(MappingError, match="raw/ads has no slots of the grain -"):
        slots_containing(DAYS.slot("2026-11-27"), DAYS, HOURS, Grain.WHOLE)


# shift


@pytest.mark.parametrize(
    ("dataset", "slot", "count", "unit", "expected"),
    [
        (HOURS, "2026-11-27T15", -1, None, "- hour 2026-11-27T14:00Z"),
        (HOURS, "2026-11-27T00", -1, Grain.HOUR, "- hour 2026-11-26T23:00Z"),
        (HOURS, "2026-11-27T15", 24, None, "- hour 2026-11-28T15:00Z"),
        (DAYS, "2026-03-01", -1, None, "- day 2026-02-28"),
        (DAYS, "2026-11-27", -2, Grain.WEEK, "- day 2026-11-13"),
        (DAYS, "2026-W01", -1, None, "- week 2025-W52"),
        (DAYS, "2026-01", -1, None, "- month 2025-12"),
        (DAYS, "2026-11", 1, Grain.QUARTER, "- month 2027-02"),
        (DAYS, "2026-Q1", -1, None, "- quarter 2025-Q4"),
        (APIA, "2011-12-31", -1, None, "- day 2011-12-29"),
        (APIA, "2011-12-29", 1, None, "- day 2011-12-31"),
        (DAYS, "2026-11-27", 0, None, "- day 2026-11-27"),
    ],
)
def test_shift_moves_along_the_slots_of_the_input(dataset: Dataset, slot: str, count: int, unit: Grain, expected: str):
    assert texts(shifted_slot(dataset.slot(slot), dataset, dataset, count, unit)) == [expected]


def test_shift_by_hours_moves_finer_slots():
    slot = FINE.slot("2026-11-27T15:55", grain=Grain.FIVE_MINUTES)
    assert texts(shifted_slot(slot, FINE, FINE, -1, Grain.HOUR)) == ["- 5min 2026-11-27T14:55Z"]


def test_shift_before_the_first_date_of_the_input_is_empty():
    assert shifted_slot(DAYS.slot("2011-01-01"), DAYS, DAYS, -1) == []
    assert shifted_slot(HOURS.slot("2011-01-01T00"), HOURS, HOURS, -1) == []
    assert shifted_slot(USERS.slot("-"), USERS, USERS, -1) == shifted_slot(USERS.slot("-"), USERS, USERS, 1) == []
    assert len(shifted_slot(USERS.slot("-"), USERS, USERS, 0)) == 1


@pytest.mark.parametrize(
    ("dataset", "slot", "unit"),
    [
        (DAYS, "2026-11-27", Grain.MONTH),
        (HOURS, "2026-11-27T15", Grain.DAY),
        (DAYS, "2026-W48", Grain.MONTH),
        (DAYS, "2026-11-27", Grain.HOUR),
    ],
)
def test_shift_by_a_unit_without_a_fixed_number_of_slots_is_refused(dataset: Dataset, slot: str, unit: Grain):
    with pytest.raises(MappingError, match=f"cannot be shifted by a {unit}"):
        shifted_slot(dataset.slot(slot), dataset, dataset, -1, unit)


# last


def test_last_ends_with_the_same_slot():
    assert texts(last_slots(DAYS.slot("2026-11-27"), DAYS, PARIS_DAYS, 3)) == [
        "- day 2026-11-25",
        "- day 2026-11-26",
        "- day 2026-11-27",
    ]
    assert len(last_slots(HOURS.slot("2026-11-27T15"), HOURS, FINE, 24)) == 24
    assert texts(last_slots(DAYS.slot("2026-01"), DAYS, DAYS, 2)) == ["- month 2025-12", "- month 2026-01"]


def test_last_does_not_count_skipped_dates_and_is_shorter_at_the_beginning():
    assert texts(last_slots(APIA.slot("2012-01-01"), APIA, APIA, 3)) == [
        "- day 2011-12-29",
        "- day 2011-12-31",
        "- day 2012-01-01",
    ]
    assert len(last_slots(DAYS.slot("2011-01-03"), DAYS, DAYS, 7)) == 3
    with pytest.raises(MappingError, match=r"last\(0\) names no slot"):
        last_slots(DAYS.slot("2026-11-27"), DAYS, DAYS, 0)


# Every mapping


def test_a_slot_that_the_output_does_not_have_is_refused():
    for mapping in (same_slot, slots_within):
        with pytest.raises(DatasetError):
            mapping(Slot("revenue/v1.0", "-", Grain.DAY, 1), DAYS, HOURS)


@given(
    st.sampled_from([(DAYS, DAYS), (PARIS_DAYS, HOURS), (APIA, APIA), (REGIONS, COPY), (DAYS, REGIONS)]),
    st.integers(15_300, 15_400),
)
def test_what_contains_a_slot_has_it_within(pair: tuple[Dataset, Dataset], day: int):
    """Days of the input that lie within a month of the output are contained in it, and no others."""
    output, source = pair
    month = next(slots_on(output, Grain.MONTH, day - 1, day))
    days = slots_within(month, output, source, Grain.DAY)
    assert days == [*slots_on(source, Grain.DAY, days[0].start, days[-1].start)]
    for each in days:
        assert slots_containing(each, source, output, Grain.MONTH) == [month]


def test_regions_map_hours_alike():
    hour = REGIONS.slot_at(instant_of(datetime(2026, 11, 27, 15, tzinfo=UTC)), Grain.HOUR)
    assert texts(same_slot(hour, REGIONS, HOURS)) == ["- hour 2026-11-27T15:00Z"]
    assert texts(slots_within(hour, REGIONS, FINE, Grain.HOUR)) == ["- hour 2026-11-27T15:00Z"]
