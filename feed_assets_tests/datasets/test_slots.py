from __future__ import annotations

import re
from datetime import UTC, date, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from feed_assets.datasets.calendars import Calendar
from feed_assets.datasets.dataset import Dataset
from feed_assets.datasets.errors import CalendarError, DatasetError, GrainError, MemberError, SlotError
from feed_assets.datasets.grains import Grain
from feed_assets.datasets.instants import date_of, instant_of
from feed_assets.datasets.members import Hierarchy, Member
from feed_assets.datasets.ranges import slots_between, slots_on
from feed_assets.datasets.slots import Slot, parse_slot

START = date(2026, 1, 1)
ADS = Dataset.flat("raw/ads", Grain.FIVE_MINUTES, first=START)
REGIONS = Dataset(
    "raw/clicks",
    Grain.HOUR.and_coarser,
    Hierarchy(
        ("region",),
        (
            Member("asia", START, calendar=Calendar("UTC+08:00")),
            Member("india", START, calendar=Calendar("Asia/Kolkata")),
            Member("europe", date(2026, 3, 1), date(2026, 8, 31), Calendar("Europe/Paris")),
        ),
    ),
)


@pytest.mark.parametrize(
    "text",
    [
        "raw/ads - 5min 2026-11-27T15:55Z",
        "raw/ads - 10min 2026-11-27T15:50Z",
        "raw/ads - hour 2026-11-27T15:00Z",
        "raw/ads - day 2026-11-27",
        "raw/ads - week 2026-W48",
        "raw/ads - month 2026-11",
        "raw/ads - quarter 2026-Q4",
        "raw/ads - week 2026-W01",
    ],
)
def test_a_slot_has_one_text_which_names_it(text: str):
    assert str(ADS.parse(text)) == text


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        ("2026-11-27T15", "hour 2026-11-27T15:00Z"),
        ("2026-11-27T15Z", "hour 2026-11-27T15:00Z"),
        ("2026-11-27T15+01:00", "hour 2026-11-27T14:00Z"),
        ("2026-01-01", "day 2026-01-01"),
        ("2026-W53", "week 2026-W53"),
        ("2026-02", "month 2026-02"),
        ("2026-Q1", "quarter 2026-Q1"),
    ],
)
def test_a_person_names_a_slot_by_its_start(text: str, canonical: str):
    assert str(ADS.slot(text)) == f"raw/ads - {canonical}"


def test_a_time_with_minutes_needs_the_grain():
    assert str(ADS.slot("2026-11-27T15:50", grain=Grain.TEN_MINUTES)) == "raw/ads - 10min 2026-11-27T15:50Z"
    with pytest.raises(SlotError, match="'2026-11-27T15:50' may begin slots of several grains: name the grain"):
        ADS.slot("2026-11-27T15:50")


def test_a_time_without_an_offset_is_refused_unless_the_calendar_is_utc():
    assert ADS.slot("2026-11-27T15").start == instant_of(datetime(2026, 11, 27, 15, tzinfo=UTC))
    with pytest.raises(SlotError, match="'2026-11-27T15' has no offset: add Z for UTC"):
        REGIONS.slot("2026-11-27T15", "asia")
    text = "raw/clicks india hour 2026-11-27T09:30Z"
    assert str(REGIONS.slot("2026-11-27T15:00+05:30", "india", Grain.HOUR)) == text


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "is no slot: write dataset, member, grain and start"),
        ("raw/ads - hour", "is no slot"),
        ("raw/ads - hour 2026-11-27T15:00Z extra", "is no slot"),
        ("raw/ads  hour 2026-11-27T15:00Z", "'' is no member"),
        ("raw/ads - 2h 2026-11-27T15:00Z", "'2h' is no grain: use 5min, 10min, hour, day, week, month, quarter"),
        ("raw/ads - hour 2026-11-27T15:00", "has no offset"),
        ("raw/ads - hour 2026-11-27 15:00Z", "is no slot"),
        ("raw/ads - hour 2026-11-27", "'2026-11-27' is no start of the grain hour"),
        ("raw/ads - day 2026-11-27T00:00Z", "is no start of the grain day"),
        ("raw/ads - day 2026-02-30", "'2026-02-30' is no start of a slot: day is out of range"),
        ("raw/ads - day 26-02-03", "is no start of a slot"),
        ("raw/ads - hour 2026-11-27T24:00Z", "is no start of a slot: hour must be in"),
        ("raw/ads - week 2026-W54", "is no start of a slot: Invalid week"),
        ("raw/ads - week 2025-W53", "is no start of a slot: Invalid week"),
        ("raw/ads - month 2026-13", "is no start of a slot: month must be in"),
        ("raw/ads - quarter 2026-Q5", "is no start of a slot"),
        ("raw/ads - day 1969-12-31", "calendars have the years 1970 to 2099"),
        ("raw/ads - day ٢٠٢٦-11-27", "is no start of a slot"),
        ("raw/ads - day 2026-11-27\n", "is no start of a slot"),
        ("../ads - day 2026-11-27", "'../ads' is no dataset: '..' must begin with a letter"),
        ("/ads - day 2026-11-27", "is no dataset"),
        ("raw//ads - day 2026-11-27", "is no dataset"),
        ("raw/ads eu/../fr day 2026-11-27", "is no member"),
        ("raw/ads eu\\fr day 2026-11-27", "is no member"),
        ("raw/ads -x day 2026-11-27", "is no member"),
        ("raw/ads e\u0301u day 2026-11-27", "Unicode's form NFC"),
        ("x" * 256 + " - day 2026-11-27", "it has 256 characters"),
    ],
)
def test_a_text_that_is_no_slot_is_refused_with_the_reason(text: str, message: str):
    with pytest.raises(DatasetError, match=re.escape(message)):
        parse_slot(text)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("raw/ads - hour 2026-11-27T15:05Z", "is not on its grain: use 2026-11-27T15:00Z"),
        ("raw/ads - 10min 2026-11-27T15:55Z", "is not on its grain: use 2026-11-27T15:50Z"),
        ("raw/ads - 5min 2026-11-27T15:55:30Z", "is not on its grain: use 2026-11-27T15:55Z"),
        ("raw/ads - hour 2025-12-31T23:00Z", "- does not deliver at 2025-12-31T23:00:00Z; it delivers from 2026-01-01"),
        ("raw/ads - day 2025-12-31", "does not exist: - delivers from 2026-01-01 on"),
        ("raw/ads eu day 2026-11-27", "raw/ads: no member has the path 'eu'. The dataset has no hierarchy"),
        ("raw/other - day 2026-11-27", "is a slot of another dataset than raw/ads"),
    ],
)
def test_a_slot_that_the_dataset_does_not_have_is_refused(text: str, message: str):
    with pytest.raises(DatasetError, match=re.escape(message)):
        ADS.parse(text)


def test_integers_that_are_no_starts_are_refused_too():
    for grain, start in ((Grain.WEEK, 20785), (Grain.MONTH, 20784), (Grain.HOUR, 1_795_791_601), (Grain.DAY, 10**6)):
        with pytest.raises(DatasetError):
            ADS.check(Slot("raw/ads", "-", grain, start))
    with pytest.raises(SlotError, match="raw/ads - day 1795791600 does not exist: 1795791600 is no day of the years"):
        ADS.check(Slot("raw/ads", "-", Grain.DAY, 1_795_791_600))
    with pytest.raises(SlotError, match="does not deliver at 1795791600000000 s since 1970"):
        ADS.slot_at(1_795_791_600_000_000, Grain.HOUR)
    assert ADS.check(Slot("raw/ads", "-", Grain.WEEK, 20780)).start == 20780


def test_a_date_that_the_member_skips_is_no_slot():
    apia = Dataset.flat("raw/x", Grain.DAY, first=date(2011, 1, 1), calendar=Calendar("Pacific/Apia"))
    with pytest.raises(SlotError, match=r"day 2011-12-30 does not exist: Pacific/Apia has no 2011-12-30"):
        apia.slot("2011-12-30")


def test_a_member_delivers_between_its_dates_in_its_own_calendar():
    europe = REGIONS.branch("europe")
    assert europe.begin == instant_of(datetime(2026, 2, 28, 23, tzinfo=UTC))
    assert europe.end == instant_of(datetime(2026, 8, 31, 22, tzinfo=UTC))
    with pytest.raises(SlotError, match="europe delivers from 2026-03-01 to 2026-08-31"):
        REGIONS.slot("2026-09-01", "europe")
    assert REGIONS.window(REGIONS.slot("2026-Q1", "europe"))[0] == europe.begin


def test_members_that_begin_slots_at_other_instants_have_no_such_slots_together():
    with pytest.raises(
        GrainError, match="raw/clicks: - has no slots of the grain hour, because they begin at different"
    ):
        REGIONS.slot_at(1_795_791_600, Grain.HOUR)
    assert REGIONS.slot_at(1_795_791_600, Grain.HOUR, "india").start == 1_795_791_600 - 1800


def test_an_instant_in_several_batch_dates_is_refused():
    with pytest.raises(SlotError, match="2026-11-27T15:00:00Z may lie in several batch dates of -"):
        REGIONS.slot_at(1_795_791_600, Grain.DAY)
    assert date_of(REGIONS.slot_at(1_795_795_200, Grain.DAY, "asia").start) == date(2026, 11, 28)


def test_members_of_zones_with_equal_days_share_their_dates():
    pair = Hierarchy(
        ("city",),
        (
            Member("paris", START, calendar=Calendar("Europe/Paris")),
            Member("berlin", START, calendar=Calendar("Europe/Berlin")),
        ),
    )
    dataset = Dataset("raw/x", Grain.HOUR.and_coarser, pair)
    assert dataset.slot_at(1_795_791_600, Grain.DAY).start == 20784


def test_a_time_between_two_members_is_in_no_slot():
    members = (Member("a", START, date(2026, 1, 31)), Member("b", date(2026, 3, 1)))
    dataset = Dataset("raw/x", Grain.HOUR.and_coarser, Hierarchy(("x",), members))
    with pytest.raises(SlotError, match="- does not deliver at 2026-02-10T00:00:00Z; it delivers with gaps"):
        dataset.slot_at(instant_of(datetime(2026, 2, 10, tzinfo=UTC)), Grain.HOUR)
    with pytest.raises(SlotError):
        dataset.slot("2026-02")
    assert [str(each)[-7:] for each in slots_on(dataset, Grain.MONTH, 20454, 20580)] == [
        "2026-01",
        "2026-03",
        "2026-04",
        "2026-05",
    ]


def test_a_dataset_without_partitions_has_one_slot():
    users = Dataset.flat("users/v1.0", Grain.WHOLE, first=START)
    assert [str(each) for each in slots_on(users, Grain.WHOLE, 20454, 20800)] == ["users/v1.0 - - -"]
    assert users.parse("users/v1.0 - - -") == users.slot("-") == users.slot_at(1_795_791_600, Grain.WHOLE)


@pytest.mark.parametrize(
    ("grains", "message"),
    [
        ((), "raw/x has no grain"),
        ((Grain.WEEK, Grain.MONTH), "raw/x: its base week does not divide month"),
        ((Grain.DAY, Grain.WHOLE), "raw/x: its base day does not divide -"),
    ],
)
def test_a_base_that_does_not_divide_the_grains_is_refused(grains: tuple[Grain, ...], message: str):
    with pytest.raises(GrainError, match=message):
        Dataset("raw/x", grains, Hierarchy.flat(START))


@pytest.mark.parametrize(
    "name", ["", "a b", "a//b", "/a", "a/", "..", "a/../b", ".a", "-", "a\n", "a\\b", "a:b", "x" * 256]
)
def test_a_dataset_with_an_unsafe_name_is_refused(name: str):
    with pytest.raises(MemberError, match="is no name of a dataset"):
        Dataset.flat(name, Grain.DAY, first=START)


def test_errors_of_instants_outside_the_calendar_name_the_limits():
    with pytest.raises(SlotError, match="does not deliver at"):
        ADS.slot_at(10**10, Grain.HOUR)
    with pytest.raises(CalendarError):
        Calendar("UTC").day_at(10**10)


@given(
    grain=st.sampled_from([each for each in Grain if each is not Grain.WHOLE]),
    instant=st.integers(instant_of(datetime(1970, 1, 4, tzinfo=UTC)), instant_of(datetime(2099, 12, 27, tzinfo=UTC))),
    zone=st.sampled_from(["UTC", "Asia/Kolkata", "Pacific/Apia", "America/St_Johns", "Europe/Dublin", "UTC-03:07"]),
)
def test_text_and_slot_are_one_another(grain: Grain, instant: int, zone: str):
    first = date(1975, 1, 1)
    dataset = Dataset("raw/x", (grain,), Hierarchy.flat(first, calendar=Calendar(zone)))
    if instant < dataset.branch("-").begin:
        return
    slot = dataset.slot_at(instant, grain)
    assert dataset.parse(str(slot)) == parse_slot(str(slot)) == slot
    begin, end = dataset.window(slot)
    assert begin <= instant < end
    assert [*slots_between(dataset, grain, instant, instant + 1)] == [slot]
