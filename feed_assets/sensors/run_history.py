"""The sensor that keeps the history of runs, and tells people once when it says that runs will overlap or come late.

Here: pages of ended runs and tasks into the state database, and the notices. Not here: reading them (`ended_runs`,
`ended_tasks`), and what their history says (`run_history`).
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any, Final

import dagster as dg

from feed_assets.feed_events.health import notice_of, pictures_of
from feed_assets.file_feed.wording import counted
from feed_assets.run_history.health import Health, health
from feed_assets.run_history.tables import KEPT, record
from feed_assets.sensors.asset_graph import AssetFeedGraph
from feed_assets.sensors.ended_runs import Cursor, deadlines, ended_page
from feed_assets.sensors.ended_tasks import ended_tasks
from feed_assets.sensors.telling import News, channels_of, tell
from feed_assets.sensors.ticks import load_cursor
from feed_assets.starts.tables import store_id

NAME: Final = "run_history"


def run_history(
    *, channels: frozenset[str], interval_seconds: int, workflows: Sequence[str] = ()
) -> dg.SensorDefinition:
    """Keeps how long runs, and tasks of these workflows, take, and tells of each warning once.

    `channels` are the resources `mail` and `notifier` of the code location, as far as it has them.
    """

    @dg.sensor(
        name=NAME,
        asset_selection=dg.AssetSelection.all(),
        minimum_interval_seconds=interval_seconds,
        default_status=dg.DefaultSensorStatus.RUNNING,
        required_resource_keys={"blackboard", "state", *channels},
        description=(
            "Keeps how long runs of schedules, triggers and assets, and tasks of workflows take: runs from 60 days ago "
            "on, a page each tick. "
            "Tells people once, by `notifier` and `mail` if there are any, when runs will overlap, or a deadline will "
            "be missed. `feed-assets health` shows all figures."
        ),
    )
    def sensor(context: dg.SensorEvaluationContext) -> dg.SensorResult:
        resources: Any = context.resources
        board, store, now = resources.blackboard.blackboard, resources.state.store, datetime.now(UTC)
        feeds, stored = AssetFeedGraph.of(context.repository_def), load_cursor(context.cursor)
        schedules = {each.name for each in context.repository_def.schedule_defs} if context.repository_def else set()
        # Another database, also one that replaces the old one, has no history yet.
        with store.reading() as connection:
            database = store_id(connection)
        known = stored.get("runs") if stored.get("store") == database else None
        found, cursor = ended_page(context.instance, schedules, feeds, Cursor.from_plain(known, now - KEPT))
        tasks = ended_tasks(board, workflows, stored.get("tasks"))
        record(store, board.uri(""), [*found, *tasks.executions], now=now)
        said = [f"Kept {counted(len(found) + len(tasks.executions), 'execution')}.", *tasks.problems]
        looked = str(stored.get("looked", ""))
        if not cursor.is_behind and looked != (hour := f"{now:%Y-%m-%d %H}"):
            series = health(store, board.uri(""), deadlines(feeds), now.date())
            news = [_news(each, kind) for each in series for kind in each.warnings]
            for sentence in tell(store, board.uri(""), news, channels_of(resources, channels, news), now=now):
                context.log.warning(sentence)
                said.append(sentence)
            looked = hour
        made = {"store": database, "runs": cursor.to_plain(), "tasks": tasks.cursor, "looked": looked}
        return dg.SensorResult(skip_reason=" ".join(said[:4]), cursor=json.dumps(made))

    return sensor


def _news(found: Health, kind: str) -> News:
    """The warning of a kind about a series."""
    fact = f"health {found.series} {kind}"
    return News(
        fact, {fact: ""}, (found.series,), lambda _: notice_of(found, kind), plot=lambda: pictures_of(found).get(kind)
    )
