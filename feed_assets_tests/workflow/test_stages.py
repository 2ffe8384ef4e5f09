"""Stages as users write them, also wrongly: what a declaration refuses, and what a worker makes of a failure."""

from __future__ import annotations

import threading
from collections.abc import Callable
from datetime import date
from pathlib import Path
from typing import Any

import pytest

from feed_assets.blackboard.memory import MemoryBlackboard
from feed_assets.workflow.calls import Command, Configure, Insert, Reply
from feed_assets.workflow.errors import StageError, UnreachableError
from feed_assets.workflow.flow import Work, Workflow
from feed_assets.workflow.replies import reply_to
from feed_assets.workflow.tasks import MOST_REASON, NewTask
from feed_assets.workflow.trial import Ran
from feed_assets.workflow.worker import RELEASED, Worker
from feed_assets_tests.waiting import HANGS
from feed_assets_tests.workflow.machines import TOKEN, Master


class Session:
    """A session of a worker, or of a person, with a machine in memory."""

    def __init__(self, master: Master) -> None:
        self.master = master
        self._client = master.client()

    def call(self, kind: type[Any], *, wait: float = 0.0, **arguments: Any) -> Reply:  # noqa: ARG002 - see `Caller`
        """See `Caller`."""
        self._client.seq += 1
        made = kind(token=TOKEN, session=self._client.session, seq=self._client.seq, **arguments)
        return reply_to(made, self._client.send(made), self.master.machine)


def ran_by(function: Callable[[Work], Any], payload: Any = None) -> Ran:
    """A workflow that has this stage and one more, `last`, which gets what this one makes."""
    flow = Workflow("parcels")

    def last(work: Work) -> None:
        """Do nothing."""

    flow.stage(version="1")(last)
    function.__name__ = "first"
    return flow.run(flow.stage(version="1")(function), payload=payload)


def reason_of(function: Callable[[Work], Any]) -> str:
    (failed,) = ran_by(function).failed
    return failed.reasons[0]


@pytest.mark.parametrize("name", ["publish", "compute", "all", "configuration", "control"])
def test_a_stage_has_no_name_that_the_workflow_itself_uses(name: str) -> None:
    def stage(work: Work) -> None: ...

    stage.__name__ = name
    with pytest.raises(StageError, match=f"called {name}, which is a name of its own: rename the function"):
        Workflow("parcels").stage(version="1")(stage)


def test_a_stage_has_a_name_that_can_be_a_group() -> None:
    with pytest.raises(StageError, match=r"called '<lambda>': .* must begin with a letter"):
        Workflow("parcels").stage(version="1")(lambda _: None)


def test_parameters_are_what_json_makes_of_them_or_refused() -> None:
    flow = Workflow("parcels")

    def first(work: Work) -> None: ...

    def second(work: Work) -> None: ...

    made = flow.stage(version="1", parameters={"codes": {2, 1}, "from": date(2024, 5, 1)})(first)
    assert made.parameters == {"codes": [1, 2], "from": "2024-05-01"}
    with pytest.raises(StageError, match="Parameters of the stage second of parcels: the payload is no JSON"):
        flow.stage(version="1", parameters={"path": object()})(second)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"payload": {"text": "\ud800"}}, "no JSON: .* surrogates not allowed"),
        ({"payload": {"text": "x" * 5000}}, "has 5,011 bytes, at most 4,096"),
        ({"payload": float("nan")}, "a number that is infinite, or none"),
        ({"bundle": "abc"}, "a name and a number of tasks, such as .* and not 'abc'"),
        ({"bundle": ("all", 0)}, "the size of the bundle is 0"),
        ({"files": "orders.csv"}, "put it into a list"),
        ({"files": ["/etc/passwd"]}, "'/etc/passwd' cannot be a key"),
        ({"key": "x" * 300}, "at most 200 printable characters"),
    ],
)
def test_what_cannot_be_a_task_fails_where_the_stage_makes_it(wrong: dict[str, Any], message: str) -> None:
    def stage(work: Work) -> None:
        work.to(work.flow.stages["last"], **wrong)

    reason = reason_of(stage)

    with pytest.raises(StageError, match=message):
        raise StageError(reason)
    assert f"({Path(__file__).name}:" in reason


def test_a_stage_makes_no_more_tasks_than_a_commit_takes() -> None:
    def stage(work: Work) -> None:
        for each in range(1_001):
            work.to(work.flow.stages["last"], each)

    assert "more than 1,000 tasks" in reason_of(stage)


def test_a_stage_that_exits_fails_and_the_worker_goes_on() -> None:
    def stage(work: Work) -> None:
        raise SystemExit(3)

    assert reason_of(stage).startswith("SystemExit: 3")


@pytest.mark.parametrize("text", ["\ud800 is no character", "x" * 5_000_000], ids=["surrogate", "5 MB"])
def test_any_reason_of_a_failure_can_be_kept(text: str) -> None:
    def stage(work: Work) -> None:
        raise ValueError(text)

    reason = reason_of(stage)

    assert reason.encode()
    assert len(reason) <= MOST_REASON
    assert f"({Path(__file__).name}:" in reason


def test_a_worker_that_waits_for_a_task_ends_when_it_is_told_to() -> None:
    flow, asked, over, answered = Workflow("parcels"), threading.Event(), threading.Event(), threading.Event()

    class Waits:
        def call(self, kind: type[Any], *, wait: float = 0.0, **arguments: Any) -> Reply:  # noqa: ARG002 - see `Caller`
            asked.set()
            answered.wait(HANGS)
            raise UnreachableError("nobody")

    def first(work: Work) -> None: ...

    worker = Worker(flow, [flow.stage(version="1")(first)], Waits(), MemoryBlackboard())
    running = threading.Thread(target=worker.run, args=(over.is_set,))
    running.start()
    assert asked.wait(HANGS)
    over.set()
    running.join(HANGS)
    answered.set()

    assert not running.is_alive()


def test_a_worker_renews_a_lease_for_the_seconds_of_its_stage() -> None:
    flow, master = Workflow("parcels"), Master(types=())
    person, seen = Session(master), list[float]()

    def quick(work: Work) -> None:
        seen.append(master.units("quick")[work.unit].seconds)
        work.save("half", 0.5)
        seen.append(master.units("quick")[work.unit].seconds)

    def slow(work: Work) -> None: ...

    stages = [flow.stage(version="1", seconds=10)(quick), flow.stage(version="1", seconds=600)(slow)]
    for each in stages:
        person.call(Configure, type=each.name, payload=each.configuration)
    person.call(Insert, tasks=(NewTask("quick"),))
    Worker(flow, stages, Session(master), MemoryBlackboard()).run(lambda: False, until_idle=True)

    assert seen == [600, 10]


def test_a_worker_with_other_code_says_so_once(caplog: pytest.LogCaptureFixture) -> None:
    flow, master = Workflow("parcels"), Master(types=())
    person = Session(master)

    def first(work: Work) -> None: ...

    stage = flow.stage(version="1")(first)
    person.call(Configure, type="first", payload={**stage.configuration, "digest": "another"})
    worker = Worker(flow, [stage], Session(master), MemoryBlackboard())
    worker.once()
    worker.once()

    (said,) = caplog.messages
    assert "first: its configuration is another one than this worker's. Start it again" in said


def test_work_whose_commit_is_forbidden_is_given_back_and_no_attempt_is_counted() -> None:
    flow, master = Workflow("parcels"), Master(types=())
    person, outcomes = Session(master), list[str]()

    def first(work: Work) -> None:
        if not outcomes:
            person.call(Command, order="interdict", target="first", by="ada", reason="a test")

    stage = flow.stage(version="1", attempts=1)(first)
    person.call(Configure, type="first", payload=stage.configuration)
    person.call(Insert, tasks=(NewTask("first"),))
    worker = Worker(
        flow, [stage], Session(master), MemoryBlackboard(), done=lambda _, __, outcome: outcomes.append(outcome)
    )

    worker.run(lambda: False, until_idle=True)
    assert outcomes == [RELEASED]
    (task,) = master.units("first").values()
    assert (task.status, task.attempt) == ("waiting", 0)
    person.call(Command, order="lift", target="first", by="ada", reason="a test")
    worker.run(lambda: False, until_idle=True)
    assert outcomes == [RELEASED, "done"]
