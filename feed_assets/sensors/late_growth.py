"""The sensor for late data: raw partitions that have changed since they were read.

Here: the cursor, the time limit, run requests and the log. Not here: the decisions (`late_data.late_days`).
"""

import json
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import dagster as dg

from feed_assets.feed_events.triggers import has_trigger
from feed_assets.late_data.late_days import LateDays
from feed_assets.late_data.raw_growth import SourceDecision
from feed_assets.resources.settings import Clock
from feed_assets.resources.storage import BlackboardResource, StateResource
from feed_assets.sensors.asset_graph import AssetFeedGraph
from feed_assets.sensors.liveness import fail_dead_runs
from feed_assets.sensors.ticks import (
    TICK_SECONDS,
    HandOver,
    day_to_resume,
    keep_contents,
    load_cursor,
    log_news,
    requests_of_tick,
    run_all,
    run_requests,
)
from feed_assets.sources.spec import Source
from feed_assets.starts.requests import Requests

NOTHING: Mapping[str, str] = {}


def late_growth(
    sources: Sequence[Source],
    clean_assets: Mapping[str, dg.AssetKey],
    *,
    waiting: Mapping[str, str] = NOTHING,
    interval_seconds: int,
    run_config: Mapping[str, Any],
    hand_over: HandOver = run_all,
) -> dg.SensorDefinition:
    """Watches every source's lookback. `clean_assets` maps each kind of source to the asset made from it.

    `waiting` has the kinds that wait for a source whose description cannot be used.
    """

    @dg.sensor(
        name="late_growth",
        asset_selection=dg.AssetSelection.assets(*clean_assets.values()).downstream(),
        minimum_interval_seconds=interval_seconds,
        default_status=dg.DefaultSensorStatus.RUNNING,
        description=(
            "Compares every raw partition in each source's lookback (without today) with the read set of the latest "
            "valid update. Runs each day that has grown by the source's threshold, whose files were replaced or "
            "deleted, or that was never processed, and only the assets made from it. A day that has grown by less runs "
            "once, when it has left the lookback."
        ),
    )
    def sensor(
        context: dg.SensorEvaluationContext, blackboard: BlackboardResource, state: StateResource, clock: Clock
    ) -> dg.SensorResult:
        deadline = time.monotonic() + TICK_SECONDS
        feeds = AssetFeedGraph.of(context.repository_def)
        for run_id in fail_dead_runs(context.instance):
            context.log.warning(f"Run {run_id} is marked as failed: its process is gone.")
        requests = requests_of_tick(context.instance, state.store, blackboard.blackboard, feeds, clock.now())
        watched = {kind: feeds.locations[key] for kind, key in clean_assets.items()}
        days = LateDays(
            sources,
            {kind: feed for kind, feed in watched.items() if not has_trigger(feeds.metadata(feed))},
            requests,
            joins=lambda feed, *_: not has_trigger(feeds.metadata(feed)),
        )
        days.comparing.until = deadline

        cursor = load_cursor(context.cursor)
        start_at = day_to_resume(cursor)
        decisions, resume = days.decide(start_at, out_of_time=lambda: time.monotonic() > deadline)
        days.plan(decisions)
        days.settle(decisions, start_at=start_at, resume=resume)
        asked = requests.put_on_record()
        keep_contents(days, deadline)
        runs = hand_over(context, run_requests("late_growth", feeds, asked, run_config))
        lines = [
            f"No day of {kind} is computed: the description of {source} cannot be used. `feed-assets doctor` says why."
            for kind, source in waiting.items()
        ]
        lines += [each.sentence() for each in decisions if each.decision.kind != "unchanged"] + requests.decided
        content = {"resume": resume, "logged": log_news(context, lines, cursor)}
        return dg.SensorResult(
            run_requests=runs,
            skip_reason=None if runs else _summary(decisions, requests),
            cursor=json.dumps({name: value for name, value in content.items() if value}),
        )

    return sensor


def _summary(decisions: Sequence[SourceDecision], requests: Requests) -> str:
    kinds = Counter(each.decision.kind for each in decisions)
    seen = ", ".join(f"{count} {kind.replace('_', ' ')}" for kind, count in sorted(kinds.items()))
    notes = "".join(f"; {note}" for note in requests.decided[:3])
    again = f"; {requests.already} already requested for their present state" if requests.already else ""
    tried = sum(each.wanted and each.tried is not None for each in decisions)
    again += f"; {tried} already tried in their present state" if tried else ""
    return f"No run needed: {seen or 'no raw partitions'}{again}{notes}."
