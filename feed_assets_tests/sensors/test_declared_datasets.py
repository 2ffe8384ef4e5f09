"""Datasets that a project declares in YAML: flows wait for them, and files and feeds say what their slots have."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import dagster as dg
import pytest

import feed_assets as fa
from feed_assets.datasets.ranges import slots_between
from feed_assets.datasets.slots import Slot
from feed_assets.dependencies.facts import Number, Part, Status
from feed_assets.dependencies.service import Dependencies
from feed_assets.file_feed.withdrawal import invalidate
from feed_assets.operations.gate_answers import explain_flow
from feed_assets.sensors.asset_graph import AssetFeedGraph
from feed_assets.sensors.flows import Flows
from feed_assets.starts.attempt import State
from feed_assets.starts.attempts import Attempts
from feed_assets_tests.harness import DAY, NEXT_DAY, REGISTERED, Installation, Interposed, SwitchedBlackboardResource
from feed_assets_tests.plain_flows import asset, given, publish_attempts

ORDERS, OWN, COUNTS = "topics/orders", "own/v1.0", "counts/v1.0"
FIRST = date(2019, 11, 20)
NOON = f"{DAY}T12:00Z"
Build = Callable[..., Installation]


@pytest.fixture
def build(desk: Installation, tmp_path: Path) -> Build:
    """Installations with one declared dataset, and a flow that reads `own` and waits for that dataset."""

    def built(described: str, *more: Any, name: str = ORDERS, **resources: Any) -> Installation:
        folder = tmp_path / "datasets"
        folder.mkdir(exist_ok=True)
        (folder / "orders.yaml").write_text(f"name: {name}\n{described}", encoding="utf-8")
        project = fa.Project.with_sources(replace(desk.settings, datasets_directory=folder), ())
        assets = [given("own", project.days), given("counts", project.days), *more]
        flow = asset("flow", project.days, fa.trigger(also=[fa.needs(name)], settle=timedelta(0)), own=OWN)
        return replace(desk, _definitions=project.definitions(assets=[*assets, flow], resources=resources))

    return built


def known(installation: Installation) -> tuple[Flows, Dependencies]:
    project = installation.definitions.resources["project"]
    feeds = AssetFeedGraph.of(installation.definitions.get_repository_def())
    flows = Flows.of(feeds, (), installation.settings.first_day, project.datasets)
    states = flows.states(installation.store, installation.board)
    states.refresh()
    return flows, states


def why(installation: Installation, flow: str = "flow") -> str:
    flows, states = known(installation)
    return explain_flow(installation.board, flows, states, (), flow, DAY, now=installation.now).sentence


def base_slots(states: Dependencies, day: str = DAY) -> list[Slot]:
    dataset = states.dataset(ORDERS)
    return [*slots_between(dataset, dataset.base, *dataset.window(dataset.slot(day)))]


def report(installation: Installation, slots: list[Slot], records: int, name: str = "a", **more: Any) -> None:
    _, states = known(installation)
    part = Part(ORDERS, "-", name, f"s3://{name}", records={each.start: records for each in slots}, **more)
    (outcome,) = states.report([part], now=installation.now)
    assert outcome.status is not Status.REFUSED, outcome.message


def publish(installation: Installation, location: str, rows: int | None = None) -> None:
    if rows is None:
        installation.make(location, DAY, [])
    else:
        installation.make(location, DAY, [], rows=rows, content=b"x" * rows)
    installation.tick("new_manifests")


def test_d14_a_flow_starts_when_the_day_of_a_declared_5_minute_dataset_is_complete(build: Build) -> None:
    installation = build("grain: 5min\ncomplete: {basis: counted, witness: kafka}\n")
    publish(installation, OWN)
    assert installation.tick("starts").asked == {}
    assert why(installation).startswith(f"waits for data: {ORDERS} - day {DAY}")

    _, states = known(installation)
    slots = base_slots(states)
    assert len(slots) == 288
    states.expect([Number("kafka", each, 10) for each in slots], now=installation.now)
    report(installation, slots[:-1], 10)
    assert installation.tick("starts").asked == {}
    assert f"{ORDERS} - 5min {DAY}T23:55Z has 0 of 10 records" in why(installation)

    report(installation, slots[-1:], 10, "b")
    assert installation.tick("starts").asked == {DAY: ("flow",)}
    assert installation.tick("starts").asked == {}


COUNTED = "grain: hour\ncomplete: {basis: counted, witness: 'numbers/{yyyy}-{mm}-{dd}.csv'}\n"
COVERED = "grain: hour\ncomplete: {basis: covered, witness: 'ends/{yyyy}-{mm}-{dd}.csv'}\n"
MEMBERS = COUNTED + "levels: [region]\nmembers: [eu]\n"
BY_FEED = "grain: day\ncomplete: {basis: counted, witness: 'feed:counts/v1.0'}\n"


def put(installation: Installation, folder: str, text: str, day: str = DAY) -> Path:
    """A file of the day, as a partner puts it."""
    target = installation.base / folder / f"{day}.csv"
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(text, encoding="utf-8")
    return target


def by_hour(header: str, line: Callable[[int], str], day: str = DAY) -> str:
    return header + "\n" + "".join(f"{day}T{hour:02}Z,{line(hour)}\n" for hour in range(24))


def test_files_of_days_say_how_many_records_slots_have_and_a_newer_file_replaces_the_numbers(build: Build) -> None:
    installation = build(COUNTED)
    publish(installation, OWN)
    report(installation, base_slots(known(installation)[1]), 10)
    assert installation.tick("starts").asked == {}
    assert f"has no final number of numbers/{DAY}.csv" in why(installation)

    put(installation, "numbers", by_hour("start,records", lambda hour: "1000" if hour == 15 else "10"))
    assert installation.tick("starts").asked == {}
    assert f"{ORDERS} - hour {DAY}T15:00Z has 10 of 1,000 records, 1.000 %" in why(installation)

    put(installation, "numbers", "start,records\n15,10\n")
    assert installation.tick("starts").asked == {DAY: ("flow",)}


def test_numbers_of_each_member_and_of_the_days_of_its_own_zone_are_taken(build: Build) -> None:
    described = COUNTED + "levels: [region, center]\nmembers: [eu/par1, eu/ber1]\ncalendar: Europe/Paris\n"
    installation = build(described)
    publish(installation, OWN)
    hours = [f"2019-11-23T23:00Z,{DAY}T00:00+00:00", *(f"{DAY}T{hour:02}Z" for hour in range(1, 23))]
    starts = [each for text in hours for each in text.split(",")]
    lines = [f"{start},{member},1" for start in starts for member in ("eu/par1", "eu/ber1")]
    put(installation, "numbers", "start,member,records\n" + "\n".join(lines))
    installation.tick("starts")
    assert f"{ORDERS} eu/ber1 hour 2019-11-23T23:00Z has 0 of 1 records" in why(installation)

    _, states = known(installation)
    for member in ("eu/par1", "eu/ber1"):
        dataset = states.dataset(ORDERS)
        begin, end = dataset.window(dataset.slot(DAY, member))
        starts_at = {each.start: 1 for each in slots_between(dataset, dataset.base, begin, end, member)}
        states.report([Part(ORDERS, member, "a", "s3://a", records=starts_at)], now=installation.now)
    assert installation.tick("starts").asked == {DAY: ("flow",)}


def test_files_of_days_say_end_positions_and_parts_have_to_cover_them(build: Build) -> None:
    installation = build(COVERED)
    publish(installation, OWN)
    put(
        installation,
        "ends",
        "start,stream,end\n" + "".join(f"{hour},{each},{10 * hour + 10}\n" for hour in range(24) for each in "01"),
    )
    assert installation.tick("starts").asked == {}
    assert "its source's end positions do not say that these are all" in why(installation)

    slots = base_slots(known(installation)[1])
    report(installation, slots, 10, "of 0", stream="0", ranges=((0, 240),))
    assert installation.tick("starts").asked == {}
    report(installation, slots, 10, "of 1", stream="1", ranges=((0, 239),))
    assert installation.tick("starts").asked == {}
    assert f"{ORDERS} - hour {DAY}T23:00Z" in why(installation)

    put(installation, "ends", "start,stream,end\n23,0,1\n23,1,1\n")  # of end positions, the first ones count
    assert installation.tick("starts").asked == {}
    report(installation, slots[-1:], 1, "the last", stream="1", ranges=((239, 240),))
    assert installation.tick("starts").asked == {DAY: ("flow",)}


@pytest.mark.parametrize(
    ("described", "text", "message"),
    [
        (COUNTED, "start,count\n15,1\n", "its first line is 'start,count', and must be 'start,records'"),
        (COUNTED, "", "its first line is '', and must be 'start,records'"),
        (COUNTED, "start,records\n15,1,2\n", "line 2: '15,1,2' has not the columns start,records"),
        (COUNTED, "start,records\n15,-1\n", "line 2: records is '-1', and must be a whole number such as 1200"),
        (COUNTED, f"start,records\n{NEXT_DAY}T03Z,1\n", f"line 2: {ORDERS} - hour {NEXT_DAY}T03:00Z does not lie in"),
        (COUNTED, "start,records\n15,1\n15:00,2\n", f"line 3: {ORDERS} - hour {DAY}T15:00Z comes twice"),
        (COUNTED, "start,records\n15:30,1\n", f"line 2: {ORDERS} - hour {DAY}T15:30Z is not on its grain: use"),
        (COUNTED, "start,records\nnoon,1\n", "line 2: 'noon' is no start of a slot: write "),
        (COUNTED, "start,records\n24,1\n", f"line 2: '{DAY}T24' is no start of a slot"),
        (COUNTED, f"start,records\n{DAY},1\n", "line 2: '2019-11-24' is no start of the grain hour"),
        (COUNTED, "start,member,records\n15,-,1\n", "its first line is 'start,member,records', and must be 'start,rec"),
        (COUNTED, '"start\n', "line 1: unexpected end of data"),
        (COVERED, "start,records\n15,1\n", "its first line is 'start,records', and must be 'start,stream,end'"),
        (COVERED, "start,stream,end\n15,0,1\n15,0,2\n", "line 3: the stream '0' of topics/orders - hour"),
        (COVERED, "start,stream,end\n15,0,x\n", "line 2: end is 'x', and must be a whole number"),
        (MEMBERS, "start,records\n15,1\n", "its first line is 'start,records', and must be 'start,member,records'"),
        (MEMBERS, "start,member,records\n15,us,1\n", "line 2: topics/orders: no member has the path 'us'"),
        (MEMBERS, "start,member,records\n15,,1\n", "line 2: topics/orders: no member has the path ''"),
        (MEMBERS, "start,member,records\n15,-,1\n", "line 2: - has members: write a line for each of them"),
    ],
)
def test_a_file_that_cannot_be_read_is_refused_with_its_sentence_and_the_others_count(
    build: Build, described: str, text: str, message: str
) -> None:
    installation = build(described)
    folder = "ends" if "ends/" in described else "numbers"
    put(installation, folder, text)
    other = "start,stream,end\n15,0,7\n" if folder == "ends" else "start,records\n15,7\n"
    if "levels" in described:
        other = "start,member,records\n15,eu,7\n"
    put(installation, folder, other, NEXT_DAY)

    skipped = installation.tick("starts").skipped
    assert f"{folder}/{DAY}.csv: {message}" in skipped
    assert "Its numbers do not count until it is replaced." in skipped
    _, states = known(installation)
    member = "eu" if "levels" in described else "-"
    slot = states.dataset(ORDERS).slot(f"{NEXT_DAY}T15Z", member)
    assert states.has_ends(slot) or states.number_of(slot, "numbers/{yyyy}-{mm}-{dd}.csv") is not None


def test_end_positions_that_were_taken_too_early_are_refused_with_one_sentence_for_each_file(build: Build) -> None:
    installation = build(COVERED)
    taken = datetime(2019, 11, 24, 12, 30, tzinfo=UTC).timestamp()
    file = put(installation, "ends", by_hour("start,stream,end", lambda _: "0,0"))
    os.utime(file, (taken, taken))

    tick = installation.tick("starts")
    assert tick.skipped.count("too early") == 1
    assert f"ends/{DAY}.csv: {ORDERS} - hour {DAY}T12:00Z: the end positions of {DAY}T12:30:00Z are too" in tick.skipped
    assert "In all, 12 slots are refused." in tick.skipped
    assert installation.tick("starts").skipped == tick.skipped

    file.touch()
    assert "too early" not in installation.tick("starts").skipped
    _, states = known(installation)
    assert states.answer(states.dataset(ORDERS).slot(DAY)).complete


def test_a_feed_is_a_witness_with_the_rows_of_the_update_in_force(build: Build) -> None:
    installation = build(BY_FEED)
    publish(installation, OWN)
    report(installation, base_slots(known(installation)[1]), 100)
    assert installation.tick("starts").asked == {}
    assert "has no final number of feed:counts/v1.0" in why(installation)

    publish(installation, COUNTS, rows=120)
    assert installation.tick("starts").asked == {}
    assert f"{ORDERS} - day {DAY}: has 100 of 120 records" in why(installation)

    publish(installation, COUNTS, rows=100)
    assert installation.tick("starts").asked == {DAY: ("flow",)}


def test_without_an_update_in_force_the_number_of_a_feed_is_not_final_again(build: Build) -> None:
    installation = build(BY_FEED)
    report(installation, base_slots(known(installation)[1]), 100)
    publish(installation, COUNTS, rows=100)
    publish(installation, OWN)
    assert installation.tick("starts").asked == {DAY: ("flow",)}
    installation.make("flow/v1.0", DAY, [], details={"revisions": {f"{ORDERS} - day {DAY}": 1}})
    installation.tick("new_manifests")
    _, states = known(installation)
    slot = states.dataset(ORDERS).slot(DAY)
    assert (states.answer(slot).complete, states.answer(slot).revision) == (True, 1)

    update = installation.latest(COUNTS)
    assert update is not None
    invalidate(installation.feed(COUNTS), DAY, update, reason="wrong", author="me", now=installation.now)
    installation.tick("new_manifests")
    installation.tick("starts")
    states.refresh()
    assert (states.answer(slot).complete, states.answer(slot).revision) == (False, 2)
    assert "has no final number of feed:counts/v1.0" in why(installation)

    publish(installation, COUNTS, rows=100)
    assert installation.tick("starts").asked == {DAY: ("flow",)}
    states.refresh()
    assert (states.answer(slot).complete, states.answer(slot).revision) == (True, 2)


def test_an_update_that_does_not_say_its_rows_is_named_and_the_number_before_it_is_not_final(build: Build) -> None:
    installation = build(BY_FEED)
    report(installation, base_slots(known(installation)[1]), 100)
    publish(installation, COUNTS, rows=100)
    installation.tick("starts")
    _, states = known(installation)
    slot = states.dataset(ORDERS).slot(DAY)
    assert states.answer(slot).complete

    publish(installation, COUNTS)
    for _ in range(2):
        skipped = installation.tick("starts").skipped
        assert f"{COUNTS} - day {DAY} has no record of how many rows its update has" in skipped
    states.refresh()
    assert not states.answer(slot).complete
    assert "has no final number of feed:counts/v1.0" in states.why(slot)


def test_each_witness_has_to_be_satisfied(build: Build) -> None:
    installation = build(
        "grain: day\ncomplete: {basis: counted, witness: [kafka, 'numbers/{yyyy}-{mm}-{dd}.csv', 'feed:counts/v1.0']}\n"
    )
    publish(installation, OWN)
    _, states = known(installation)
    (day,) = base_slots(states)
    report(installation, [day], 10)
    put(installation, "numbers", f"start,records\n{DAY},10\n")
    states.expect([Number("kafka", day, 10)], now=installation.now)
    assert installation.tick("starts").asked == {}
    assert "has no final number of feed:counts/v1.0" in why(installation)

    publish(installation, COUNTS, rows=10)
    assert installation.tick("starts").asked == {DAY: ("flow",)}


def test_a_folder_that_several_datasets_share_is_listed_once_a_tick_and_a_file_is_read_once(
    build: Build, desk: Installation, tmp_path: Path
) -> None:
    (tmp_path / "datasets").mkdir()
    for name in ("clicks", "views"):
        text = f"name: topics/{name}\n{COUNTED.replace('numbers/', f'numbers/{name}-')}"
        (tmp_path / "datasets" / f"{name}.yaml").write_text(text, encoding="utf-8")
    base = desk.settings.base
    board = SwitchedBlackboardResource(base=base)
    installation = build(COUNTED.replace("numbers/", "numbers/orders-"), blackboard=board)
    for name in ("orders", "clicks", "views"):
        put(installation, "numbers", "start,records\n15,1\n", f"{name}-{DAY}")
        put(installation, "numbers", "start,records\n15,1\n", f"{name}-2019-11-20")  # before the lookback
    asked: list[str] = []
    REGISTERED[base] = Interposed(installation.board, lambda operation, key: asked.append(f"{operation} {key}"))

    def tick() -> list[str]:
        asked.clear()
        installation.tick("starts")
        return [each for each in asked if "numbers/" in each]

    once = ["page numbers/"]
    assert tick() == once + [f"read numbers/{name}-{DAY}.csv" for name in ("clicks", "orders", "views")]
    assert tick() == once


def test_lines_for_slots_before_a_dataset_was_counted_are_left_out(build: Build) -> None:
    build("grain: hour\ncomplete: {basis: assumed}\n").tick("starts")  # its states are stored
    installation = build(COUNTED)
    put(installation, "numbers", "start,records\n15,1\n")
    put(installation, "numbers", "start,records\n15,1\n", "2019-11-19")  # before the first day
    assert "numbers" not in installation.tick("starts").skipped


@pytest.mark.parametrize(
    ("described", "name", "message"),
    [
        (BY_FEED, OWN, "orders.yaml: own/v1.0 is a feed of this project: delete the file, or use another name in it"),
        (
            BY_FEED.replace("counts", "count"),
            ORDERS,
            "feed:count/v1.0 is no feed of this project: those are ",
        ),
        (
            BY_FEED.replace("day", "hour"),
            ORDERS,
            "counts/v1.0 has slots of the grain day, and topics/orders ",
        ),
        (BY_FEED + "calendar: Europe/Paris\n", ORDERS, "the days of counts/v1.0 and of topics/orders begin at differ"),
        (
            BY_FEED.replace("counts/", "table/"),
            ORDERS,
            "table/v1.0 has no partitions, and topics/orders slots ",
        ),
        (BY_FEED.replace("counts/", "names/"), ORDERS, "The partitions of names/v1.0 are StaticPartitionsDefinition"),
        (BY_FEED.replace("counts/", "flow/"), ORDERS, "Flows wait for each other: flow/v1.0 needs topics/orders needs"),
    ],
)
def test_a_dataset_that_does_not_fit_the_feeds_is_refused(
    build: Build, described: str, name: str, message: str
) -> None:
    more = [given("table", None), given("names", dg.StaticPartitionsDefinition(["a"]))]
    with pytest.raises(dg.DagsterInvalidDefinitionError) as refused:
        build(described, *more, name=name)
    assert message in str(refused.value)


# --- flows that read nothing, and wait for a declared dataset only -------------------------------------------------

KAFKA = "grain: hour\ncomplete: {basis: counted, witness: kafka}\n"


def alone(desk: Installation, **more: Any) -> dg.AssetsDefinition:
    """A flow that reads no feed."""
    days = fa.Project.with_sources(desk.settings, ()).days
    return asset("alone", days, fa.trigger(also=[fa.needs(ORDERS)], **{"settle": timedelta(0), **more}))


def complete_day(installation: Installation, day: str = DAY, records: int = 10, name: str = "a") -> None:
    _, states = known(installation)
    slots = base_slots(states, day)
    states.expect([Number("kafka", each, records) for each in slots], now=installation.now)
    report(installation, slots, records, f"{name} of {day}")


def made(installation: Installation, revision: int, day: str = DAY) -> None:
    """The result of a run that the gate started for this revision."""
    installation.make("alone/v1.0", day, [], details={"revisions": {f"{ORDERS} - day {day}": revision}})


def test_a_flow_whose_only_input_is_a_declared_dataset_starts_once_when_the_day_is_complete(
    build: Build, desk: Installation
) -> None:
    installation = build(KAFKA, alone(desk))
    assert installation.tick("starts").asked == {}
    assert why(installation, "alone").startswith(f"waits for data: {ORDERS} - day {DAY}: {ORDERS} - hour {DAY}T00:00Z")

    complete_day(installation)
    assert why(installation, "alone").startswith("may start: its inputs are there, and it was never computed")
    tick = installation.tick("starts")
    assert tick.asked == {DAY: ("alone",)}
    (request,) = tick.requests
    assert json.loads(request.tags["feed_assets/revisions"]) == {f"{ORDERS} - day {DAY}": 1}
    assert installation.tick("starts").asked == {}

    made(installation, 1)
    assert installation.tick("starts").asked == {}  # before `new_manifests` has seen it
    installation.tick("new_manifests")
    assert installation.tick("starts").asked == {}
    publish_attempts(installation)
    assert why(installation, "alone") == "up to date"


def test_a_flow_that_reads_nothing_runs_again_when_its_input_is_revised(build: Build, desk: Installation) -> None:
    installation = build(KAFKA, alone(desk))
    complete_day(installation)
    installation.tick("starts")
    made(installation, 1)
    installation.tick("new_manifests")
    publish_attempts(installation)

    _, states = known(installation)
    hour = base_slots(states)[15]
    states.expect([Number("kafka", hour, 20, version=1)], now=installation.now)
    assert installation.tick("starts").asked == {}
    assert "waits for data" in why(installation, "alone")
    report(installation, [hour], 10, "more")
    assert why(installation, "alone") == f"may start: {ORDERS} - day {DAY} has revision 2 now, was 1"
    assert installation.tick("starts").asked == {DAY: ("alone",)}
    assert installation.tick("starts").asked == {}


@pytest.mark.parametrize(
    ("on_rerun", "sentence"),
    [
        ("ignore", "stays, as the trigger ignores changes of inputs"),
        ("ask", "asks: topics/orders - day 2019-11-24 "),
    ],
)
def test_a_flow_that_reads_nothing_obeys_on_rerun(
    build: Build, desk: Installation, on_rerun: str, sentence: str
) -> None:
    installation = build(KAFKA, alone(desk, on_rerun=on_rerun))
    complete_day(installation)
    assert installation.tick("starts").asked == {DAY: ("alone",)}
    made(installation, 1)
    installation.tick("new_manifests")
    publish_attempts(installation)
    _, states = known(installation)
    states.reopen(base_slots(states)[:1], reason="prices", now=installation.now)

    assert installation.tick("starts").asked == {}
    assert sentence in why(installation, "alone")


def test_a_flow_that_reads_nothing_starts_older_days_only_if_its_trigger_says_so(
    build: Build, desk: Installation
) -> None:
    installation = build(KAFKA, alone(desk))
    installation.tick("starts")
    _, states = known(installation)
    dataset = states.dataset(ORDERS)
    states.waive([dataset.slot("2019-11-22")], reason="cut", by="me", now=installation.now)
    tick = installation.tick("starts")
    assert (tick.asked, "alone" in tick.skipped) == ({}, False)

    installation = build(KAFKA, alone(desk, since=FIRST))
    states.waive([dataset.slot("2019-11-21")], reason="cut", by="me", now=installation.now)
    assert installation.tick("starts").asked == {"2019-11-21": ("alone",)}


def test_a_day_for_which_the_dataset_has_no_slot_does_not_start(build: Build, desk: Installation) -> None:
    installation = build(KAFKA + "first_day: 2019-11-26\n", alone(desk))
    assert installation.tick("starts").asked == {}
    assert why(installation, "alone").startswith("waits for data: none of the datasets that it waits for has a slot")


def test_a_flow_without_partitions_is_refused(build: Build) -> None:
    flow = asset("alone", None, fa.trigger(also=[fa.needs(ORDERS)]))
    with pytest.raises(dg.DagsterInvalidDefinitionError, match="alone has a trigger, but no partitions"):
        build(KAFKA, flow)


def test_after_a_failed_run_the_answer_says_when_it_is_tried_again(build: Build, desk: Installation) -> None:
    installation = build(KAFKA, alone(desk))
    complete_day(installation)
    installation.tick("starts")
    attempts = Attempts(installation.store, installation.board.uri(""), lambda: installation.now)
    for minutes in (10, 20):
        (alive,) = attempts.alive()
        attempts.end(alive.key, State.FAILED, reason="its run failed")
        again = f"{installation.now + timedelta(minutes=minutes):%Y-%m-%d %H:%M:%S}"
        assert why(installation, "alone").endswith(f"its run failed; it is tried again from {again} on")
        assert installation.tick("starts").asked == {}
        installation.an_hour_ago("alone/v1.0")
        assert why(installation, "alone").startswith("may start")
        assert installation.tick("starts").asked == {DAY: ("alone",)}
    (alive,) = attempts.alive()
    attempts.end(alive.key, State.FAILED, reason="its run failed")
    installation.an_hour_ago("alone/v1.0")
    assert "was given up: failed after 3 tries: its run failed; `feed-assets deps start` tries again" in why(
        installation, "alone"
    )
    assert installation.tick("starts").asked == {}


def test_a_number_with_an_older_version_is_answered_with_the_number_that_counts(build: Build) -> None:
    installation = build(KAFKA)
    _, states = known(installation)
    hour = base_slots(states)[15]
    states.expect([Number("kafka", hour, 20, version=3)], now=installation.now)
    same, older = states.expect([Number("kafka", hour, 20, version=3), Number("kafka", hour, 30)], now=installation.now)
    assert same == (Status.KNOWN, "")
    assert older.status is Status.KNOWN
    assert older.message.startswith("kafka has said 20 (final) with the version 3. To replace that,")
