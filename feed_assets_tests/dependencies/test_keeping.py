"""What is kept and for how long; calendars with holidays and several midnights; and several writers at once."""

from __future__ import annotations

import random
from concurrent.futures import ThreadPoolExecutor
from datetime import date, timedelta

import pytest

from feed_assets.datasets.calendars import Calendar
from feed_assets.datasets.dataset import Dataset
from feed_assets.datasets.grains import Grain
from feed_assets.datasets.members import Hierarchy, Member
from feed_assets.datasets.slots import Slot
from feed_assets.dependencies.errors import RefusedFactError
from feed_assets.dependencies.facts import Listed, Number, Part, Published, Status
from feed_assets.dependencies.quality.marks import Profile
from feed_assets.dependencies.rules import Basis, Declared, Rule
from feed_assets_tests.dependencies.datasets import FIRST, at, feed, raw, service, told, topic
from feed_assets_tests.dependencies.kills import check, kill_writers

NOW = at("2026-11-28T12:00")
LATER = NOW + timedelta(days=36)
WRITERS = 3


def test_folding_changes_no_answer_about_hours_and_coarser_slots(database: str) -> None:
    foo = topic("a", "b", base=Grain.TEN_MINUTES)
    dependencies = service(database, foo)
    hours = [foo.dataset.slot(f"2026-11-27T{hour}", member) for hour in ("15", "16") for member in ("a", "b", "-")]
    slots = [
        *hours,
        *[foo.dataset.slot("2026-11-27", member) for member in ("a", "b", "-")],
        foo.dataset.slot("2026-11"),
    ]
    tens = [hours[0].start + 600 * n for n in range(6)]
    ten = foo.dataset.slot("2026-11-27T15:50Z", "a", Grain.TEN_MINUTES)
    numbers = [Number("source", ten._replace(start=start, member=member), 100) for start in tens for member in "ab"]
    dependencies.expect([*numbers, Number("source", ten._replace(start=tens[0] + 3600), 9)], now=NOW)
    parts = [Part("raw/foo", member, "one", "s3://raw/one", records=dict.fromkeys(tens, 101)) for member in ("a", "b")]
    dependencies.report(parts, now=NOW)
    before = [dependencies.answer(slot) for slot in slots]
    assert before[0].complete
    assert dependencies.answer(ten).accounted == 101

    dependencies.tick(LATER)
    assert [dependencies.answer(slot) for slot in slots] == before
    assert [service(database, foo).answer(slot) for slot in slots] == before
    assert dependencies.answer(ten).flags == ("folded",)
    missing = dependencies.answer(ten._replace(start=tens[0] + 3600))
    assert (missing.complete, missing.expected) == (False, 9)

    late = Part("raw/foo", "a", "two", "s3://raw/two", records={ten.start: 1})
    (outcome,) = dependencies.report([late], now=LATER)
    assert outcome.status is Status.REFUSED
    assert "no longer kept one by one. Open a backfill of raw/foo a hour 2026-11-27T15:00Z" in outcome.message
    (outcome,) = dependencies.expect([Number("source", ten, 7)], now=LATER)
    assert "its facts are no longer kept one by one" in outcome.message
    with pytest.raises(RefusedFactError, match="is too old to be reopened alone: open a backfill of raw/foo a hour"):
        dependencies.reopen([ten], reason="bots", hold=True, now=LATER)
    with pytest.raises(RefusedFactError, match="is too old to be reopened alone"):
        dependencies.reopen([hours[0]], reason="bots", now=LATER)

    dependencies.reopen([hours[0]], reason="bots", hold=True, now=LATER)
    answer = dependencies.answer(hours[0])
    assert (answer.complete, answer.revision, answer.accounted) == (False, 2, 0)
    assert dependencies.answer(hours[2]).accounted == 606
    again = [Part("raw/foo", "a", f"new-{start}", "s3://raw/new", records={start: 100}) for start in tens]
    dependencies.expect([each for each in numbers if each.slot.member == "a"], now=LATER)
    assert {each.status for each in dependencies.report(again, now=LATER)} == {Status.ACCEPTED}
    dependencies.release([hours[0]], now=LATER)
    answer = dependencies.answer(hours[0])
    assert (answer.complete, answer.revision, answer.accounted) == (True, 2, 600)
    assert dependencies.answer(hours[2]).accounted == 1206


def test_a_part_without_positions_is_refused_once_the_ids_of_its_time_are_forgotten(database: str) -> None:
    foo = topic()
    dependencies = service(database, foo)
    slot = foo.dataset.slot("2026-11-27T15:50Z", "-", Grain.FIVE_MINUTES)
    part = Part("raw/foo", "-", "one", "s3://raw/one", records={slot.start: 1})
    assert [each.status for each in dependencies.report([part], now=NOW)] == [Status.ACCEPTED]
    later = NOW + timedelta(days=8)
    dependencies.tick(later)

    (outcome,) = dependencies.report([part], now=later)
    assert outcome.status is Status.REFUSED
    assert "a repeated part without positions would count twice" in outcome.message
    placed = part._replace(id="two", ranges=((0, 1),))
    assert [each.status for each in dependencies.report([placed], now=later)] == [Status.ACCEPTED]


def test_a_holiday_is_complete_when_it_has_ended_and_a_delivery_on_it_is_a_new_revision(database: str) -> None:
    calendar = Calendar("UTC", frozenset({date(2026, 11, 26)}))
    dataset = Dataset.flat("clean-ads/v1.0", Grain.DAY, first=FIRST, last=date(2026, 11, 28), calendar=calendar)
    declared = Declared(dataset, Rule(Basis.PUBLISHED))
    dependencies = service(database, declared)
    holiday, week = dataset.slot("2026-11-26"), dataset.slot("2026-W48")
    others = [dataset.slot(f"2026-11-{day}") for day in (25, 27, 28)]
    dependencies.published([Published(slot, "20261126.120000") for slot in others], now=at("2026-11-26T12:00"))
    dependencies.tick(at("2026-11-26T23:59"))
    assert not dependencies.answer(week).complete
    dependencies.tick(at("2026-11-27T00:00"))

    assert (dependencies.answer(holiday).complete, dependencies.answer(holiday).flags) == (True, ("holiday",))
    assert dependencies.answer(week).complete
    dependencies.published([Published(holiday, "20261128.000000")], now=NOW)
    assert dependencies.answer(week).revision == 2


def test_a_batch_date_is_complete_after_the_midnights_of_all_of_its_regions(database: str) -> None:
    zones = {"apac": "UTC+08:00", "eu": "UTC", "us": "UTC-08:00"}
    members = tuple(Member(path, FIRST, None, Calendar(zone)) for path, zone in zones.items())
    dataset = Dataset("raw/ads", Grain.HOUR.and_coarser, Hierarchy(("region",), members))
    dependencies = service(database, Declared(dataset, Rule(Basis.ASSUMED, buffer=timedelta(hours=1))))
    days = {path: dataset.slot("2026-11-27", path) for path in (*zones, "-")}

    complete = []
    for hour in range(36):
        dependencies.tick(at("2026-11-27T12:00") + timedelta(hours=hour))
        complete.append({path for path, slot in days.items() if dependencies.answer(slot).complete})
    assert [len(each) for each in complete] == [*[0] * 5, *[1] * 8, *[2] * 8, *[4] * 15]
    assert complete[5] == {"apac"}


def test_members_of_one_kind_may_have_counts_or_a_buffer_and_a_roll_up_says_the_weakest_basis(database: str) -> None:
    ads = raw("a", "b", b=Rule(Basis.COUNTED, ("control",)))
    dependencies = service(database, ads)
    dependencies.tick(NOW)
    day, mine = ads.dataset.slot("2026-11-27"), ads.dataset.slot("2026-11-27", "b")
    assert dependencies.answer(day).missing == 24
    hours = [mine._replace(grain=Grain.HOUR, start=mine.start * 86_400 + 3600 * hour) for hour in range(24)]
    dependencies.expect([Number("control", slot, 0) for slot in hours], now=NOW)
    assert dependencies.answer(day).complete
    assert (dependencies.answer(day).basis, dependencies.answer(mine).basis) == (Basis.ASSUMED, Basis.COUNTED)


def test_several_writers_and_a_slow_reader_agree_and_no_event_is_missing_or_doubled(database: str) -> None:
    clean, foo = feed(), topic("a", base=Grain.HOUR)
    days = [clean.dataset.slot(f"2026-11-{day}") for day in range(25, 31)]
    first = foo.dataset.slot("2026-11-27T00", "a")
    hours = [first._replace(start=first.start + 3600 * hour) for hour in range(24)]
    service(database, clean, foo).tick(NOW)

    def write(number: int) -> list[object]:
        chance, mine = random.Random(number), service(database, clean, foo)
        for step in range(12):
            day = chance.choice(days)
            mine.published([Published(day, chance.choice(["1", "2", None]))], now=NOW)
            slot = chance.choice(hours)
            mine.expect([Number("source", slot, 10)], now=NOW)
            part = Part("raw/foo", "a", f"{slot.start}", "s3://raw/x", records={slot.start: 10})
            mine.report([part, part._replace(id=f"{number}-{step}", records={slot.start: 0})], now=NOW)
        mine.refresh()
        return [mine]

    read = []
    with ThreadPoolExecutor(WRITERS) as pool:
        writers = [pool.submit(write, number) for number in range(WRITERS)]
        reader = service(database, clean, foo)
        while not all(each.done() for each in writers) or reader.wait(len(read), seconds=0):
            read += reader.events(len(read), limit=3)
            assert [each.sequence for each in read] == list(range(1, len(read) + 1))
    services = [each for writer in writers for each in writer.result()]

    completed = [each for each in told(reader) if each.startswith("completed")]
    assert len(completed) == len({*completed})
    slots = [*days, *hours, foo.dataset.slot("2026-11-27"), clean.dataset.slot("2026-W48")]
    fresh = service(database, clean, foo)
    for each in [*services, reader]:
        each.refresh()
        assert [each.answer(slot) for slot in slots] == [fresh.answer(slot) for slot in slots]
    assert all(fresh.answer(slot).accounted in {0, 10} for slot in hours)


def test_a_rule_that_was_introduced_later_leaves_the_past_as_it_was(database: str) -> None:
    day, before = raw("a", "b").dataset.slot("2026-11-27"), raw("a", "b").dataset.slot("2026-11-26")
    old = service(database, raw("a", "b"))
    old.tick(at("2026-11-27T12:00"))
    hour = old.datasets["raw/ads"].dataset.slot("2026-11-26T15", "b")
    old.reopen([hour], reason="late data", now=at("2026-11-27T12:00"))
    counted = Rule(Basis.COUNTED, ("control",), buffer=timedelta(hours=3), since=date(2026, 11, 27))

    new = service(database, raw("a", "b", b=counted))
    assert (new.answer(before).complete, new.answer(before).revision) == (True, 2)
    assert (new.answer(before).basis, new.answer(hour).basis) == (Basis.ASSUMED, Basis.ASSUMED)
    new.tick(at("2026-11-28T04:00"))
    assert (new.answer(day).complete, new.answer(day).missing) == (False, 24)
    mine = new.datasets["raw/ads"].dataset.slot("2026-11-27T00", "b")
    assert new.answer(mine).basis is Basis.COUNTED
    new.reopen([before], reason="late data", now=at("2026-11-28T04:00"))
    assert (new.answer(before).complete, new.answer(before).revision) == (True, 3)
    hours = [mine._replace(start=mine.start + 3600 * number) for number in range(24)]
    new.expect([Number("control", slot, 0) for slot in hours], now=at("2026-11-28T04:00"))
    assert new.answer(day).complete
    assert new.answer(before._replace(grain=Grain.WEEK, start=20_780)).missing == 2 * 2 * 24 - 1


def test_a_rule_without_a_date_begins_on_the_day_after_it_was_introduced(database: str) -> None:
    noon = at("2026-11-27T12:00")
    old = service(database, raw("a", "b"))
    dataset = old.datasets["raw/ads"].dataset
    today, tomorrow = dataset.slot("2026-11-27"), dataset.slot("2026-11-28")
    old.listed([Listed(dataset.slot("2026-11-26T15", "b"), 1, 1, "x")], now=noon)
    old.tick(noon)

    counted = raw("a", "b", b=Rule(Basis.COUNTED, ("control",), buffer=timedelta(hours=3)))
    for when in (at("2026-11-27T13:00"), at("2026-11-28T05:00"), at("2026-11-29T05:00")):
        new = service(database, counted)
        new.tick(when)
    assert (new.answer(today).complete, new.answer(today).basis) == (True, Basis.ASSUMED)
    assert (new.answer(tomorrow).complete, new.answer(tomorrow).missing) == (False, 24)
    assert told(new).count("completed - day 2026-11-26 r1") == 1

    again = service(database, raw("a", "b"))
    assert again.answer(tomorrow).missing == 0
    again.tick(at("2026-11-29T05:00"))
    assert again.answer(tomorrow).complete


def test_a_member_that_is_removed_is_no_longer_waited_for_and_a_new_one_reopens_nothing(database: str) -> None:
    old = service(database, topic("a", "b", base=Grain.HOUR))
    dataset = old.datasets["raw/foo"].dataset
    day = dataset.slot("2026-11-27")
    hours = [Slot("raw/foo", "a", Grain.HOUR, day.start * 86_400 + 3600 * hour) for hour in range(24)]
    old.expect([Number("source", slot, 0) for slot in hours], now=NOW)
    other = [slot._replace(member="b") for slot in hours[:5]]
    old.expect([Number("source", slot, 7) for slot in other], now=NOW)
    assert (old.answer(day).missing, old.answer(day).expected) == (24, 35)

    without = service(database, topic("a", base=Grain.HOUR))
    assert (without.answer(day).missing, without.answer(day).expected) == (0, 0)
    without.tick(NOW)
    assert (without.answer(day).complete, without.answer(day).revision) == (True, 1)
    assert told(without)[-1] == "completed - day 2026-11-27 r1"
    more = service(database, topic("a", "c", base=Grain.HOUR))
    more.tick(NOW)
    assert (more.answer(day).complete, more.answer(day).revision) == (True, 1)
    more.expect([Number("source", hours[0], 5, version=1)], now=NOW)
    assert (more.answer(day).complete, more.answer(day).missing) == (False, 25)


def test_writers_that_are_killed_leave_counters_events_and_answers_that_agree(database: str) -> None:
    assert kill_writers(database, 1) == 2
    assert check(database) > 0


def test_old_profiles_are_deleted_and_those_of_recent_weeks_stay(database: str) -> None:
    ads = feed("clean-ads/v1.0")
    dependencies = service(database, ads)
    days = [ads.dataset.slot(day) for day in ("2026-11-25", "2026-11-27")]
    dependencies.published([Published(day, "u1", profile=Profile(430)) for day in days], now=NOW)
    dependencies.tick(NOW + timedelta(days=60))
    for each in (dependencies, service(database, ads)):
        assert [each.quality.profile(day) is not None for day in days] == [True, True]
    dependencies.tick(NOW + timedelta(days=68))
    for each in (dependencies, service(database, ads)):
        assert [each.quality.profile(day) is not None for day in days] == [False, True]
