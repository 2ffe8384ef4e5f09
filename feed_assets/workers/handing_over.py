"""Requests of sensors that become tasks of a workflow, as its workers compute what the requests ask for.

Here: which requests, and inserting the tasks. Not here: what is due (`sensors`), and computing it (`computing`).
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import dagster as dg

from feed_assets.errors import FeedAssetsError
from feed_assets.workers.assembly import ProjectWorkflows
from feed_assets.workers.computing import payload_of
from feed_assets.workflow.calls import Insert
from feed_assets.workflow.finding import client_of
from feed_assets.workflow.flow import COMPUTE, Workflow
from feed_assets.workflow.places import open_board, open_workflow
from feed_assets.workflow.tasks import NewTask, encoded_payload, fault_of

PATIENCE: Final = 5.0
"""Seconds for which a tick looks for a master."""
TASKS_OF_A_CALL: Final = 500
"""A call has at most 4 MiB, and 1,000 tasks."""


@dataclass(frozen=True, slots=True)
class HandingOver:
    """Inserts a task for each request of which one workflow computes all assets; Dagster runs the others.

    Dagster also runs a request over so many assets that no task can name them. A request is on record before, so a task
    that cannot be inserted now is asked for again by a later tick. The same request twice is one task.
    """

    workflows: ProjectWorkflows
    base: str

    def takes(self, keys: Iterable[dg.AssetKey]) -> bool:
        """Whether workers compute all of these assets."""
        return all(each in self.workflows.computed for each in keys)

    def __call__(self, context: dg.SensorEvaluationContext, requests: list[dg.RunRequest]) -> list[dg.RunRequest]:
        """Hand the requests of a tick over; returns those for Dagster."""
        mine: dict[str, list[tuple[dg.RunRequest, NewTask]]] = {}
        left = list[dg.RunRequest]()
        for each in requests:
            flow = _computer(each, self.workflows)
            task = NewTask(COMPUTE, payload_of(each), group=_group(each), key=_key(each)) if flow else None
            if flow is None or task is None:
                left.append(each)
            elif fault := fault_of(task, encoded_payload(task.payload)):
                count = len(each.asset_selection or ())
                what = f"The request for {count} assets of {each.partition_key} cannot be a task of {flow.name}"
                context.log.warning(
                    f"{what} ({fault.message}), so Dagster runs it. Split the chain by `flow.computes`."
                )
                left.append(each)
            else:
                mine.setdefault(flow.name, []).append((each, task))
        for flow in self.workflows.flows:
            if asked := mine.get(flow.name):
                try:
                    for note in _insert(flow, asked, self.base):
                        context.log.info(note)
                except FeedAssetsError as error:
                    what = f"{len(asked)} tasks are not inserted into the workflow {flow.name}; a later tick does it."
                    context.log.warning(f"{what} {error}")
        return left


def _computer(request: dg.RunRequest, workflows: ProjectWorkflows) -> Workflow | None:
    """The workflow that computes all assets of a request."""
    flows = {workflows.computed.get(each) for each in request.asset_selection or ()}
    return flows.pop() if len(flows) == 1 else None


def _insert(flow: Workflow, asked: Sequence[tuple[dg.RunRequest, NewTask]], base: str) -> Iterator[str]:
    client = client_of(open_workflow(open_board(base), flow.name), "a sensor", patience=PATIENCE)
    for first in range(0, len(asked), TASKS_OF_A_CALL):
        some = asked[first : first + TASKS_OF_A_CALL]
        answer = client.call(Insert, tasks=tuple(task for _, task in some)).answer
        there = set(answer.there)
        for (request, task), unit in zip(some, answer.ids, strict=True):
            was_there = ", and was there" if unit in there else ""
            yield f"{task.group} of {request.partition_key} is unit {unit} of the workflow {flow.name}{was_there}."


def _key(request: dg.RunRequest) -> str:
    """The key of a task: the same for the same request. A run key names each asset's attempt, and may be too long."""
    return hashlib.blake2b(str(request.run_key).encode(), digest_size=16).hexdigest()


def _group(request: dg.RunRequest) -> str:
    """The group of a task: its first asset."""
    return next(each.to_python_identifier() for each in request.asset_selection or ())
