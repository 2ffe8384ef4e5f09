"""What triggers may say, through the sensor: extra inputs, how many, the slot before, the earliest and latest time."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import dagster as dg
import pytest

import feed_assets as fa
from feed_assets.dependencies.gate.decision import Stage, Verdict
from feed_assets.dependencies.service import Dependencies
from feed_assets.file_feed.record import FeedInput
from feed_assets.file_feed.withdrawal import invalidate
from feed_assets.operations.gate_answers import explain_flow
from feed_assets.sensors.asset_graph import AssetFeedGraph
from feed_assets.sensors.flows import Flows
from feed_assets.starts.attempt import State
from feed_assets.starts.attempts import Attempts
from feed_assets.starts.pauses import Pauses
from feed_assets_tests.harness import DAY, NEXT_DAY, Installation, Tick
from feed_assets_tests.plain_flows import asset, given, publish_attempts

FLOW, OWN, OTHER = "flow/v1.0", "own/v1.0", "other/v1.0"
FOUR_DAYS = [f"2019-11-{day}" for day in (27, 28, 29, 30)]
Build = Callable[..., Installation]


@pytest.fixture
def build(desk: Installation) -> Build:
    """Installations of a flow with a trigger, which reads `own`; `other` is there, too."""

    def built(trigger: Mapping[str, Any], *more: Any, hours: bool = False, **options: Any) -> Installation:
        project = fa.Project(desk.settings, ())
        partitions = project.hours if hours else project.days
        assets = [given("own", partitions), given("other", project.days)]
        flow = asset("flow", partitions, trigger, own=OWN, **options)
        return replace(desk, _definitions=project.definitions(assets=[*assets, *more, flow]))

    return built


def publish(installation: Installation, location: str, partition: str = DAY) -> None:
    installation.make(location, partition, [])
    installation.tick("new_manifests")


def run(installation: Installation, tick: Tick, partition: str = DAY) -> None:
    """What a run that a tick asked for publishes, as far as its record goes."""
    (request,) = tick.requests
    publish_attempts(installation)
    revisions = decided(request.tags)
    inputs = [FeedInput(OWN, partition, installation.latest(OWN, partition))]
    installation.make(FLOW, partition, inputs, details={"revisions": revisions})
    installation.tick("new_manifests")


def decided(tags: Mapping[str, str]) -> dict[str, int]:
    """The revisions that a run was started with."""
    found: dict[str, int] = json.loads(tags["feed_assets/revisions"])
    return found


def known(installation: Installation) -> tuple[Flows, Dependencies]:
    feeds = AssetFeedGraph.of(installation.definitions.get_repository_def())
    flows = Flows.of(feeds, (), installation.settings.first_day)
    return flows, flows.states(installation.store, installation.board)


def explained(installation: Installation, partition: str = DAY) -> Verdict:
    flows, states = known(installation)
    return explain_flow(installation.board, flows, states, (), "flow", partition, now=installation.now)


def held(installation: Installation, partition: str = DAY) -> str:
    verdict = explained(installation, partition)
    return "" if verdict.held is None else str(verdict.held.stage)


def test_d3_a_flow_waits_for_an_input_that_only_its_trigger_names_and_its_run_records_it(build):
    installation = build(fa.trigger(also=[fa.needs(OTHER)], settle=timedelta(0)))
    publish(installation, OWN)

    assert installation.tick("starts").asked == {}
    assert explained(installation).sentence == f"waits for data: {OTHER} - day {DAY}: has no valid update"
    publish(installation, OTHER)
    tick = installation.tick("starts")
    assert tick.asked == {DAY: ("flow",)}
    assert decided(tick.requests[0].tags) == {f"{OWN} - day {DAY}": 1, f"{OTHER} - day {DAY}": 1}


def test_d39_an_extra_input_that_is_reopened_makes_the_flow_run_again_once(build):
    installation = build(fa.trigger(also=[fa.needs(OTHER)], settle=timedelta(0)))
    publish(installation, OWN)
    publish(installation, OTHER)
    run(installation, installation.tick("starts"))
    assert installation.tick("starts").asked == {}
    assert explained(installation).sentence == "up to date"

    publish(installation, OTHER)
    assert explained(installation).sentence == f"may start: {OTHER} - day {DAY} has revision 2 now, was 1"
    tick = installation.tick("starts")
    assert tick.asked == {DAY: ("flow",)}
    assert installation.tick("starts").asked == {}
    run(installation, tick)
    assert installation.tick("starts").asked == {}


def test_d39_an_input_that_a_person_reopens_runs_the_flow_again_once_though_its_update_stays(build):
    installation = build(fa.trigger(settle=timedelta(0)))
    publish(installation, OWN)
    run(installation, installation.tick("starts"))
    assert explained(installation).sentence == "up to date"
    flows, states = known(installation)
    states.reopen([flows.slot(OWN, DAY)], reason="prices were wrong", now=installation.now)

    assert "was reopened, and has revision 2 now" in explained(installation).sentence
    again = installation.tick("starts")
    assert again.asked == {DAY: ("flow",)}
    run(installation, again)
    assert explained(installation).sentence == "up to date"
    assert installation.tick("starts").asked == {}


def test_d39_an_extra_input_that_is_reopened_runs_slots_again_of_any_age(build):
    installation = build(fa.trigger(also=[fa.needs(OTHER)], settle=timedelta(0)))
    publish(installation, OWN)
    publish(installation, OTHER)
    run(installation, installation.tick("starts"))
    installation.tick("starts")

    later = installation.at(datetime(2020, 3, 1, tzinfo=UTC))
    project = fa.Project(later.settings, ())
    flow = asset("flow", project.days, fa.trigger(also=[fa.needs(OTHER)], settle=timedelta(0)), own=OWN)
    specs = [given("own", project.days), given("other", project.days)]
    later = replace(later, _definitions=project.definitions(assets=[*specs, flow]))
    later.tick("starts")
    publish(later, OTHER)
    assert later.tick("starts").asked == {DAY: ("flow",)}


@pytest.mark.parametrize(("on_rerun", "asked"), [("rerun", {DAY: ("flow",)}), ("ignore", {})])
def test_d44_an_input_that_comes_after_a_start_with_some_of_them_is_treated_as_a_rerun(build, on_rerun, asked):
    gate = fa.trigger(also=[fa.needs(OTHER)], complete=1, on_rerun=on_rerun, settle=timedelta(0))
    installation = build(gate, optional=True)
    publish(installation, OWN)
    tick = installation.tick("starts")
    assert tick.asked == {DAY: ("flow",)}
    assert decided(tick.requests[0].tags) == {f"{OWN} - day {DAY}": 1, f"{OTHER} - day {DAY}": 0}
    run(installation, tick)
    assert installation.tick("starts").asked == {}

    publish(installation, OTHER)
    assert installation.tick("starts").asked == asked
    verdict = explained(installation)
    assert verdict.case.behind == f"{OTHER} - day {DAY} has revision 1 now, was missing"


def test_d44_n_of_k_counts_optional_inputs_of_the_asset(build, desk):
    project = fa.Project(desk.settings, ())
    inputs = {name: f"{name}/v1.0" for name in ("own", "a", "b", "c")}
    flow = asset("flow", project.days, fa.trigger(complete=3, settle=timedelta(0)), optional=True, **inputs)
    specs = [given(name, project.days) for name in inputs]
    installation = replace(desk, _definitions=project.definitions(assets=[*specs, flow]))

    publish(installation, OWN)
    publish(installation, "a/v1.0")
    assert installation.tick("starts").asked == {}
    assert "2 of 4 inputs complete, and it needs 3" in explained(installation).sentence
    publish(installation, "b/v1.0")
    assert installation.tick("starts").asked == {DAY: ("flow",)}


def test_d8_an_hour_waits_for_the_one_before_until_that_is_published(build):
    installation = build(fa.trigger(previous=True, settle=timedelta(0), since="2019-11-30"), hours=True)
    first, second = "2019-11-30-00:00", "2019-11-30-01:00"
    for hour in (first, second):
        publish(installation, OWN, hour)

    tick = installation.tick("starts")
    assert tick.asked == {first: ("flow",)}  # it has none before that starts by itself
    assert "flow/v1.0 - hour 2019-11-30T00:00Z, the one before, is not done" in explained(installation, second).sentence
    run(installation, tick, first)
    assert installation.tick("starts").asked == {second: ("flow",)}


def test_d2_a_day_starts_at_its_earliest_time_in_its_zone(build, desk):
    gate = fa.trigger(not_before="0 6 * * *", timezone="Europe/Paris", settle=timedelta(0))
    day = "2019-11-30"  # ends at midnight UTC; 6:00 in Paris is 5:00 UTC
    for moment, asked in (("2019-12-01T04:59", {}), ("2019-12-01T05:00", {day: ("flow",)})):
        at = datetime.fromisoformat(moment).replace(tzinfo=UTC)
        desk.settings = replace(desk.settings, as_of=at)
        installation = build(gate)
        if not installation.latest(OWN, day):
            publish(installation, OWN, day)
        assert installation.tick("starts").asked == asked
        if not asked:
            expected = "it starts at 2019-12-01 05:00 or later; it is 2019-12-01 04:59"
            assert explained(installation, day).sentence == f"waits for earliest time: {expected}"


def test_d44_a_day_starts_with_what_is_there_after_its_longest_wait(build):
    gate = {"also": [fa.needs(OTHER)], "then": "run", "settle": timedelta(0)}
    waiting = build(fa.trigger(at_most="48h", **gate), optional=True)
    publish(waiting, OWN, "2019-11-30")  # ended a day ago
    assert waiting.tick("starts").asked == {}

    over = build(fa.trigger(at_most="0h", **gate), optional=True)
    assert over.tick("starts").asked == {"2019-11-30": ("flow",)}


@pytest.mark.parametrize(("then", "word"), [("skip", "skipped"), ("fail", "failed")])
def test_d44_a_day_without_its_inputs_is_given_up_after_its_longest_wait(build, then, word):
    installation = build(fa.trigger(also=[fa.needs(OTHER)], at_most="6h", then=then))
    publish(installation, OWN)
    assert installation.tick("starts").asked == {}
    assert (explained(installation).gives_up or "").startswith(f"{word}: not all inputs came until 2019-11-25 06:00")
    (given_up,) = attempts_of(installation).of(FLOW, DAY)
    assert (given_up.state, given_up.reason.partition(":")[0]) == (State.GIVEN_UP, word)
    publish(installation, OTHER)  # late after all
    assert installation.tick("starts").asked == {}
    assert f"it was given up, {word}: not all inputs came" in explained(installation).sentence
    attempts_of(installation).ask(FLOW, DAY, by="ann", reason="they came")
    assert installation.tick("starts").asked == {DAY: ("flow",)}


def test_d44_slots_are_given_up_though_they_are_not_due_and_only_those_without_their_inputs(build):
    installation = build(fa.trigger(at_most="72h", then="skip", since=DAY))
    for day in (DAY, NEXT_DAY):
        publish(installation, OWN, day)
    assert [*installation.tick("starts").asked] == [DAY, NEXT_DAY]

    days = [str(day) for day in range(20191124, 20191131)]
    newest = attempts_of(installation).newest(FLOW, [f"{day[:4]}-{day[4:6]}-{day[6:]}" for day in days])
    over = [day for day, each in sorted(newest.items()) if each.state is State.GIVEN_UP]
    assert over == ["2019-11-26", "2019-11-27"]  # later days still wait; the 25th has its input


def test_d44_a_flow_runs_so_many_partitions_at_once_and_the_oldest_first(build):
    installation = build(fa.trigger(at_once=2))
    for day in FOUR_DAYS:
        publish(installation, OWN, day)

    first = installation.tick("starts")
    assert [*first.asked] == FOUR_DAYS[:2]
    assert "waits for its turn: 2 partitions of 2 at once are under way" in installation.tick("starts").skipped
    installation.fail(first, dg.DagsterRunStatus.SUCCESS)
    assert [*installation.tick("starts").asked] == FOUR_DAYS[2:]


@pytest.mark.parametrize(("catch_up", "started"), [("all", slice(None)), ("latest", slice(-1, None))])
def test_d44_a_flow_that_was_paused_catches_up_with_all_or_with_the_latest(build, catch_up, started):
    installation = build(fa.trigger(catch_up=catch_up))
    pauses = Pauses(installation.store, installation.board.uri(""), lambda: installation.now - timedelta(days=30))
    pauses.pause(FLOW, by="ann", reason="new schema")
    for day in FOUR_DAYS:
        publish(installation, OWN, day)
    assert installation.tick("starts").asked == {}
    assert "paused since 2019-11-01 00:00 by ann: new schema" in explained(installation, FOUR_DAYS[0]).sentence

    assert replace(pauses, now=lambda: installation.now).resume(FLOW, by="ann") is not None
    assert [*installation.tick("starts").asked] == FOUR_DAYS[started]


def test_d8_an_hour_does_not_wait_for_one_before_it_that_is_given_up(build):
    installation = build(fa.trigger(previous=True), hours=True)
    hours = ["2019-11-24-14:00", "2019-11-24-15:00"]
    for hour in hours:
        publish(installation, OWN, hour)
    first = installation.tick("starts")
    assert hours[1] not in first.asked
    installation.fail(first)
    assert hours[1] not in installation.tick("starts").asked
    attempts_of(installation).give_up(FLOW, hours[0], "other inputs", reason="no data")
    assert hours[1] in installation.tick("starts").asked


def attempts_of(installation: Installation) -> Attempts:
    return Attempts(installation.store, installation.board.uri(""), lambda: installation.now)


def test_inputs_of_other_times_are_waited_for(build):
    also = [fa.needs(OTHER, shift="-1d"), fa.needs(OTHER, last=2)]
    installation = build(fa.trigger(also=also, settle=timedelta(0)))
    publish(installation, OWN, NEXT_DAY)
    publish(installation, OTHER, NEXT_DAY)
    assert installation.tick("starts").asked == {}
    assert f"{OTHER} - day {DAY}" in explained(installation, NEXT_DAY).sentence
    publish(installation, OTHER, DAY)
    assert installation.tick("starts").asked == {NEXT_DAY: ("flow",)}


def test_the_newest_slot_that_is_not_too_old_is_enough_and_a_newer_one_starts_nothing(build):
    installation = build(fa.trigger(also=[fa.needs(OTHER, latest="3d")], settle=timedelta(0)))
    publish(installation, OWN, "2019-11-26")
    assert held(installation, "2019-11-26") == Stage.DATA
    publish(installation, OTHER, DAY)
    tick = installation.tick("starts")
    assert tick.asked == {"2019-11-26": ("flow",)}
    run(installation, tick, "2019-11-26")

    publish(installation, OTHER, NEXT_DAY)
    assert installation.tick("starts").asked == {}
    invalidate(
        installation.feed(OTHER), DAY, installation.latest(OTHER) or "", now=installation.now, reason="x", author="ann"
    )
    publish(installation, OTHER, DAY)
    assert installation.tick("starts").asked == {"2019-11-26": ("flow",)}


def test_d5_an_extra_input_may_have_a_quality_of_its_own(build):
    with pytest.raises(dg.DagsterInvalidDefinitionError, match=r"takes inputs that passed their checks, and other/v1"):
        build(fa.trigger(also=[fa.needs(OTHER, quality="passed")]))


@pytest.mark.parametrize(
    ("gate", "message"),
    [
        ({"also": [fa.needs("missing/v1.0")]}, "flow needs 'missing/v1.0', which is no dataset of this project: those"),
        ({"also": [fa.needs("raw/ads")]}, "which is no dataset"),
        ({"also": [fa.needs(FLOW, shift="-1d")]}, r"which it makes itself: .* use trigger\(previous=True\)"),
        ({"also": [fa.needs(OTHER, shift="-1h")]}, "flow needs other/v1.0: .* -1h is no number of whole days"),
        ({"also": [fa.needs(OTHER)], "complete": 3}, r"waits for 3 inputs, but .* has 2: use trigger\(complete=2\)"),
    ],
)
def test_a_trigger_that_cannot_work_is_refused_when_the_definitions_are_loaded(build, gate, message):
    with pytest.raises(dg.DagsterInvalidDefinitionError, match=message):
        build(fa.trigger(**gate), optional=True)


@pytest.mark.parametrize("gate", [{"complete": 1}, {"complete": "any"}, {"at_most": "6h", "then": "run"}])
def test_d3_a_flow_that_may_start_without_an_input_that_it_must_read_is_refused(build, gate):
    message = r"flow may start without own/v1.0, .* dg.AssetIn\(metadata=\{OPTIONAL: True\}\)"
    with pytest.raises(dg.DagsterInvalidDefinitionError, match=message):
        build(fa.trigger(**gate))


def test_d44_flows_that_wait_for_each_other_are_refused_and_the_cycle_is_named(build, desk):
    days = fa.Project(desk.settings, ()).days
    after = asset("after", days, {}, flow=FLOW)
    with pytest.raises(
        dg.DagsterInvalidDefinitionError,
        match=r"wait for each other: after/v1.0 needs flow/v1.0 needs after/v1.0\. Leave out one",
    ):
        build(fa.trigger(also=[fa.needs("after/v1.0", shift="-1d")]), after)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"not_before": "often"}, r"trigger\(\): not_before: 'often' is no cron expression"),
        ({"not_before": "0 6 * * *", "timezone": "Mars"}, "timezone is 'Mars'"),
        ({"complete": 0}, "complete is 0"),
        ({"at_once": -1}, "at_once is -1"),
    ],
)
def test_a_trigger_that_cannot_be_is_refused(values, message):
    with pytest.raises(dg.DagsterInvalidDefinitionError, match=message):
        fa.trigger(**values)


def test_an_input_that_cannot_be_is_refused():
    with pytest.raises(dg.DagsterInvalidDefinitionError, match=r"needs\('a/v1'\): last is 0"):
        fa.needs("a/v1", last=0)


def test_d30_what_a_finished_flow_publishes_starts_the_next_in_a_cascade_of_three(desk: Installation) -> None:
    project, gate = fa.Project(desk.settings, ()), fa.trigger(settle=timedelta(0))
    names = ("first", "second", "third")
    readings = zip(names, ("own", "first", "second"), strict=True)
    flows = [asset(name, project.days, gate, **{read: f"{read}/v1.0"}) for name, read in readings]
    installation = replace(desk, _definitions=project.definitions(assets=[given("own", project.days), *flows]))
    assert installation.tick("starts").asked == {}

    inputs: list[FeedInput] = []
    for before, name in zip(("own", *names), names, strict=False):
        publish_attempts(installation)
        installation.make(f"{before}/v1.0", DAY, inputs)
        inputs = [FeedInput(f"{before}/v1.0", DAY, installation.latest(f"{before}/v1.0"))]
        installation.tick("new_manifests")
        assert installation.tick("starts").asked == {DAY: (name,)}
        assert installation.tick("starts").asked == {}
