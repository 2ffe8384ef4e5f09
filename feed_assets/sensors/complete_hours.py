"""The sensor of installations that check hour by hour: it runs the hours that are complete, or have changed since.

Here: the time limit, run requests and the log. Not here: the decisions (`late_data.complete_hours`).
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from typing import Any

import dagster as dg

from feed_assets.file_feed.errors import FeedError
from feed_assets.late_data.complete_hours import due_hours
from feed_assets.late_data.turns import Turns
from feed_assets.resources.settings import Clock
from feed_assets.resources.storage import BlackboardResource, StateResource
from feed_assets.sensors.asset_graph import AssetFeedGraph
from feed_assets.sensors.ticks import TICK_SECONDS, HandOver, load_cursor, requests_of_tick, run_all, run_requests
from feed_assets.sources.spec import Source
from feed_assets.starts.requests import Need, state_of


def complete_hours(
    sources: Sequence[Source],
    checked: Mapping[str, dg.AssetKey],
    *,
    interval_seconds: int,
    run_config: Mapping[str, Any],
    hand_over: HandOver = run_all,
    early: bool = False,
) -> dg.SensorDefinition:
    """Watches every source that has an asset of checked hours: `checked` maps the source's key to it.

    `early`: hours are checked when they are over, and not `buffer_hours` later, as workers with a warm Spark can.
    """

    @dg.sensor(
        name="complete_hours",
        asset_selection=dg.AssetSelection.assets(*checked.values()),
        minimum_interval_seconds=interval_seconds,
        default_status=dg.DefaultSensorStatus.RUNNING,
        description=(
            "Checks each hour of a day to come `buffer_hours` after its end, and again when its raw data has grown by "
            "the threshold or was replaced. The day is then assembled from its hours."
        ),
    )
    def sensor(
        context: dg.SensorEvaluationContext, blackboard: BlackboardResource, state: StateResource, clock: Clock
    ) -> dg.SensorResult:
        deadline = time.monotonic() + TICK_SECONDS
        feeds, board, now = AssetFeedGraph.of(context.repository_def), blackboard.blackboard, clock.now()
        requests = requests_of_tick(context.instance, state.store, board, feeds, now)
        by_key = {source.key: source for source in sources if source.key in checked}
        first = load_cursor(context.cursor).get("resume")
        turns = Turns(list(by_key), first, over=lambda: time.monotonic() > deadline)
        for source in map(by_key.__getitem__, turns):
            location = feeds.locations[checked[source.key]]
            of_kind = [each for each in sources if each.kind == source.kind]
            feed = feeds.feeds[location].declaration.on(board)
            try:
                due = list(due_hours(board, source, of_kind, feed, now=now, early=early, until=deadline))
            except FeedError as error:
                requests.notes.append(f"{source.key} cannot be read: {error}")
                continue
            states = {each.partition: {location: state_of(None, each.state)} for each in due}
            requests.look_up((location, partition) for partition in states)
            for each in due:
                wanted = requests.not_yet_requested(each.partition, states[each.partition])
                if wanted and feeds.has(location, each.partition):
                    requests.add(Need(each.partition, wanted, each.reason))
        runs = hand_over(context, run_requests("complete_hours", feeds, requests.put_on_record(), run_config))
        for note in requests.decided:
            context.log.info(note)
        reason = None if runs else f"No hour is due. {'; '.join(requests.decided[:3])}".strip()
        cursor = json.dumps({"resume": turns.resume} if turns.resume else {})
        return dg.SensorResult(run_requests=runs, skip_reason=reason, cursor=cursor)

    return sensor
