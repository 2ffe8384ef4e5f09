"""Covered slots: end positions, gaps that decide, positions that are lost, and another generation of a topic."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta

from feed_assets.datasets.grains import Grain
from feed_assets.datasets.slots import Slot
from feed_assets.dependencies.facts import Ends, Part, Status
from feed_assets.dependencies.rules import Basis, Declared
from feed_assets.dependencies.service import Dependencies
from feed_assets_tests.dependencies.datasets import at, service, told, topic

NOW = at("2026-11-27T16:20")
KAFKA = {"basis": Basis.COVERED, "grace": timedelta(minutes=2)}


def five(declared: Declared, time: str) -> Slot:
    return declared.dataset.slot(f"2026-11-27T{time}Z", "-", Grain.FIVE_MINUTES)


def part(
    declared: Declared, id_: str, begin: int, end: int, records: Mapping[str, int], stream: str = "0", **more: str
) -> Part:
    counts = {five(declared, time).start: count for time, count in records.items()}
    return Part("raw/foo", "-", id_, f"s3://raw/{id_}", stream, ((begin, end),), counts, **more)


def expect(dependencies: Dependencies, *ends: Ends) -> list[Status]:
    return [outcome.status for outcome in dependencies.expect(ends, now=NOW)]


def test_a_covered_slot_waits_for_all_positions_below_the_end_positions_of_all_streams(database: str) -> None:
    foo = topic(**KAFKA)  # type: ignore[arg-type]
    dependencies = service(database, foo)
    slot = five(foo, "15:55")
    dependencies.report([part(foo, "one", 0, 100, {"15:55": 90})], now=NOW)
    early = Ends(slot, {"0": 100, "1": 50}, at("2026-11-27T16:01"))
    (outcome,) = dependencies.expect([early], now=NOW)
    assert outcome.status is Status.REFUSED
    assert "are too early: take them at 2026-11-27T16:02:00Z or later" in outcome.message

    assert expect(dependencies, early._replace(taken=at("2026-11-27T16:02"))) == [Status.ACCEPTED]
    answer = dependencies.answer(slot)
    assert (answer.complete, answer.accounted, answer.expected) == (False, 90, 140)
    later = Ends(slot, {"0": 200, "1": 50}, at("2026-11-27T16:03"))
    assert expect(dependencies, later) == [Status.KNOWN]  # the earliest end positions count

    dependencies.report([part(foo, "two", 0, 20, {"15:50": 3}, "1"), part(foo, "four", 30, 50, {}, "1")], now=NOW)
    assert dependencies.answer(slot).expected == 100
    dependencies.report([part(foo, "three", 20, 30, {"16:00": 8}, "1")], now=NOW)
    assert (dependencies.answer(slot).complete, dependencies.answer(slot).expected) == (True, 90)


def test_a_quiet_topic_is_complete_without_any_part(database: str) -> None:
    foo = topic(**KAFKA)  # type: ignore[arg-type]
    dependencies = service(database, foo)
    assert expect(dependencies, Ends(five(foo, "15:55"), {"0": 0}, NOW)) == [Status.ACCEPTED]
    assert dependencies.answer(five(foo, "15:55")).complete
    assert dependencies.answer(five(foo, "15:55")).flags == ("empty",)


def test_positions_that_the_source_dropped_are_told_once_and_no_longer_waited_for(database: str) -> None:
    foo = topic(**KAFKA)  # type: ignore[arg-type]
    dependencies = service(database, foo)
    first, second = five(foo, "15:55"), five(foo, "16:00")
    dependencies.report([part(foo, "one", 1000, 1050, {"15:55": 50})], now=NOW)
    expect(dependencies, Ends(first, {"0": 1100}, NOW, {"0": 1000}))
    assert (dependencies.answer(first).complete, dependencies.answer(first).expected) == (False, 100)

    dropped = Ends(second, {"0": 1200}, NOW, {"0": 1080})
    dependencies.report([part(foo, "two", 1080, 1200, {"15:55": 20, "16:00": 100})], now=NOW)
    expect(dependencies, dropped)
    expect(dependencies, dropped)

    assert [each.details["positions"] for each in dependencies.events() if each.kind == "lost"] == [30]
    answer = dependencies.answer(first)
    assert (answer.complete, answer.flags) == (True, ("lost",))
    assert dependencies.answer(second).complete
    assert dependencies.answer(second).flags == ()


def test_another_topic_id_starts_new_positions(database: str) -> None:
    foo = topic(**KAFKA)  # type: ignore[arg-type]
    dependencies = service(database, foo)
    dependencies.report([part(foo, "one", 0, 100, {"15:50": 100})], now=NOW)
    dependencies.report([part(foo, "two", 0, 10, {"15:55": 10}, generation="x7")], now=NOW)
    expect(dependencies, Ends(five(foo, "15:55"), {"0@x7": 11}, NOW))
    answer = dependencies.answer(five(foo, "15:55"))
    assert (answer.complete, answer.expected, answer.overlap) == (False, 11, 0)


def test_a_retracted_part_reopens_the_slots_whose_positions_it_covered(database: str) -> None:
    foo = topic(**KAFKA)  # type: ignore[arg-type]
    dependencies = service(database, foo)
    dependencies.report([part(foo, "one", 0, 60, {"15:50": 60}), part(foo, "two", 50, 100, {"15:55": 50})], now=NOW)
    expect(dependencies, Ends(five(foo, "15:50"), {"0": 60}, NOW), Ends(five(foo, "15:55"), {"0": 100}, NOW))
    before = dependencies.events()[-1].sequence

    dependencies.replace("raw/foo", "-", ["two"], [], now=NOW)
    assert told(dependencies, before) == [
        "reopened - 5min 2026-11-27T15:55Z r2",
        "reopened - 10min 2026-11-27T15:50Z r2",
    ]
    assert (dependencies.answer(five(foo, "15:55")).accounted, dependencies.answer(five(foo, "15:55")).expected) == (
        0,
        40,
    )
    later = service(database, foo)
    assert later.answer(five(foo, "15:55")) == dependencies.answer(five(foo, "15:55"))
    later.report([part(foo, "three", 60, 100, {"15:55": 40})], now=NOW)
    assert later.answer(five(foo, "15:55")).complete
