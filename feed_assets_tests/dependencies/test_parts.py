"""Counted slots: parts, numbers, replacement, waivers and backfills; each report is answered on its own."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta

import pytest

from feed_assets.datasets.grains import Grain
from feed_assets.datasets.slots import Slot
from feed_assets.dependencies.errors import RefusedFactError
from feed_assets.dependencies.facts import Listed, Number, Part, Status
from feed_assets.dependencies.rules import Basis, Declared, Rule
from feed_assets.dependencies.service import Dependencies
from feed_assets_tests.dependencies.datasets import at, raw, service, told, topic

NOW = at("2026-11-27T16:09")
STATUSES = {"accepted": Status.ACCEPTED, "known": Status.KNOWN, "refused": Status.REFUSED}


def five(declared: Declared, time: str, member: str = "-") -> Slot:
    return declared.dataset.slot(f"2026-11-27T{time}Z", member, Grain.FIVE_MINUTES)


def part(declared: Declared, id_: str, records: Mapping[str, int], member: str = "-", **more: object) -> Part:
    counts = {five(declared, time, member).start: count for time, count in records.items()}
    return Part("raw/foo", member, id_, f"s3://raw/{id_}", records=counts, **more)  # type: ignore[arg-type]


def numbers(declared: Declared, records: Mapping[str, int], witness: str = "source") -> list[Number]:
    return [Number(witness, five(declared, time), count) for time, count in records.items()]


def report(dependencies: Dependencies, *parts: Part) -> list[Status]:
    return [outcome.status for outcome in dependencies.report(parts, now=NOW)]


def hour_of_windows() -> list[str]:
    return [f"15:{minute:02}" for minute in range(0, 60, 5)]


def test_d16_the_story_of_16_08_has_exactly_its_four_events(database: str) -> None:
    """[15:58, 16:08) reaches 99.995 %: hour 15, 10min 15:50, 5min 15:55, 5min 16:00; and not 5min 16:05."""
    foo = topic()
    dependencies = service(database, foo)
    before = [*hour_of_windows()[:-1]]
    dependencies.tick(NOW)
    dependencies.expect(numbers(foo, dict.fromkeys(hour_of_windows(), 20_000)), now=NOW)
    dependencies.expect(numbers(foo, {"16:00": 20_000}), now=NOW)
    report(dependencies, part(foo, "earlier", dict.fromkeys(before, 20_000) | {"15:55": 12_000}))
    after = dependencies.events()[-1].sequence

    got = part(foo, "a", {"15:55": 7_999, "16:00": 19_998, "16:05": 12_000})  # 16:00 lacks 2 of 20,000: 99.99 %
    assert report(dependencies, got) == [Status.ACCEPTED]
    assert told(dependencies, after) == [
        "completed - 5min 2026-11-27T15:55Z r1",
        "completed - 10min 2026-11-27T15:50Z r1",
        "completed - hour 2026-11-27T15:00Z r1",
    ]
    assert report(dependencies, part(foo, "b", {"16:00": 1})) == [Status.ACCEPTED]  # now 99.995 %

    assert sorted(told(dependencies, after)) == [
        "completed - 10min 2026-11-27T15:50Z r1",
        "completed - 5min 2026-11-27T15:55Z r1",
        "completed - 5min 2026-11-27T16:00Z r1",
        "completed - hour 2026-11-27T15:00Z r1",
    ]
    assert not dependencies.answer(five(foo, "16:05")).complete
    answer = dependencies.answer(five(foo, "16:00"))
    assert (answer.accounted, answer.expected, answer.basis) == (19_999, 20_000, Basis.COUNTED)


def test_one_report_that_completes_two_windows_tells_the_same_four_events(database: str) -> None:
    foo = topic()
    dependencies = service(database, foo)
    dependencies.expect(numbers(foo, dict.fromkeys([*hour_of_windows(), "16:00", "16:05"], 20_000)), now=NOW)
    report(dependencies, part(foo, "earlier", dict.fromkeys(hour_of_windows()[:-1], 20_000)))
    after = dependencies.events()[-1].sequence

    report(dependencies, part(foo, "[15:58, 16:08)", {"15:55": 19_999, "16:00": 19_999, "16:05": 12_000}))
    assert told(dependencies, after) == [
        "completed - 5min 2026-11-27T15:55Z r1",
        "completed - 5min 2026-11-27T16:00Z r1",
        "completed - 10min 2026-11-27T15:50Z r1",
        "completed - hour 2026-11-27T15:00Z r1",
    ]


def test_d15_a_slot_with_99_994_percent_of_its_records_is_not_complete_and_one_with_99_995_is(database: str) -> None:
    foo = topic()
    dependencies = service(database, foo)
    dependencies.expect(numbers(foo, {"15:50": 100_000, "15:55": 100_000}), now=NOW)
    report(dependencies, part(foo, "one", {"15:50": 99_994, "15:55": 99_995}))
    assert not dependencies.answer(five(foo, "15:50")).complete
    assert dependencies.answer(five(foo, "15:55")).complete
    assert dependencies.why(five(foo, "15:50")) == "has 99,994 of 100,000 records, 99.994 %"


def test_a_part_counts_once_and_the_same_id_with_other_content_is_refused(database: str) -> None:
    foo = topic()
    dependencies = service(database, foo)
    one = part(foo, "one", {"15:55": 10}, ranges=((0, 10),))
    assert report(dependencies, one, one) == [Status.ACCEPTED, Status.KNOWN]
    assert report(dependencies, one) == [Status.KNOWN]

    changed = one._replace(records={five(foo, "15:55").start: 11})
    (outcome,) = dependencies.report([changed], now=NOW)

    assert outcome.status is Status.REFUSED
    assert (
        "reported with other content before, as s3://raw/one. Give the new object an id of its own" in outcome.message
    )
    assert dependencies.answer(five(foo, "15:55")).accounted == 10


def test_items_of_a_batch_that_cannot_be_true_are_refused_one_by_one(database: str) -> None:
    foo = topic("a", "b")
    dependencies = service(database, foo)
    good = part(foo, "good", {"15:55": 1}, "a")
    bad = {
        "'raw/bar' is no declared dataset. Declared are: raw/foo": good._replace(id="1", dataset="raw/bar"),
        "is not on its grain: use 2026-11-27T15:55Z": good._replace(
            id="2", records={five(foo, "15:55", "a").start + 1: 1}
        ),
        "a count cannot be negative": part(foo, "3", {"15:55": -1}, "a"),
        "later than the store's time, 2026-11-27T16:09:00Z. Check the clock": part(foo, "4", {"17:05": 1}, "a"),
        "a range of positions is empty or negative": part(foo, "5", {}, "a", ranges=((5, 5),)),
        "its own ranges of positions overlap": part(foo, "6", {}, "a", ranges=((0, 5), (4, 6))),
        "no member has the path 'c'": good._replace(id="7", member="c"),
        "- is no member but a level: name one below it": good._replace(id="8", member="-"),
        "a part has no id": good._replace(id=""),
    }
    outcomes = dependencies.report([*bad.values(), good], now=NOW)

    for message, outcome in zip(bad, outcomes, strict=False):
        assert outcome.status is Status.REFUSED
        assert message in outcome.message
    assert outcomes[-1].status is Status.ACCEPTED
    assert dependencies.answer(foo.dataset.slot("2026-11-27")).accounted == 1
    wrong = [*numbers(foo, {"15:55": 3})]
    wrong = [
        Number("source", five(foo, "15:55", "a"), -3),
        Number("guess", five(foo, "15:55", "a"), 3),
        Number("source", foo.dataset.slot("2026-11-27"), 3),
        Number("source", five(foo, "15:55", "a"), 1),
    ]
    refused = dependencies.expect(wrong, now=NOW)
    assert [each.status for each in refused] == [*[Status.REFUSED] * 3, Status.ACCEPTED]
    assert "'guess' is no witness of a. Declared are: source" in refused[1].message


def test_an_older_writer_is_refused_once_another_took_over(database: str) -> None:
    foo = topic()
    dependencies = service(database, foo)
    old = {"stream": "foo-0", "writer": "job-1", "epoch": 1}
    new = {"stream": "foo-0", "writer": "job-2", "epoch": 2}
    assert report(dependencies, part(foo, "one", {"15:50": 1}, **old)) == [Status.ACCEPTED]
    assert report(dependencies, part(foo, "two", {"15:50": 1}, **new)) == [Status.ACCEPTED]
    (outcome,) = dependencies.report([part(foo, "three", {"15:50": 1}, **old)], now=NOW)

    assert outcome.status is Status.REFUSED
    assert "job-1 (epoch 1) no longer writes foo-0: job-2 took over with epoch 2" in outcome.message
    assert report(dependencies, part(foo, "one", {"15:50": 1}, **old)) == [Status.KNOWN]
    assert dependencies.answer(five(foo, "15:50")).accounted == 2


def test_the_overlap_of_two_parts_is_taken_off_and_a_gap_is_flagged_with_its_size(database: str) -> None:
    foo = topic()
    dependencies = service(database, foo)
    report(
        dependencies,
        part(foo, "one", {"15:50": 60}, ranges=((0, 60),)),
        part(foo, "two", {"15:50": 40}, ranges=((50, 90),)),
        part(foo, "three", {"15:50": 5}, ranges=((95, 100),)),
    )
    answer = dependencies.answer(five(foo, "15:50"))
    assert (answer.accounted, answer.overlap, answer.gap, answer.flags) == (95, 10, 5, ("overlap", "gap"))

    report(dependencies, part(foo, "four", {"15:55": 3}, ranges=((90, 95),)))  # positions of another slot
    assert dependencies.answer(five(foo, "15:50")).gap == 0


def test_every_witness_must_have_a_final_number_and_those_that_differ_are_flagged(database: str) -> None:
    foo = topic(witnesses=("source", "control"), threshold=99_000)
    dependencies = service(database, foo)
    slot = five(foo, "15:50")
    report(dependencies, part(foo, "one", {"15:50": 100}))
    dependencies.expect([Number("source", slot, 100, final=False)], now=NOW)
    dependencies.expect([Number("control", slot, 100)], now=NOW)
    assert not dependencies.answer(slot).complete
    dependencies.expect([Number("source", slot, 102)], now=NOW)

    answer = dependencies.answer(slot)
    assert (answer.complete, answer.expected, answer.flags) == (False, 102, ("disagree",))
    report(dependencies, part(foo, "two", {"15:50": 1}))
    assert dependencies.answer(slot).complete
    report(dependencies, part(foo, "three", {"15:50": 2}))
    assert dependencies.answer(slot).flags == ("over", "disagree")


def test_zero_of_zero_is_complete_and_a_slot_is_not_before_its_end(database: str) -> None:
    foo = topic()
    dependencies = service(database, foo)
    dependencies.expect(numbers(foo, {"15:50": 0, "16:05": 0}), now=NOW)
    assert dependencies.answer(five(foo, "15:50")).complete
    assert dependencies.answer(five(foo, "15:50")).flags == ("empty",)
    assert not dependencies.answer(five(foo, "16:05")).complete
    assert dependencies.why(five(foo, "16:05")) == "has all that it needs, and ends at 2026-11-27 16:10"
    dependencies.tick(NOW + timedelta(minutes=1))
    assert dependencies.answer(five(foo, "16:05")).complete


def test_a_counted_source_may_be_listed_and_lacks_the_records_of_its_late_file(database: str) -> None:
    ads = raw("a", a=Rule(Basis.COUNTED, ("counts",)))
    dependencies = service(database, ads)
    hour, later = ads.dataset.slot("2026-11-27T15", "a"), at("2026-11-27T20:00")
    dependencies.expect([Number("counts", hour, 1000)], now=later)
    dependencies.listed([Listed(hour, 900, 1, "one")], now=later)
    assert dependencies.why(hour) == "has 900 of 1,000 records, 90.000 %"
    assert dependencies.why(hour._replace(member="-")).endswith("has 900 of 1,000 records, 90.000 %")
    dependencies.listed([Listed(hour, 1000, 2, "two")], now=later)
    assert (dependencies.answer(hour).complete, dependencies.answer(hour).revision) == (True, 1)
    dependencies.listed([Listed(hour, 500, 1, "three")], now=later)
    assert (dependencies.answer(hour).complete, dependencies.answer(hour).revision) == (False, 2)


def test_a_revised_number_reopens_a_slot_whose_rule_fails_and_only_then(database: str) -> None:
    foo = topic(slack=1)
    dependencies = service(database, foo)
    slot = five(foo, "15:50")
    report(dependencies, part(foo, "one", {"15:50": 10}))
    dependencies.expect([Number("source", slot, 10)], now=NOW)
    dependencies.expect([Number("source", slot, 11, version=1)], now=NOW)
    assert (dependencies.answer(slot).complete, dependencies.answer(slot).revision) == (True, 1)
    dependencies.expect([Number("source", slot, 12, version=2), Number("source", slot, 10, version=1)], now=NOW)
    assert (dependencies.answer(slot).complete, dependencies.answer(slot).revision) == (False, 2)
    report(dependencies, part(foo, "two", {"15:50": 2}))
    assert told(dependencies) == [
        "completed - 5min 2026-11-27T15:50Z r1",
        "reopened - 5min 2026-11-27T15:50Z r2",
        "completed - 5min 2026-11-27T15:50Z r2",
    ]


def test_a_replacement_retracts_and_counts_in_one_transaction(database: str) -> None:
    foo = topic()
    dependencies = service(database, foo)
    slot = five(foo, "15:50")
    small = [part(foo, f"small-{n}", {"15:50": 10}, ranges=((10 * n, 10 * n + 10),)) for n in range(10)]
    report(dependencies, *small)
    dependencies.expect([Number("source", slot, 100)], now=NOW)
    compact = part(foo, "compact", {"15:50": 100}, ranges=((0, 100),))
    before = len(dependencies.events())

    for _ in range(2):
        ids = [each.id for each in small]
        dependencies.replace("raw/foo", "-", ids, [compact], now=NOW, equal_to=True)
    answer = dependencies.answer(slot)
    assert (answer.accounted, answer.overlap, answer.gap, answer.revision) == (100, 0, 0, 1)
    assert told(dependencies)[before:] == []
    (outcome,) = dependencies.report(small[:1], now=NOW)
    assert (outcome.status, outcome.message) == (
        Status.KNOWN,
        "part small-0 does not count: it was replaced by compact.",
    )

    dependencies.replace("raw/foo", "-", ["compact"], [part(foo, "less", {"15:50": 50})], now=NOW)
    answer = dependencies.answer(slot)
    assert (answer.accounted, answer.complete, answer.revision) == (50, False, 2)
    with pytest.raises(RefusedFactError, match="less cannot replace itself"):
        dependencies.replace("raw/foo", "-", ["less"], [part(foo, "less", {"15:50": 50})], now=NOW)
    with pytest.raises(RefusedFactError, match="with other content before"):
        dependencies.replace("raw/foo", "-", ["less"], [part(foo, "new", {}), compact._replace(id="new")], now=NOW)
    assert dependencies.answer(slot).accounted == 50


def test_late_records_above_the_limit_are_a_new_revision(database: str) -> None:
    foo = topic(late_share=2_000)  # 2 %
    dependencies = service(database, foo)
    slot = five(foo, "15:50")
    dependencies.expect([Number("source", slot, 100)], now=NOW)
    report(dependencies, part(foo, "one", {"15:50": 100}))
    report(dependencies, part(foo, "two", {"15:50": 2}))
    assert (dependencies.answer(slot).revision, dependencies.answer(slot).accounted) == (1, 102)
    report(dependencies, part(foo, "three", {"15:50": 1}))
    assert (dependencies.answer(slot).revision, dependencies.answer(slot).complete) == (2, True)
    assert dependencies.events()[-2].details["reason"] == "late data: 3 records after 100"
    report(dependencies, part(foo, "four", {"15:50": 2}))
    assert dependencies.answer(slot).revision == 2


def test_a_waived_slot_is_complete_and_every_answer_repeats_the_reason(database: str) -> None:
    foo = topic("a", "b")
    dependencies = service(database, foo)
    day, hour = foo.dataset.slot("2026-11-27"), foo.dataset.slot("2026-11-27T15", "a")
    dependencies.tick(NOW)
    id_ = dependencies.waive([hour], reason="the center was down", by="ann", now=NOW)

    answer = dependencies.answer(hour)
    assert (answer.complete, answer.flags, answer.waived) == (
        True,
        ("empty", "waived"),
        (f"the center was down ({id_})",),
    )
    assert dependencies.answer(five(foo, "15:50", "a")).waived == answer.waived
    assert dependencies.answer(day).waived == answer.waived
    assert dependencies.answer(foo.dataset.slot("2026-11-27T15", "b")).waived == ()
    assert dependencies.events()[0].details["by"] == "ann"
    assert service(database, foo).answer(hour) == answer

    dependencies.unwaive(id_, reason="it came up", by="bob", now=NOW)
    answer = dependencies.answer(hour)
    assert (answer.complete, answer.revision, answer.waived) == (False, 2, ())
    with pytest.raises(RefusedFactError, match="There is no waiver nothing"):
        dependencies.unwaive("nothing", reason="it came up", by="bob", now=NOW)


def test_a_member_waived_for_a_day_that_has_not_ended_completes_as_time_passes(database: str) -> None:
    foo = topic("a", "b")
    dependencies = service(database, foo)
    day = foo.dataset.slot("2026-11-27", "a")
    dependencies.tick(NOW)
    dependencies.waive([day], reason="holiday", by="ann", now=NOW)
    assert (dependencies.answer(day).complete, dependencies.answer(day).missing) == (False, 95)
    dependencies.tick(at("2026-11-28T00:00"))
    assert dependencies.answer(day).complete


def test_a_backfill_keeps_its_slots_incomplete_until_it_ends(database: str) -> None:
    foo = topic()
    dependencies = service(database, foo)
    slot, ten = five(foo, "15:50"), foo.dataset.slot("2026-11-27T15:50", grain=Grain.TEN_MINUTES)
    dependencies.expect(numbers(foo, {"15:50": 10, "15:55": 0}), now=NOW)
    report(dependencies, part(foo, "one", {"15:50": 10}))
    assert dependencies.answer(ten).revision == 1

    dependencies.reopen([ten], reason="bots", hold=True, now=NOW)
    dependencies.tick(NOW + timedelta(hours=1))
    answer = dependencies.answer(slot)
    assert (answer.complete, answer.revision, answer.flags) == (False, 2, ("backfill",))
    dependencies.replace("raw/foo", "-", ["one"], [part(foo, "two", {"15:50": 10})], now=NOW)
    assert not dependencies.answer(ten).complete
    dependencies.release([ten], now=NOW)
    assert (dependencies.answer(ten).complete, dependencies.answer(ten).revision) == (True, 2)
    assert dependencies.answer(ten).content == 2

    dependencies.reopen([ten], reason="bots", hold=True, now=NOW)
    dependencies.release([ten], equal_to=True, now=NOW)  # abandoned
    assert (dependencies.answer(ten).revision, dependencies.answer(ten).content) == (3, 2)


def test_a_day_of_which_nobody_has_counted_anything_expects_nothing_and_is_not_said_to_be_empty(database: str) -> None:
    ads = raw("a", a=Rule(Basis.COUNTED, ("counts/{yyyy}-{mm}-{dd}.csv",)))
    dependencies = service(database, ads)
    day, now = ads.dataset.slot("2026-11-27", "a"), at("2026-11-28T20:00")
    dependencies.listed([Listed(ads.dataset.slot("2026-11-26T15", "a"), 900, 1, "one")], now=now)
    answer = dependencies.answer(day)
    assert (answer.expected, answer.flags) == (None, ())
    assert "hour 2026-11-27T00:00Z has no final number of counts/2026-11-27.csv" in dependencies.why(day)

    hour = ads.dataset.slot("2026-11-27T15", "a")
    dependencies.expect([Number("counts/{yyyy}-{mm}-{dd}.csv", hour, 0)], now=now)
    answer = dependencies.answer(day)
    assert (answer.expected, answer.flags) == (0, ("empty",))
