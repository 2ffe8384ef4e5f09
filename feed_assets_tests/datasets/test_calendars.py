from __future__ import annotations

import os
import subprocess
import sys
from datetime import UTC, date, datetime, timedelta
from itertools import pairwise
from zoneinfo import ZoneInfo

import pytest

from feed_assets.datasets.calendars import Calendar, DayWindow
from feed_assets.datasets.dataset import Dataset
from feed_assets.datasets.errors import CalendarError, GrainError
from feed_assets.datasets.grains import Grain
from feed_assets.datasets.instants import date_of, day_of, instant_of, moment_of


def day(text: str) -> int:
    return day_of(date.fromisoformat(text))


def instant(text: str) -> int:
    return instant_of(datetime.fromisoformat(text))


def hours(calendar: Calendar, text: str) -> float:
    window = calendar.window(day(text))
    return (window.end - window.start) / 3600


@pytest.mark.parametrize(
    ("zone", "text", "length"),
    [
        ("UTC", "2026-03-29", 24),
        ("UTC+05:30", "2026-03-29", 24),
        ("Europe/Paris", "2026-03-29", 23),
        ("Europe/Paris", "2026-10-25", 25),
        ("Australia/Lord_Howe", "2026-10-04", 23.5),
        ("Australia/Lord_Howe", "2026-04-05", 24.5),
        ("Antarctica/Troll", "2026-03-29", 22),
        ("America/Caracas", "2016-05-01", 23.5),
        ("Asia/Pyongyang", "2015-08-14", 24.5),
        ("Africa/Monrovia", "1972-01-07", 24 - (44 * 60 + 30) / 3600),
        ("America/St_Johns", "1988-04-02", 24),
    ],
)
def test_a_day_is_as_long_as_the_zone_says(zone: str, text: str, length: float):
    assert hours(Calendar(zone), text) == pytest.approx(length)


def test_a_day_without_midnight_begins_at_its_first_instant():
    cairo = Calendar("Africa/Cairo")
    start = cairo.window(day("2026-04-24")).start
    assert moment_of(start).astimezone(ZoneInfo("Africa/Cairo")).isoformat() == "2026-04-24T01:00:00+03:00"
    assert cairo.day_at(start - 1) == day("2026-04-23")
    assert hours(cairo, "2026-04-24") == 23


def test_minutes_that_are_repeated_after_midnight_belong_to_the_newer_date():
    """On 2010-11-07 at 00:01 the clocks of Newfoundland went back to 23:01 of the day before."""
    newfoundland = Calendar("America/St_Johns")
    start = newfoundland.window(day("2010-11-07")).start
    assert moment_of(start).isoformat() == "2010-11-07T02:30:00+00:00"
    repeated = start + 30 * 60
    assert moment_of(repeated).astimezone(ZoneInfo("America/St_Johns")).date() == date(2010, 11, 6)
    assert newfoundland.day_at(repeated) == day("2010-11-07")
    assert (hours(newfoundland, "2010-11-06"), hours(newfoundland, "2010-11-07")) == (24, 25)


@pytest.mark.parametrize(("zone", "skipped"), [("Pacific/Apia", "2011-12-30"), ("Pacific/Kwajalein", "1993-08-21")])
def test_a_date_that_a_zone_skips_does_not_exist(zone: str, skipped: str):
    calendar, missing = Calendar(zone), day(skipped)
    assert not calendar.exists(missing)
    assert [*calendar.existing(missing - 1, missing + 1)] == [missing - 1, missing + 1]
    assert calendar.window(missing - 1).end == calendar.window(missing + 1).start
    with pytest.raises(CalendarError, match=f"{zone} has no {skipped}: its clocks skip the date"):
        calendar.window(missing)


def test_days_of_all_years_join():
    for zone in ("Pacific/Apia", "America/St_Johns"):
        calendar = Calendar(zone)
        windows = [calendar.window(each) for each in calendar.existing(day("1970-01-01"), day("2099-12-31"))]
        assert all(before.end == after.start for before, after in pairwise(windows)), zone
        assert len(windows) >= 47_481


@pytest.mark.parametrize(
    ("text", "zone"),
    [("UTC+8", "UTC+08:00"), ("+08:00", "UTC+08:00"), ("UTC-0330", "UTC-03:30"), ("UTC+00:00", "UTC"), ("UTC", "UTC")],
)
def test_an_offset_has_one_name(text: str, zone: str):
    assert Calendar(text).zone == zone
    assert Calendar(text) == Calendar(zone)


@pytest.mark.parametrize(
    ("zone", "message"),
    [
        ("Europe/Pariss", "did you mean Europe/Paris?"),
        ("Paris", "did you mean Europe/Paris?"),
        ("new york", "did you mean America/New_York?"),
        ("europe/paris", "'europe/paris' is no time zone"),
        ("Mars/Phobos", "'Mars/Phobos' is no time zone"),
        ("", "'' is no time zone: use a name such as Europe/Paris, or an offset such as UTC\\+08:00"),
        ("../etc/passwd", "is no time zone"),
        ("/etc/localtime", "is no time zone"),
        ("right/UTC", "is no time zone"),
        ("localtime", "its meaning depends on the machine"),
        ("America", "is no time zone"),
        ("Europe/Paris\n", "did you mean Europe/Paris?"),
        ("utc", "did you mean UTC?"),
        ("GMT+1", "write UTC\\+1. The zones named Etc/GMT\\+1 and so on have the opposite sign"),
        ("UTC+19", "the widest is 18 hours"),
        ("UTC+05:75", "is no time zone"),
        (600, "600 is no zone but int: write a text such as 'UTC\\+10:00'"),
        (None, "None is no zone but NoneType"),
    ],
)
def test_a_zone_that_does_not_exist_is_refused_with_what_to_write(zone: object, message: str):
    with pytest.raises(CalendarError, match=message.replace("?", r"\?")):
        Calendar(zone)  # type: ignore[arg-type]


@pytest.mark.parametrize("seconds", [instant("1969-12-30T00:00Z"), instant("2100-01-02T00:00Z"), 10**12])
def test_an_instant_outside_the_years_of_calendars_is_refused(seconds: int):
    with pytest.raises(CalendarError, match="outside the years of calendars, 1970 to 2099"):
        Calendar("Europe/Paris").day_at(seconds)


def test_a_date_outside_the_years_and_a_time_without_a_zone_are_refused():
    with pytest.raises(CalendarError, match="1969-12-31 is no batch date here"):
        day_of(date(1969, 12, 31))
    with pytest.raises(CalendarError, match="has no zone, so it is no instant"):
        instant_of(datetime(2026, 1, 1))  # noqa: DTZ001 - the mistake under test
    assert instant_of(datetime(1969, 12, 31, 23, 59, 59, 500_000, tzinfo=UTC)) == -1


@pytest.mark.parametrize(
    ("zone", "grain", "phase"),
    [
        ("Europe/Paris", Grain.HOUR, 0),
        ("Asia/Kolkata", Grain.HOUR, 1800),
        ("Asia/Kolkata", Grain.TEN_MINUTES, 0),
        ("Asia/Kathmandu", Grain.HOUR, 900),
        ("Asia/Kathmandu", Grain.TEN_MINUTES, 300),
        ("Asia/Kathmandu", Grain.FIVE_MINUTES, 0),
        ("Australia/Lord_Howe", Grain.TEN_MINUTES, 0),
        ("UTC-03:07", Grain.FIVE_MINUTES, 120),
    ],
)
def test_slots_below_a_day_align_to_utc_where_offsets_allow_it_else_to_local_time(zone: str, grain: Grain, phase: int):
    assert Calendar(zone).phase(grain, day("2016-01-01")) == phase


@pytest.mark.parametrize(
    ("zone", "first", "grain", "message"),
    [
        (
            "Australia/Lord_Howe",
            "2026-01-01",
            Grain.HOUR,
            "2026-04-05 is 24.5 h long there, .* Use 5min, 10min, day, or an offset",
        ),
        ("Asia/Kathmandu", "1980-01-01", Grain.HOUR, "1986-01-01 is 23.75 h long"),
        ("America/Caracas", "2016-01-01", Grain.HOUR, "2016-05-01 is 23.5 h long"),
        (
            "Africa/Monrovia",
            "1970-01-01",
            Grain.FIVE_MINUTES,
            "1972-01-07 is 23.2583 h long there, .* Use day, a first batch date after it, or",
        ),
    ],
)
def test_a_grain_that_days_do_not_divide_into_is_refused_when_the_dataset_is_loaded(
    zone: str, first: str, grain: Grain, message: str
):
    with pytest.raises(GrainError, match=f"raw/x: {zone} has no slots of the grain {grain}: .*({message})"):
        Dataset.flat("raw/x", grain, first=date.fromisoformat(first), calendar=Calendar(zone))


def test_only_the_dates_of_the_member_decide_whether_a_grain_fits():
    caracas = Calendar("America/Caracas")
    after = Dataset.flat("raw/x", Grain.HOUR, first=date(2016, 5, 2), calendar=caracas)
    before = Dataset.flat("raw/x", Grain.HOUR, first=date(2010, 1, 1), last=date(2016, 4, 30), calendar=caracas)
    assert str(after.slot_at(instant("2020-01-01T00:10Z"), Grain.HOUR)).endswith("00:00Z")
    assert str(before.slot_at(instant("2016-01-01T00:10Z"), Grain.HOUR)).endswith("2015-12-31T23:30Z")


def test_nothing_is_delivered_on_holidays_which_exist_nevertheless():
    christmas = day("2026-12-25")
    calendar = Calendar("Europe/Paris", holidays=frozenset({date(2026, 12, 25)}))
    assert calendar.exists(christmas)
    assert [each for each in range(christmas - 3, christmas + 3) if calendar.is_holiday(each)] == [christmas]
    dataset = Dataset.flat("raw/x", Grain.HOUR, first=date(2026, 1, 1), calendar=calendar)
    assert dataset.is_holiday(dataset.slot("2026-12-25"))
    assert dataset.is_holiday(dataset.slot_at(instant("2026-12-24T23:00Z"), Grain.HOUR))
    assert not dataset.is_holiday(dataset.slot_at(instant("2026-12-25T23:00Z"), Grain.HOUR))
    assert not dataset.is_holiday(dataset.slot("2026-12"))


# Stored windows: the zone data of yesterday is played by another zone.


def test_stored_windows_stay_and_new_zone_data_changes_later_days_only():
    old, new = Calendar("UTC-05:00"), Calendar("UTC-04:00")
    stored = [old.window(each) for each in range(day("2026-11-01"), day("2026-11-11"))]
    kept = new.keeping(stored)
    assert [kept.window(each.day) for each in stored] == stored
    first_after = kept.window(stored[-1].day + 1)
    assert first_after == DayWindow(stored[-1].day + 1, stored[-1].end, new.window(stored[-1].day + 1).end)
    later = range(stored[-1].day + 2, day("2026-12-31"))
    assert [kept.window(each) for each in later] == [new.window(each) for each in later]
    assert all(kept.day_at(each.start) == each.day == kept.day_at(each.end - 1) for each in stored)


def test_days_between_stored_windows_take_what_is_left():
    old, new = Calendar("UTC-05:00"), Calendar("UTC+03:00")
    first, last = day("2026-11-01"), day("2026-11-05")
    kept = new.keeping([old.window(last), old.window(first)])
    windows = [kept.window(each) for each in kept.existing(first - 3, last + 3)]
    assert all(before.end == after.start for before, after in pairwise(windows))
    assert kept.window(first) == old.window(first)
    assert kept.window(last) == old.window(last)
    assert kept.window(first + 2) == new.window(first + 2)


def test_a_date_with_a_stored_window_stays_if_new_zone_data_skips_it():
    old, new = Calendar("UTC-10:00"), Calendar("Pacific/Apia")
    kept = new.keeping([old.window(day("2011-12-30"))])
    assert kept.window(day("2011-12-30")) == old.window(day("2011-12-30"))
    assert not kept.exists(day("2011-12-31"))
    assert kept.window(day("2012-01-01")).start == old.window(day("2011-12-30")).end


def test_a_stored_window_of_three_days_leaves_no_time_for_the_next_two():
    calendar = Calendar("UTC")
    first, begin = day("2026-11-01"), instant("2026-11-01T00:00Z")
    kept = calendar.keeping([DayWindow(first, begin, begin + 3 * 86_400)])
    assert [*kept.existing(first - 1, first + 4)] == [first - 1, first, first + 3, first + 4]
    assert kept.window(first + 3) == calendar.window(first + 3)
    assert [kept.exists(first + more) for more in range(4)] == [True, False, False, True]
    assert kept.day_at(begin + 2 * 86_400) == first
    dataset = Dataset.flat("raw/x", Grain.DAY, first=date(2026, 11, 2), last=date(2026, 11, 4), calendar=kept)
    assert dataset.window(dataset.slot("2026-11")) == tuple(calendar.window(first + 3)[1:])


def test_stored_windows_as_the_zone_data_has_them_change_nothing():
    paris = Calendar("Europe/Paris")
    kept = paris.keeping(paris.window(each) for each in range(day("2026-10-20"), day("2026-10-30")))
    assert kept.days is paris.days
    assert kept != paris


def test_slots_go_on_without_gap_after_new_zone_data():
    stored = Calendar("UTC-05:00").window(day("2026-11-01"))
    calendar = Calendar("UTC-04:00").keeping([stored])
    dataset = Dataset.flat("raw/x", Grain.HOUR, first=date(2026, 10, 30), calendar=calendar)
    with_fraction = Calendar("UTC-04:30").keeping([stored])
    assert dataset.slot_at(stored.end, Grain.HOUR).start == stored.end
    with pytest.raises(GrainError, match=r"2026-10-31 is 24\.5 h long"):
        Dataset.flat("raw/x", Grain.HOUR, first=date(2026, 10, 30), calendar=with_fraction)


@pytest.mark.parametrize(
    ("windows", "message"),
    [
        ([(day("2026-11-01"), 100, 100)], "the stored window of 2026-11-01 ends before it begins"),
        ([(-5, 0, 100)], "outside the years"),
        ([(day("2026-11-01"), 0, 100), (day("2026-11-02"), 99, 200)], "2026-11-01 overlaps that of 2026-11-02"),
        ([(day("2026-11-01"), 0, 100), (day("2026-11-01"), 0, 90)], "overlaps"),
        ([(day("2026-11-01"), 0, 100), (day("2026-11-02"), 101, 200)], "leaves a gap before that of 2026-11-02"),
    ],
)
def test_stored_windows_that_contradict_each_other_are_refused(windows: list[tuple[int, int, int]], message: str):
    with pytest.raises(CalendarError, match=f"Europe/Paris: .*{message}"):
        Calendar("Europe/Paris", windows=tuple(DayWindow(*each) for each in windows))


def test_dates_and_days_are_one_another():
    start = date(1970, 1, 1)
    assert [day_of(start + timedelta(days=each)) for each in (0, 1, 20784)] == [0, 1, 20784]
    assert date_of(20784) == date(2026, 11, 27)


def test_a_machine_without_zone_data_of_its_own_takes_those_of_the_package():
    length = "window = Calendar('Europe/Paris').window(20751); print(window.end - window.start)"
    assert _alone(length).stdout.strip() == "90000"
    without = _alone("sys.modules['tzdata'] = None; Calendar('Europe/Paris')")
    assert "this machine has no zone data; install the package tzdata" in without.stderr


def _alone(program: str) -> subprocess.CompletedProcess[str]:
    """A Python in which the folders of zone data do not exist."""
    code = f"import sys; from feed_assets.datasets.calendars import Calendar; {program}"
    environment = {**os.environ, "PYTHONTZPATH": ""}
    return subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=False)
