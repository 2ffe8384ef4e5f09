"""Every zone, over 20 years, against an account by instants that shares nothing with the code."""

from __future__ import annotations

import random
import struct
import zoneinfo
from bisect import bisect_left
from collections import defaultdict
from datetime import UTC, date, datetime, timedelta
from functools import cache
from importlib.resources import files
from itertools import pairwise
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest

from feed_assets.datasets.calendars import Calendar
from feed_assets.datasets.dataset import Dataset
from feed_assets.datasets.errors import GrainError
from feed_assets.datasets.grains import Grain
from feed_assets.datasets.instants import date_of, day_of, instant_of
from feed_assets.datasets.ranges import slots_between

FIRST, LAST = date(2016, 6, 1), date(2036, 6, 1)
BEGIN, END = instant_of(datetime(2016, 6, 3, tzinfo=UTC)), instant_of(datetime(2036, 5, 28, tzinfo=UTC))
DAY, STEP = 86_400, 300
SUB_DAY = [Grain.FIVE_MINUTES, Grain.TEN_MINUTES, Grain.HOUR]
ZONES = sorted(zoneinfo.available_timezones() - {"localtime"})


def offset(zone: ZoneInfo, instant: int) -> int:
    return int(datetime.fromtimestamp(instant, zone).utcoffset().total_seconds())


def changes(zone: ZoneInfo) -> tuple[tuple[int, int, int], ...]:
    """The instants at which the offset changes, with the offsets before and after: by readings four days apart."""
    found, before = [], offset(zone, BEGIN)
    for begin in range(BEGIN, END, 4 * DAY):
        if (after := offset(zone, begin + 4 * DAY)) != before:
            between = range(begin, begin + 4 * DAY)
            at = bisect_left(between, True, key=lambda instant, new=after: offset(zone, instant) == new)
            found.append((begin + at, before, after))
            before = after
    return tuple(found)


@cache
def zones_by_changes() -> dict[tuple, list[str]]:
    """The zones with equal offsets in all 20 years: most names are links."""
    alike = defaultdict(list)
    for name in ZONES:
        zone = ZoneInfo(name)
        alike[offset(zone, BEGIN), changes(zone)].append(name)
    return alike


def misfits(found: tuple, grain: Grain) -> bool:
    return any((after - before) % grain.seconds for _, before, after in found)


def account(zone: ZoneInfo, begin: int, end: int) -> tuple[list[tuple[int, date]], dict[Grain, list[int]]]:
    """Instant by instant: where a date begins that is newer than all before, and where a clock begins a slot."""
    days, starts = [], {grain: [] for grain in SUB_DAY}
    newest = datetime.fromtimestamp(begin, zone).date()
    for instant in range(begin, end, STEP):
        local = datetime.fromtimestamp(instant, zone)
        if local.date() > newest:
            newest = local.date()
            days.append((instant, newest))
        on_clock = instant + int(local.utcoffset().total_seconds())
        for grain in SUB_DAY:
            if on_clock % grain.seconds == 0:
                starts[grain].append(instant)
    return days, starts


def test_days_and_slots_around_each_change_of_each_zone_are_those_of_an_account_by_instants():
    walked = 0
    for (_, found), names in zones_by_changes().items():
        zone, calendar = ZoneInfo(names[0]), Calendar(names[0])
        grains = [grain for grain in SUB_DAY if not misfits(found, grain)]
        dataset = Dataset.flat("raw/x", Grain.DAY, first=FIRST, calendar=calendar)
        finer = Dataset(dataset.name, (*grains, Grain.DAY), dataset.hierarchy)
        for change, _, _ in found or [(BEGIN + 100 * DAY, 0, 0)]:
            begin = change // 3600 * 3600 - 26 * 3600
            end = begin + 53 * 3600
            days, starts = account(zone, begin, end)
            slots = [each.start for each in slots_between(dataset, Grain.DAY, days[0][0], days[-1][0] + 1)]
            assert [date_of(each) for each in slots] == [each for _, each in days], (names[0], date_of(slots[0]))
            assert [calendar.window(each).start for each in slots] == [start for start, _ in days], names[0]
            for start, each in days:
                assert calendar.day_at(start) == day_of(each) > calendar.day_at(start - 1), names[0]
            for grain in grains:
                aligned = [each.start for each in slots_between(finer, grain, starts[grain][0], end)]
                assert aligned == starts[grain], (names[0], grain)
            walked += 1
    assert walked > 1_000


@pytest.mark.parametrize(
    ("name", "odd"),
    [
        ("Pacific/Apia", date(2011, 12, 30)),
        ("Pacific/Kwajalein", date(1993, 8, 21)),
        ("America/St_Johns", date(2010, 11, 7)),
        ("America/St_Johns", date(1988, 4, 3)),
        ("Asia/Pyongyang", date(2015, 8, 15)),
        ("Antarctica/Casey", date(2010, 3, 5)),
        ("America/Sao_Paulo", date(2015, 10, 18)),
        ("Asia/Amman", date(2012, 10, 26)),
    ],
)
def test_odd_dates_of_the_past_are_those_of_the_account_too(name: str, odd: date):
    calendar, noon = Calendar(name), instant_of(datetime(odd.year, odd.month, odd.day, 12, tzinfo=UTC))
    days, _ = account(ZoneInfo(name), noon - 4 * DAY, noon + 4 * DAY)
    assert [calendar.window(day_of(each))[1] for _, each in days] == [start for start, _ in days]
    assert [date_of(each) for each in calendar.existing(day_of(days[0][1]), day_of(days[-1][1]))] == [
        each for _, each in days
    ]


def test_zones_with_equal_offsets_have_equal_days():
    for (_, found), names in zones_by_changes().items():
        one = Calendar(names[0])
        near = {day + more for change, _, _ in found for day in [one.day_at(change)] for more in (-1, 0, 1)}
        days = sorted(day for day in near if one.exists(day))
        expected = [one.window(day) for day in days]
        for name in names[1:]:
            other = Calendar(name)
            assert [other.window(day) for day in days] == expected, (names[0], name)


def test_an_instant_anywhere_is_in_the_slots_that_its_clock_shows():
    chance = random.Random(20)
    for name in ZONES:
        zone = ZoneInfo(name)
        try:
            dataset = Dataset.flat("raw/x", Grain.FIVE_MINUTES, first=FIRST, calendar=Calendar(name))
        except GrainError:
            dataset = Dataset.flat("raw/x", Grain.DAY, first=FIRST, calendar=Calendar(name))
        for instant in (chance.randrange(BEGIN, END) for _ in range(10)):
            local = datetime.fromtimestamp(instant, zone)
            found = {each: dataset.slot_at(instant, each).start for each in dataset.grains}
            monday = local.date() - timedelta(days=local.weekday())
            assert date_of(found[Grain.DAY]) == local.date(), (name, instant)
            assert date_of(found[Grain.WEEK]) == monday
            assert date_of(found[Grain.MONTH]) == local.date().replace(day=1)
            assert date_of(found[Grain.QUARTER]) == date(local.year, (local.month - 1) // 3 * 3 + 1, 1)
            if dataset.base is Grain.FIVE_MINUTES:
                clock = local.replace(minute=local.minute // 5 * 5, second=0)
                assert found[Grain.FIVE_MINUTES] == int(clock.timestamp())


def test_a_zone_has_a_grain_unless_a_change_of_its_clock_is_no_multiple():
    refused = set()
    for (first_offset, found), names in zones_by_changes().items():
        for grain in SUB_DAY:
            if misfits(found, grain):
                refused.add((names[0], grain))
                with pytest.raises(
                    GrainError, match=rf"{names[0]} has no slots of the grain {grain}: 20\d\d-\d\d-\d\d"
                ):
                    Dataset.flat("raw/x", grain, first=FIRST, calendar=Calendar(names[0]))
            else:
                phase = Calendar(names[0]).phase(grain, day_of(FIRST))
                assert phase == -first_offset % grain.seconds, names[0]
    assert ("Australia/LHI", Grain.HOUR) in refused


def test_no_zone_has_ever_undone_a_change_between_two_readings_of_its_offset():
    """The search for changes reads offsets three days apart, so it would miss a change that is undone in less."""
    shortest = min(after - before for name in ZONES for before, after in pairwise(transitions(name)))
    assert shortest > 6 * DAY


def transitions(name: str) -> list[int]:
    """The instants since 1970 at which the offset changes, by the file of the zone: RFC 9636."""
    data = next((path for each in zoneinfo.TZPATH if (path := Path(each, name)).is_file()), None)
    content = data.read_bytes() if data else files("tzdata").joinpath("zoneinfo", *name.split("/")).read_bytes()
    utc, standard, leaps, times, types, letters = struct.unpack(">6l", content[20:44])
    second = 44 + times * 5 + types * 6 + letters + leaps * 8 + standard + utc
    times, types = struct.unpack(">2l", content[second + 32 : second + 40])
    begin = second + 44
    instants = struct.unpack(f">{times}q", content[begin : begin + 8 * times])
    kinds = content[begin + 8 * times : begin + 9 * times]
    offsets = [struct.unpack(">lbb", content[begin + 9 * times + 6 * kind :][:6])[0] for kind in range(types)]
    pairs = [(instant, offsets[kind]) for instant, kind in zip(instants, kinds, strict=True)]
    return [after for (_, old), (after, new) in pairwise(pairs) if old != new and after >= 0]
