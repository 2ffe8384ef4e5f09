"""Flows that ask: through the sensor, the command line and the API, until a person answers."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace

import pytest
from click.testing import CliRunner

from feed_assets.cli.main import main
from feed_assets.dependencies.errors import RefusedFactError
from feed_assets.dependencies.gate.decision import Reply, Verdict
from feed_assets.dependencies.gate.questions import Questions
from feed_assets.dependencies.service import Dependencies
from feed_assets.file_feed.record import FeedInput
from feed_assets.operations.gate_answers import explain_flow
from feed_assets.sensors.asset_graph import AssetFeedGraph
from feed_assets.sensors.flows import Flows
from feed_assets_tests.harness import DAY, Installation
from feed_assets_tests.plain_flows import publish_attempts
from feed_assets_tests.web.asking_project import FLOW, MODULE, OWN, definitions, publish


def run_again(installation: Installation) -> str:
    """What a run of the flow publishes, as far as its record goes."""
    publish_attempts(installation)
    update = installation.make(FLOW, DAY, [FeedInput(OWN, DAY, installation.latest(OWN))])
    installation.tick("new_manifests")
    return update


@pytest.fixture
def asking(desk: Installation) -> Installation:
    """A flow that ran, and whose input was reopened then."""
    installation = replace(desk, _definitions=definitions(desk.settings))
    publish(installation)
    assert installation.tick("starts").asked == {DAY: ("flow",)}
    run_again(installation)
    publish(installation)
    return installation


def known(installation: Installation) -> tuple[Dependencies, Verdict]:
    flows = Flows.of(
        AssetFeedGraph.of(installation.definitions.get_repository_def()), (), installation.settings.first_day
    )
    states = flows.states(installation.store, installation.board)
    return states, explain_flow(installation.board, flows, states, (), "flow", DAY, now=installation.now)


def answer(installation: Installation, reply: Reply, **more: str) -> bool:
    states, verdict = known(installation)
    return Questions(states).answer(verdict, reply, by="ann", now=installation.now, **more)


def kinds(installation: Installation) -> list[str]:
    states, _ = known(installation)
    return [each.kind for each in states.events() if each.kind in {"asked", "answered"}]


def test_d39_a_flow_asks_once_and_runs_again_when_a_person_says_so(asking):
    for _ in range(2):
        assert asking.tick("starts").asked == {}
    states, verdict = known(asking)
    assert verdict.asks
    (question,) = Questions(states).open()
    assert (question.flow, str(question.slot), question.revisions) == (
        "flow",
        f"{FLOW} - day {DAY}",
        {f"{OWN} - day {DAY}": 2},
    )
    assert question.why == f"{OWN} - day {DAY} has revision 2"
    assert kinds(asking) == ["asked"]

    assert answer(asking, Reply.RERUN)
    assert not answer(asking, Reply.RERUN)  # known
    assert Questions(states).open() == []
    assert asking.tick("starts").asked == {DAY: ("flow",)}
    assert kinds(asking) == ["asked", "answered"]
    run_again(asking)
    assert asking.tick("starts").asked == {}
    assert known(asking)[1].sentence == "up to date"


def test_d39_an_answer_is_for_the_inputs_of_its_time_and_a_further_reopening_asks_anew(asking):
    asking.tick("starts")
    assert answer(asking, Reply.KEEP, reason="too small")
    assert asking.tick("starts").asked == {}
    states, verdict = known(asking)
    assert "stays, as ann has answered: too small" in verdict.sentence

    publish(asking)
    assert asking.tick("starts").asked == {}
    (question,) = Questions(states).open()
    assert question.revisions == {f"{OWN} - day {DAY}": 3}
    with pytest.raises(RefusedFactError, match="have changed since this question"):
        answer(asking, Reply.RERUN, digest=verdict.case.digest)
    assert answer(asking, Reply.RERUN, digest=question.digest)
    assert asking.tick("starts").asked == {DAY: ("flow",)}
    assert kinds(asking) == ["asked", "answered", "asked", "answered"]


def test_an_answer_may_be_changed_and_may_come_before_the_question_is_on_record(asking):
    assert answer(asking, Reply.KEEP)
    assert answer(asking, Reply.RERUN)
    assert asking.tick("starts").asked == {DAY: ("flow",)}


def test_a_flow_that_asks_nothing_takes_no_answer(asking):
    answer(asking, Reply.RERUN)
    run_again(asking)
    with pytest.raises(RefusedFactError, match=f"flow {DAY} asks nothing: up to date"):
        answer(asking, Reply.KEEP)


def test_a_question_about_a_result_that_was_replaced_is_over(asking):
    asking.tick("starts")
    run_again(asking)  # somebody has run it
    states, _ = known(asking)
    assert Questions(states).open() == []


@pytest.fixture
def run(asking: Installation, monkeypatch: pytest.MonkeyPatch) -> Callable[..., str]:
    """`feed-assets deps ...`, with the exit code that is expected."""
    for name, value in {
        "BASE": str(asking.base),
        "STATE": asking.settings.state,
        "FIRST_DAY": "2019-11-20",
        "AS_OF": "2019-12-01T12:00:00",
        "MODULE": MODULE,
    }.items():
        monkeypatch.setenv(f"FEED_ASSETS_{name}", value)

    def run(*arguments: str, code: int = 0) -> str:
        result = CliRunner().invoke(main, ["deps", *arguments])
        assert result.exit_code == code, (result.output, result.exception)
        return " ".join(result.output.split())

    return run


def test_d44_the_command_line_forces_starts_and_pauses_flows(asking, run):
    assert "1 published 1 of 3" in run("attempts", "flow", DAY)
    said = run("start", "flow", DAY, "--by", "ann", "--reason", "new prices")
    assert said.startswith(f"attempt 2 of {FLOW} {DAY} is requested (ann: new prices).")
    refused = run("start", "flow", DAY, "--by", "bob", "--reason", "me too", code=1)
    assert f"attempt 2 of {FLOW} {DAY} is requested, or its run is under way" in refused
    assert asking.tick("starts").asked == {DAY: ("flow",)}
    assert json.loads(run("attempts", "flow", DAY, "--json"))[-1]["forced_by"] == "ann"
    assert "its slots are 2019-11-20 to" in run("start", "flow", "2019-11-31", "--reason", "x", code=2)
    assert "is no asset with a trigger" in run("start", "own", DAY, "--reason", "x", code=2)

    assert "flow is paused since 2019-12-01 12:00 by ann: stop." in run(
        "pause", "flow", "--by", "ann", "--reason", "stop"
    )
    (listed,) = json.loads(run("flows", "--json"))
    assert (listed["flow"], listed["under_way"], listed["trigger"]["on_rerun"]) == ("flow", 1, "ask")
    assert listed["paused"].endswith("by ann: stop")
    assert "flow flow/v1.0 on_rerun ask 1 paused since" in run("flows")
    assert "paused since" in run("explain", "flow", DAY)
    assert run("resume", "flow").startswith("flow goes on.")
    assert "flow is not paused" in run("resume", "flow", code=1)


def test_d39_the_command_line_lists_questions_and_answers_them(asking, run):
    assert run("questions") == "Nothing is asked."
    asking.tick("starts")
    assert f"flow {DAY}" in run("questions")
    (question,) = json.loads(run("questions", "--json"))
    assert (question["flow"], question["answer"]) == ("flow", None)
    assert f"asks: {OWN} {DAY} is " in run("explain", "flow", DAY)
    assert json.loads(run("explain", "flow", DAY, "--json"))["digest"] == question["digest"]
    assert "its slots are 2019-11-20 to" in run("answer", "flow", "2019-11-31", "keep", code=2)
    assert "have changed since this question" in run("answer", "flow", DAY, "keep", "--digest", "0", code=1)
    said = run("answer", "flow", DAY, "keep", "--by", "ann", "--reason", "too small")
    assert said == f"flow {DAY} keeps update {asking.latest(FLOW)}, as answered by ann."
    assert run("answer", "flow", DAY, "rerun", "--by", "bob") == f"flow {DAY} runs again, as answered by bob."
    assert run("answer", "flow", DAY, "rerun", "--by", "bob").endswith("as answered before by bob.")
    events = run("events")
    assert "asked" in events
    assert "keep, says ann: too small" in events
    assert asking.tick("starts").asked == {DAY: ("flow",)}
