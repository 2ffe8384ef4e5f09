"""The service on both databases: what facts and time complete, what reopens, and what other processes see."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta

import pytest

from feed_assets.datasets.errors import SlotError
from feed_assets.datasets.grains import Grain
from feed_assets.datasets.slots import Slot
from feed_assets.dependencies.errors import EventsGoneError, RefusedFactError, UnknownDatasetError
from feed_assets.dependencies.facts import Listed, Published
from feed_assets.dependencies.service import Dependencies
from feed_assets.state.address import StoreError
from feed_assets.state.event_log import MAIN
from feed_assets.state.store import Store, Transaction
from feed_assets_tests.dependencies.datasets import BASE, at, feed, raw, service, told
from feed_assets_tests.dependencies.slot_events import slot_events

NOW = at("2026-11-28T12:00")


def test_an_update_in_force_completes_its_day_and_another_one_reopens_it(database: str) -> None:
    clean = feed()
    slot = clean.dataset.slot("2026-11-27")
    dependencies = service(database, clean)
    assert (dependencies.answer(slot).complete, dependencies.answer(slot).revision) == (False, 0)

    for _ in range(2):  # logs and scans repeat facts
        dependencies.published([Published(slot, "20261128.010000", "abc")], now=NOW)
    assert (dependencies.answer(slot).complete, dependencies.answer(slot).revision) == (True, 1)

    dependencies.published([Published(slot, "20261128.020000", "abc")], now=NOW)  # equal content
    assert dependencies.answer(slot).revision == 1

    dependencies.published([Published(slot, "20261128.030000", "def")], now=NOW)
    assert (dependencies.answer(slot).complete, dependencies.answer(slot).revision) == (True, 2)

    dependencies.published([Published(slot, None)], now=NOW)
    assert (dependencies.answer(slot).complete, dependencies.answer(slot).revision) == (False, 3)
    assert told(dependencies) == [
        "completed - day 2026-11-27 r1",
        "reopened - day 2026-11-27 r2",
        "completed - day 2026-11-27 r2",
        "reopened - day 2026-11-27 r3",
    ]


def test_an_invalid_update_that_comes_back_with_equal_content_keeps_the_content(database: str) -> None:
    clean = feed()
    slot = clean.dataset.slot("2026-11-27")
    dependencies = service(database, clean)
    for update in ("1", None, "2"):
        dependencies.published([Published(slot, update, "abc" if update else "")], now=NOW)
    answer = dependencies.answer(slot)
    assert (answer.complete, answer.revision, answer.content) == (True, 2, 1)


def test_the_backfill_of_a_feed_ends_with_its_next_update(database: str) -> None:
    clean = feed()
    slot = clean.dataset.slot("2026-11-27")
    dependencies = service(database, clean)
    dependencies.published([Published(slot, "1")], now=NOW)
    dependencies.reopen([slot], reason="bots", hold=True, now=NOW)
    dependencies.published([Published(slot, "1")], now=NOW)
    assert (dependencies.answer(slot).complete, dependencies.answer(slot).flags) == (False, ("backfill",))
    assert dependencies.why(slot) == "is being backfilled: bots"
    dependencies.published([Published(slot, "2")], now=NOW)
    answer = dependencies.answer(slot)
    assert (answer.complete, answer.revision, answer.content, answer.begun) == (True, 2, 2, NOW)


def test_a_feed_without_partitions_is_one_slot(database: str) -> None:
    partners = feed("partners/v1.0", Grain.WHOLE)
    dependencies = service(database, partners)
    slot = partners.dataset.slot("-")
    assert not dependencies.answer(slot).complete
    dependencies.published([Published(slot, "1")], now=NOW)
    dependencies.tick(NOW)
    assert dependencies.answer(slot).complete
    assert dependencies.events()[0].details["first"] == "-"


def test_a_week_of_a_feed_completes_with_its_last_day_and_reopens_once(database: str) -> None:
    clean = feed()
    days = [clean.dataset.slot(f"2026-11-{day}") for day in range(25, 30)]
    week = clean.dataset.slot("2026-W48")
    dependencies = service(database, clean)

    dependencies.published([Published(each, "20261129.010000") for each in days[1:]], now=NOW)
    answer = dependencies.answer(week)
    assert (answer.complete, answer.missing, answer.first_missing) == (False, 1, (days[0],))

    dependencies.published([Published(days[0], "20261129.010000")], now=NOW)
    assert dependencies.answer(week).revision == 1
    dependencies.published([Published(each, None) for each in days[:2]], now=NOW)
    assert (dependencies.answer(week).complete, dependencies.answer(week).revision) == (False, 2)
    dependencies.published([Published(days[2], None)], now=NOW)
    assert dependencies.answer(week).revision == 2
    assert told(dependencies)[-3:] == [
        "reopened - day 2026-11-25..2026-11-26 r2",
        "reopened - week 2026-W48 r2",
        "reopened - day 2026-11-27 r2",
    ]


def test_time_completes_raw_hours_after_their_buffer_and_the_day_after_the_longest(database: str) -> None:
    ads = raw("a", "b")
    hour, day = ads.dataset.slot("2026-11-27T23", "a"), ads.dataset.slot("2026-11-27")
    dependencies = service(database, ads)

    dependencies.tick(at("2026-11-28T02:59"))
    assert not dependencies.answer(hour).complete
    assert dependencies.answer(day).missing == 2
    before = len(dependencies.events())
    dependencies.tick(at("2026-11-28T03:00"))

    assert dependencies.answer(hour).complete
    assert dependencies.answer(hour).flags == ("empty",)
    assert dependencies.answer(day).complete
    assert [each for each in told(dependencies, before) if " - " in each] == [
        "completed - hour 2026-11-27T23:00Z r1",
        "completed - day 2026-11-27 r1",
    ]


def test_the_first_tick_tells_a_long_past_as_ranges_and_a_tick_without_news_writes_nothing(database: str) -> None:
    ads = raw("a")
    dependencies = service(database, ads)
    dependencies.tick(at("2026-12-10T00:30"))

    assert told(dependencies)[0] == "completed a hour 2026-11-25T00:00Z..2026-12-09T20:00Z r1"
    assert told(dependencies)[-3:] == [
        "completed - week 2026-W48..2026-W49 r1",
        "completed a month 2026-11 r1",
        "completed - month 2026-11 r1",
    ]
    before = len(dependencies.events())
    dependencies.tick(at("2026-12-10T00:59"))
    assert len(dependencies.events()) == before


def test_late_raw_data_changes_nothing_until_somebody_reopens_the_hour(database: str) -> None:
    ads = raw("a", "b")
    hour, day = ads.dataset.slot("2026-11-27T15", "a"), ads.dataset.slot("2026-11-27")
    dependencies = service(database, ads)
    dependencies.listed([Listed(hour, 900, 1, "one")], now=at("2026-11-27T17:00"))
    dependencies.tick(NOW)
    before = len(dependencies.events())

    dependencies.listed([Listed(hour, 1000, 2, "two")], now=NOW)
    assert [each.kind for each in dependencies.events(before)] == ["noted"]
    assert (dependencies.answer(hour).accounted, dependencies.answer(day).accounted) == (1000, 1000)
    dependencies.reopen([hour], reason="late data", now=NOW)

    assert [each for each in told(dependencies, before) if "week" not in each] == [
        "reopened - hour 2026-11-27T15:00Z r2",
        "reopened a hour 2026-11-27T15:00Z r2",
        "reopened - day 2026-11-27 r2",
        "reopened a day 2026-11-27 r2",
        "completed a hour 2026-11-27T15:00Z r2",
        "completed - hour 2026-11-27T15:00Z r2",
        "completed a day 2026-11-27 r2",
        "completed - day 2026-11-27 r2",
    ]
    assert dependencies.events(before)[1].details["reason"] == "late data"


def test_reopened_data_that_is_equal_names_the_revision_whose_content_it_has(database: str) -> None:
    ads = raw("a")
    day = ads.dataset.slot("2026-11-27")
    dependencies = service(database, ads)
    dependencies.tick(NOW)
    dependencies.reopen([day], reason="compaction", equal_to=True, now=NOW)

    assert (dependencies.answer(day).revision, dependencies.answer(day).content) == (2, 1)
    assert dependencies.events()[-1].details["equal_to"] == 1
    dependencies.reopen([ads.dataset.slot("2026-11-27T15")], reason="late data", now=NOW)
    assert (dependencies.answer(day).revision, dependencies.answer(day).content) == (3, 3)


def test_an_hour_waits_until_nothing_new_came_for_a_while(database: str) -> None:
    declared = raw("a")
    quiet = raw("a", a=type(declared.rule)(declared.rule.basis, quiet=timedelta(minutes=30)))
    hour, day = quiet.dataset.slot("2026-11-27T23", "a"), quiet.dataset.slot("2026-11-27")
    dependencies = service(database, quiet)
    dependencies.listed([Listed(hour, 10, 1, "one")], now=at("2026-11-27T23:50"))

    dependencies.tick(at("2026-11-28T00:00"))
    assert not dependencies.answer(hour).complete
    assert (dependencies.answer(day).complete, dependencies.answer(day).missing) == (False, 1)
    dependencies.tick(at("2026-11-28T00:20"))
    assert dependencies.answer(hour).complete
    assert dependencies.answer(day).complete


def test_other_processes_see_what_one_wrote(database: str) -> None:
    clean, ads = feed(), raw("a")
    one, other = service(database, clean, ads), service(database, clean, ads)
    days = [clean.dataset.slot(f"2026-11-{day}") for day in (26, 27)]
    assert not other.answer(days[0]).complete
    one.published([Published(days[0], "20261128.010000")], now=NOW)
    one.tick(NOW)
    assert other.wait(0, seconds=0)
    other.refresh()
    assert other.answer(days[0]).complete
    other.published([Published(days[1], "20261128.010000")], now=NOW)
    one.refresh()
    later = service(database, clean, ads)

    for slot in [*days, clean.dataset.slot("2026-W48"), ads.dataset.slot("2026-11-27")]:
        assert one.answer(slot) == other.answer(slot) == later.answer(slot)
    assert one.answer(days[1]).complete


def test_bad_facts_are_refused_and_change_nothing(database: str) -> None:
    clean, ads = feed(), raw("a")
    dependencies = service(database, clean, ads)
    good = Published(clean.dataset.slot("2026-11-27"), "20261128.010000")
    hour = ads.dataset.slot("2026-11-27T15", "a")

    with pytest.raises(UnknownDatasetError, match=r"'nothing' is no declared dataset. Declared are: clean-ads/v1.0"):
        dependencies.published([good, good._replace(slot=good.slot._replace(dataset="nothing"))], now=NOW)
    with pytest.raises(SlotError, match="is not on its grain: use 2026-11-27T15:00Z"):
        dependencies.listed([Listed(hour._replace(start=hour.start + 1), 1, 1, "")], now=NOW)
    with pytest.raises(RefusedFactError, match="is no base slot"):
        dependencies.published([good, Published(clean.dataset.slot("2026-W48"), "20261128.010000")], now=NOW)
    with pytest.raises(RefusedFactError, match="has the basis assumed, so it takes no facts of the basis published"):
        dependencies.published([good, Published(hour, "20261128.010000")], now=NOW)
    with pytest.raises(RefusedFactError, match="neither can be negative"):
        dependencies.listed([Listed(hour, -1, 1, "")], now=NOW)
    with pytest.raises(RefusedFactError, match="needs a reason"):
        dependencies.reopen([hour], reason=" ", now=NOW)

    assert dependencies.events() == []
    assert not dependencies.answer(good.slot).complete


def test_a_failed_transaction_leaves_no_trace(database: str) -> None:
    ads = raw("a")
    day = ads.dataset.slot("2026-11-27")
    dependencies = service(database, ads)
    dependencies.tick(NOW)
    events = dependencies.events()

    def fail(_: object) -> None:
        raise RuntimeError

    with pytest.raises(RuntimeError):
        dependencies.reopen([day], reason="late data", now=NOW, record=fail)
    assert dependencies.events() == events
    assert dependencies.answer(day).revision == 1


def test_a_reader_who_comes_too_late_is_told_where_to_go_on(database: str) -> None:
    ads = raw("a")
    dependencies = service(database, ads)
    dependencies.tick(NOW)
    newest = dependencies.events()[-1].sequence

    dependencies.tick(NOW + timedelta(days=40))
    with pytest.raises(EventsGoneError) as error:
        dependencies.events(1)
    assert error.value.newest > newest
    with pytest.raises(EventsGoneError, match="The event after 100000 is not in the log"):
        dependencies.events(100_000)


class LosesAnswers(Store):
    """A store whose next commit arrives, and whose answer is lost."""

    loses = False

    @contextmanager
    def writing(self, log: str = MAIN) -> Iterator[Transaction]:
        with super().writing(log) as transaction:
            yield transaction
        if self.loses:
            self.loses = False
            raise StoreError("the connection is lost")


def test_after_a_commit_whose_answer_was_lost_memory_is_what_the_database_says(database: str) -> None:
    clean = feed()
    day, other = clean.dataset.slot("2026-11-27"), clean.dataset.slot("2026-11-26")
    store = LosesAnswers(database)
    dependencies = Dependencies(store, BASE, {clean.dataset.name: clean})
    dependencies.published([Published(other, "1")], now=NOW)
    store.loses = True
    with pytest.raises(StoreError, match="the connection is lost"):
        dependencies.published([Published(day, "1")], now=NOW)

    assert dependencies.answer(day).complete
    dependencies.published([Published(day, "1")], now=NOW)
    assert told(dependencies) == ["completed - day 2026-11-26 r1", "completed - day 2026-11-27 r1"]
    assert dependencies.answer(other) == service(database, clean).answer(other)


def test_events_that_others_wrote_after_a_rolled_back_transaction_are_not_skipped(database: str) -> None:
    clean = feed()
    day, other = clean.dataset.slot("2026-11-27"), clean.dataset.slot("2026-11-26")
    dependencies = service(database, clean)
    dependencies.published([Published(other, "1")], now=NOW)

    def fail(_: object) -> None:
        raise RuntimeError

    with pytest.raises(RuntimeError):
        dependencies.reopen([other], reason="bots", now=NOW, record=fail)
    service(database, clean).published([Published(day, "1")], now=NOW)
    dependencies.refresh()
    assert dependencies.answer(day).complete
    assert dependencies.answer(other).revision == 1


def test_other_work_in_a_transaction_sees_the_newest_slots_and_appends_to_the_same_log(database: str) -> None:
    clean = feed()
    day = clean.dataset.slot("2026-11-27")
    dependencies = service(database, clean)
    dependencies.published([Published(day, "1")], now=NOW)
    service(database, clean).published([Published(day, "2")], now=NOW)

    def mark(transaction: Transaction) -> None:
        revision = dependencies.answer(day).revision
        transaction.append("marked", NOW, {"base": BASE, "slot": str(day), "revision": revision})

    dependencies.transact(mark, now=NOW)
    dependencies.published([Published(day, "3")], now=NOW)
    assert [each.kind for each in dependencies.events()] == [
        "completed",
        "reopened",
        "completed",
        "marked",
        "reopened",
        "completed",
    ]
    assert dependencies.events()[3].details["revision"] == 2


def test_a_subscriber_can_follow_all_slots_by_the_events_alone(database: str) -> None:
    clean, ads = feed(), raw("a", "b")
    dependencies = service(database, clean, ads)
    days = [clean.dataset.slot(f"2026-11-{day}") for day in range(25, 30)]
    dependencies.published([Published(slot, "1") for slot in days], now=NOW)
    dependencies.published([Published(days[0], None), Published(days[1], None), Published(days[3], "2")], now=NOW)
    dependencies.tick(NOW)
    dependencies.reopen([ads.dataset.slot("2026-11-26")], reason="late data", equal_to=True, now=NOW)

    known: dict[Slot, tuple[bool, int]] = {}
    for slot, completed, revision in slot_events(dependencies.events()):
        known[slot] = completed, revision
    assert len(known) > 150
    for slot, (complete, revision) in known.items():
        answer = dependencies.answer(slot)
        assert (answer.complete, answer.revision) == (complete, revision)
