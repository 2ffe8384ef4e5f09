"""The sensor that tells people of what workers of workflows leave to them: dead tasks, and updates that were rejected.

Here: which are new, and their alerts; `resources.notifier` delivers them. Not here: failures of Dagster's runs
(`alerts`), and showing the checks of a rejected update in Dagster (`new_manifests`).
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Final

import dagster as dg

from feed_assets.blackboard.port import Blackboard
from feed_assets.datasets.days import is_day
from feed_assets.errors import FeedAssetsError
from feed_assets.file_feed.changes import Position, log_page
from feed_assets.file_feed.control import read_record
from feed_assets.file_feed.feed import Feed
from feed_assets.file_feed.record import Record
from feed_assets.file_feed.wording import counted, observed_values, shortened
from feed_assets.resources.notifier import Alert
from feed_assets.sensors.asset_graph import AssetFeedGraph
from feed_assets.sensors.ticks import load_cursor
from feed_assets.workers.assembly import ProjectWorkflows
from feed_assets.workflow.finding import client_of
from feed_assets.workflow.flow import Workflow
from feed_assets.workflow.places import open_workflow

PATIENCE: Final = 5.0
"""Seconds for which a tick looks for a master."""
_MOST_REASON: Final = 300


def workflow_alerts(workflows: ProjectWorkflows, *, notifies: bool, interval_seconds: int) -> dg.SensorDefinition:
    """Tells of each dead task, and of each update of these workflows that was rejected, once.

    With `notifies` it needs the resource `notifier`; else its log tells.
    """

    @dg.sensor(
        name="workflow_alerts",
        asset_selection=dg.AssetSelection.all(),
        minimum_interval_seconds=interval_seconds,
        default_status=dg.DefaultSensorStatus.RUNNING,
        required_resource_keys={"blackboard", *(["notifier"] if notifies else [])},
        description=(
            "Tells people, by the resource `notifier` if there is one, of each task that is dead, as all its attempts "
            "failed, and of each update that a worker's audit rejected."
        ),
    )
    def sensor(context: dg.SensorEvaluationContext) -> dg.SensorResult:
        resources: Any = context.resources
        feeds, board = AssetFeedGraph.of(context.repository_def), resources.blackboard.blackboard
        news = _News.of(context, feeds, board)
        alerts = [*news.of_tasks(workflows.flows), *news.of_updates({*workflows.feeds, *workflows.computed})]
        for each in alerts:
            if notifies:
                resources.notifier.notify(each)
            context.log.warning(each.text)
        said = "; ".join([*news.problems, *(each.text.partition("\n")[0] for each in alerts)][:3])
        return dg.SensorResult(skip_reason=said or "No task has died, no update was rejected.", cursor=news.cursor)

    return sensor


@dataclass(slots=True)
class _News:
    """What has happened since the last tick.

    A task that dies gets a new id, greater than all before: `dead` has the token of each workflow and the last id that
    was told of. `positions` has the place in the change log of each feed.
    """

    context: dg.SensorEvaluationContext
    feeds: AssetFeedGraph
    board: Blackboard
    dead: dict[str, Any]
    positions: dict[str, Any]
    problems: list[str] = field(default_factory=list)

    @classmethod
    def of(cls, context: dg.SensorEvaluationContext, feeds: AssetFeedGraph, board: Blackboard) -> _News:
        cursor = load_cursor(context.cursor)
        dead, positions = cursor.get("dead"), cursor.get("feeds")
        return cls(
            context,
            feeds,
            board,
            dead if isinstance(dead, dict) else {},
            positions if isinstance(positions, dict) else {},
        )

    @property
    def cursor(self) -> str:
        return json.dumps({"dead": self.dead, "feeds": self.positions}, sort_keys=True)

    def of_tasks(self, flows: Iterable[Workflow]) -> Iterator[Alert]:
        """An alert for each workflow with newly dead tasks, at most 1,000 in a tick."""
        for flow in flows:
            try:
                place = open_workflow(self.board, flow.name)
                known = self.dead.get(flow.name)
                last = known[1] if isinstance(known, list) and known[:1] == [place.token] else 0
                client = client_of(place, "a sensor", patience=PATIENCE)
                tasks = client.read("tasks", status="dead", after=last)["tasks"]
            except FeedAssetsError as error:
                self.problems.append(f"Whether tasks of {flow.name} are dead is unknown: {error}")
                continue
            if tasks:
                yield _of_dead(flow.name, tasks)
                last = tasks[-1]["id"]
            self.dead[flow.name] = [place.token, last]

    def of_updates(self, keys: Iterable[dg.AssetKey]) -> Iterator[Alert]:
        """An alert for each update of these assets that was rejected, and that no run of this instance made."""
        now = datetime.now(UTC)
        for key in sorted(keys):
            feed = self.feeds.feeds[self.feeds.locations[key]].declaration.on(self.board)
            known = self.positions.get(feed.location)
            position = Position(known[0], tuple(known[1:])) if isinstance(known, list) and known else Position.at(now)
            try:
                page = log_page(feed, position, now=now)
                records = [
                    read_record(feed, each.partition, each.update) for each in page.new if each.act == "rejected"
                ]
            except FeedAssetsError as error:
                self.problems.append(f"Whether updates of {feed.location} were rejected is unknown: {error}")
                continue
            for record in records:
                if record is not None and not self._is_of_a_run(record):
                    yield _of_rejected(key, feed, record)
            after = page.position_before(None)
            self.positions[feed.location] = [after.after, *after.seen]

    def _is_of_a_run(self, record: Record) -> bool:
        """Whether a run made the update: `alerts` tells of that."""
        return bool(record.facts.run_id) and self.context.instance.get_run_by_id(record.facts.run_id) is not None


def _of_dead(workflow: str, tasks: Sequence[Mapping[str, Any]]) -> Alert:
    """An alert with a line for each group: how many of its tasks are newly dead, and why the oldest is."""
    groups: dict[str, list[Mapping[str, Any]]] = {}
    for each in tasks:
        groups.setdefault(each["group"], []).append(each)
    lines = [
        f"{counted(len(dead), 'task')} of {group}; the oldest is unit {dead[0]['unit']}: "
        f"{shortened((dead[0].get('reasons') or ['no reason known'])[-1], _MOST_REASON)}"
        for group, dead in groups.items()
    ]
    first = tasks[0]["unit"]
    return Alert(
        kind="dead",
        assets=(f"workflow {workflow}",),
        partition=None,
        reasons=tuple(lines),
        run_id="",
        command=f"feed-assets workflow ls -w {workflow} --status dead; feed-assets workflow show -w {workflow} {first}",
        id=f"{workflow} {tasks[-1]['id']}",
    )


def _of_rejected(key: dg.AssetKey, feed: Feed, record: Record) -> Alert:
    name, day = key.to_user_string(), record.partition or ""
    failed = (each for each in record.checks if not each.passed and each.severity == "ERROR")
    return Alert(
        kind="rejected",
        assets=(name,),
        partition=record.partition,
        reasons=tuple(f"{name} {each.name}: {observed_values(each.observed)}" for each in failed)
        or (record.history[-1].reason,),
        run_id="",
        command=f"feed-assets explain {day}" if is_day(day) else f"feed-assets feed ls {feed.arguments()}",
        id=f"{feed.location} {day} {record.update}",
    )
