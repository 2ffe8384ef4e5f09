"""The tasks of workflows that were committed, as executions of series: one series for each type.

Here: asking the masters for those after a cursor. Not here: runs of Dagster (`ended_runs`), and what follows
(`run_history`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Final

import msgspec

from feed_assets.blackboard.port import Blackboard
from feed_assets.errors import FeedAssetsError
from feed_assets.run_history.executions import TASK, Execution
from feed_assets.workflow.finding import client_of
from feed_assets.workflow.places import open_workflow
from feed_assets.workflow.service import Ended
from feed_assets.workflow.task_times import Committed

PATIENCE: Final = 2.0
"""Seconds for which a tick looks for a master."""


@dataclass(frozen=True, slots=True)
class EndedTasks:
    """The executions since the last tick, and the cursor after them: token and position of each workflow."""

    executions: list[Execution] = field(default_factory=list)
    cursor: dict[str, Any] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)


def ended_tasks(board: Blackboard, workflows: Iterable[str], cursor: object) -> EndedTasks:
    """Ask the masters of these workflows. One that does not answer is a problem, and is asked again by the next tick.

    A master keeps the last tasks of each type only: of a busy type, each tick gets a sample.
    """
    found = EndedTasks()
    known: Mapping[str, Any] = cursor if isinstance(cursor, dict) else {}
    for name in workflows:
        before = known.get(name)
        try:
            place = open_workflow(board, name)
            after = before[1] if isinstance(before, list) and before[:1] == [place.token] else 0
            says = msgspec.convert(client_of(place, "a sensor", patience=PATIENCE).read("ended", after=after), Ended)
        except FeedAssetsError as error:
            found.problems.append(f"How long tasks of {name} take is unknown: {error}")
            if before is not None:
                found.cursor[name] = before
            continue
        found.executions.extend(_execution(name, each) for each in says.commits)
        found.cursor[name] = [place.token, max([after, *(each.position for each in says.commits)])]
    return found


def _execution(workflow: str, committed: Committed) -> Execution:
    wanted, started, ended = (
        datetime.fromtimestamp(each, UTC) for each in (committed.wanted, committed.started, committed.ended)
    )
    return Execution(
        series=f"{TASK}{workflow}/{committed.type}",
        run=f"unit {committed.unit}, position {committed.position}",
        partition=None,
        wanted=min(wanted, started),
        started=started,
        ended=ended,
        succeeded=True,
    )
