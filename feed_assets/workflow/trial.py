"""Running a workflow in memory, for tests of its stages: without a master, a journal, or other processes.

Here: the machine and a worker in one thread. Not here: what a real run adds (`master`, `client`).
"""

from __future__ import annotations

import atexit
import itertools
import shutil
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import mkdtemp
from typing import Any, NoReturn

from feed_assets.blackboard.local import LocalBlackboard
from feed_assets.blackboard.port import Blackboard
from feed_assets.workflow.calls import Configure, Hello, Insert, Refused, Reply, TaskView
from feed_assets.workflow.errors import StageError
from feed_assets.workflow.flow import PUBLISHED, Stage, Tables, Workflow
from feed_assets.workflow.machine import Machine
from feed_assets.workflow.replies import reply_to, view
from feed_assets.workflow.state import State
from feed_assets.workflow.tasks import NewTask
from feed_assets.workflow.worker import Worker


@dataclass(slots=True)
class Ran:
    """What a workflow did: each task that was worked on (its stage, its unit, what became of it), and what is left.

    `left` are tasks that no stage could do, such as those of an incomplete bundle; `failed` those that failed, with
    their `reasons`. `made` has the results of stages that publish, by partition; asked for another one, it raises
    StageError with the reasons of the tasks that failed.
    """

    done: list[tuple[str, int, str]] = field(default_factory=list)
    left: list[TaskView] = field(default_factory=list)
    failed: list[TaskView] = field(default_factory=list)
    made: dict[str, Any] = field(init=False)

    def __post_init__(self) -> None:
        self.made = _Made(self)


class _Made(dict[str, Any]):
    """The results of a run, which says why one is not there."""

    def __init__(self, ran: Ran) -> None:
        super().__init__()
        self._ran = ran

    def __missing__(self, partition: str) -> NoReturn:
        why = [f"{each.group} of unit {each.unit} failed: {each.reasons[-1]}" for each in self._ran.failed]
        why += [f"{each.group} of unit {each.unit} was not done." for each in self._ran.left]
        there = f"The run made {', '.join(sorted(self)) or 'no partition'}."
        raise StageError(" ".join([f"The run made nothing for {partition!r}.", *(why or [there])]))


@dataclass(slots=True)
class _InMemory:
    """Calls a machine of this process; nothing takes time."""

    machine: Machine
    session: str = ""
    numbers: Any = field(default_factory=lambda: itertools.count(1))

    def call(self, kind: type[Any], *, wait: float = 0.0, **arguments: Any) -> Reply:  # noqa: ARG002 - see `Caller`
        """See `Caller`."""
        if not self.session:
            self.session = self.machine.answer(Hello(token=self.machine.token), 0.0).session
        made = kind(token=self.machine.token, session=self.session, seq=next(self.numbers), **arguments)
        answer = self.machine.answer(made, 0.0)
        if answer.refused:
            raise Refused(answer.refused, answer.message, ids=answer.lost)
        return reply_to(made, answer, self.machine)


@dataclass(slots=True)
class _Kept:
    """Keeps what stages publish. See `Publisher`."""

    ran: Ran
    staged: dict[str, Any] = field(default_factory=dict)

    def stage(self, asset: Any, partition: str | None, table: Any, *, maker: str, digest: str) -> str:  # noqa: ARG002
        self.staged[maker] = table
        return maker

    def publish(self, asset: Any, partition: str | None, update: str, *, maker: str) -> str:  # noqa: ARG002
        self.ran.made[partition or ""] = self.staged[update]
        return PUBLISHED


def run_here(
    flow: Workflow,
    stage: Stage,
    files: Sequence[str | Path],
    payload: Any,
    tables: Callable[[Blackboard], Tables] | None,
) -> Ran:
    """See `Workflow.run`. A task that fails is not tried again. Raises StageError for a stage of another workflow."""
    if flow.stages.get(stage.name) is not stage:
        raise StageError(f"{stage.name} is no stage of {flow.name}.")
    folder = mkdtemp(prefix="feed_assets-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    board = LocalBlackboard(Path(folder))
    state = State()
    machine = Machine(state, "in memory", 1, lambda _: None, now=0.0, wall=time.time)
    caller, ran = _InMemory(machine), Ran()
    for each in flow.stages.values():
        caller.call(Configure, type=each.name, payload={**each.configuration, "attempts": 1})
    keys = []
    for number, file in enumerate(map(Path, files), 1):
        keys.append(f"input/{number}/{file.name}")
        board.upload(keys[-1], file)
    caller.call(Insert, tasks=(NewTask(stage.name, payload, files=tuple(keys)),))
    worker = Worker(
        flow,
        list(flow.stages.values()),
        caller,
        board,
        (tables or _of_spark)(board),
        _Kept(ran),
        None,
        lambda each, unit, outcome: ran.done.append((each.name, unit, outcome)),
    )
    worker.run(lambda: False, until_idle=True)
    for task in state.tasks.values():
        if task.group in flow.stages:
            (ran.failed if task.dead else ran.left).append(view(task))
    return ran


def _of_spark(board: Blackboard) -> Tables:
    from feed_assets.engine.session import session_here  # noqa: PLC0415 - large, and not each workflow has tables
    from feed_assets.engine.task_tables import SparkTables  # noqa: PLC0415 - as above

    return SparkTables(board, session_here)
