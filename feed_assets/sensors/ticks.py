"""Cursors, limits and run requests that several sensors share; `starts.requests` records the requests."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

import dagster as dg

from feed_assets.blackboard.port import Blackboard
from feed_assets.datasets.days import is_day
from feed_assets.feed_events.metadata import DATA_VERSION_TAG
from feed_assets.feed_events.triggers import attempt_tag, attempts_of
from feed_assets.file_feed.digest import short_digest
from feed_assets.file_feed.names import is_update_name
from feed_assets.late_data.late_days import LateDays
from feed_assets.notices.requested_reports import record_requested
from feed_assets.resources.event_log import event_log
from feed_assets.sensors.asset_graph import AssetFeedGraph
from feed_assets.sensors.busy import busy_partitions, goes_on, runs_under_way
from feed_assets.sensors.liveness import is_dead
from feed_assets.sources.known_contents import remember
from feed_assets.starts.attempt import Attempt
from feed_assets.starts.attempts import KnownRun
from feed_assets.starts.requests import Request, Requests
from feed_assets.state.store import Store

TICK_SECONDS = 40.0
"""Time limit of a tick; the daemon allows 60 s. The next tick begins with the rest."""

MAX_EVENTS = 200
"""Asset events of one tick; storing an event takes some milliseconds. The next ticks report the rest."""

REMEMBER_SECONDS = 5.0
"""How long a tick reads processed raw files of a disk whose contents are not kept yet."""

WHY_TAG = "feed_assets/why"

HandOver = Callable[[dg.SensorEvaluationContext, list[dg.RunRequest]], list[dg.RunRequest]]
"""Takes those of a tick's requests that somebody else than Dagster does, and returns the others."""


def run_all(_: dg.SensorEvaluationContext, requests: list[dg.RunRequest]) -> list[dg.RunRequest]:
    """Let Dagster run all requests."""
    return requests


def load_cursor(text: str | None) -> dict[str, object]:
    """The cursor's content; empty if it cannot be read, which storage and run keys make harmless."""
    try:
        content = json.loads(text or "{}")
    except ValueError:
        return {}
    return content if isinstance(content, dict) else {}


def day_to_resume(cursor: Mapping[str, object]) -> str:
    """The day with which a tick over raw data goes on; "" for the first day."""
    day = str(cursor.get("resume", ""))
    return day if is_day(day) else ""


def log_news(context: dg.SensorEvaluationContext, lines: Sequence[str], cursor: Mapping[str, object]) -> str:
    """Log these lines unless the tick before logged the same; returns what the cursor keeps of them as `logged`."""
    logged = short_digest("\n".join(lines)) if lines else ""
    if logged != cursor.get("logged", ""):
        for line in lines:
            context.log.info(line)
    return logged


def keep_contents(days: LateDays, deadline: float) -> None:
    """Keep what the processed raw files of a disk contain, for REMEMBER_SECONDS at most."""
    until = min(deadline, time.monotonic() + REMEMBER_SECONDS)
    remember(days.requests.board, days.comparing.processed, until=until)


def known_versions(
    instance: dg.DagsterInstance, key: dg.AssetKey, *, partitioned: bool, partitions: Collection[str] | None = None
) -> dict[str, str]:
    """The last update reported to Dagster of each partition, or of `partitions`, from one query."""
    if partitioned:
        tags = event_log(instance).get_latest_tags_by_partition(
            key,
            dg.DagsterEventType.ASSET_MATERIALIZATION,
            [DATA_VERSION_TAG],
            asset_partitions=None if partitions is None else sorted(partitions),
        )
        known = {partition: each.get(DATA_VERSION_TAG, "") for partition, each in tags.items()}
    else:
        event = instance.get_latest_materialization_event(key)
        materialization = event.asset_materialization if event else None
        known = {"": ((materialization.tags if materialization else None) or {}).get(DATA_VERSION_TAG, "")}
    # Dagster makes up a version if an event has none.
    return {partition: version for partition, version in known.items() if is_update_name(version)}


def last_events(instance: dg.DagsterInstance, keys: Collection[dg.AssetKey]) -> Mapping[dg.AssetKey, int | None]:
    """The number of the last materialization of each asset that has one, from one query, however many partitions."""
    return event_log(instance).get_latest_materialization_storage_ids(list(keys))


def requests_of_tick(
    instance: dg.DagsterInstance, store: Store, board: Blackboard, feeds: AssetFeedGraph, now: datetime
) -> Requests:
    """The requests of a tick, empty so far. The instance knows the runs under way and the runs requested earlier.

    Attempts whose run has ended, or is gone, end here.
    """
    under_way = runs_under_way(instance)
    busy = {
        partition: frozenset(feeds.locations[key] for key in keys if key in feeds.locations)
        for partition, keys in busy_partitions(instance, feeds, under_way).items()
    }
    alive = {each for run in under_way for each in (run.run_id, *attempts_of(run.tags))}

    def known(attempt: Attempt) -> KnownRun:
        # Of most, one query for all runs has told.
        return KnownRun.UNFINISHED if {attempt.key, attempt.run} & alive else known_run(instance, attempt)

    requests = Requests(store, board, feeds, now, busy, record_requested)
    runs = requests.attempts.known(known)
    requests.attempts.end_lost(runs)
    requests.runless = {each.key: each for each, run in runs.items() if run is KnownRun.NONE}
    return requests


def known_run(instance: dg.DagsterInstance, attempt: Attempt) -> KnownRun:
    """What Dagster knows of the run of an attempt, and of its repetitions."""
    if attempt.run:  # it has begun, perhaps without a request of a sensor
        run = instance.get_run_by_id(attempt.run)
        runs = [] if run is None else [run]
    else:
        runs = list(instance.get_runs(of_attempt(attempt.flow, attempt.key)))
    if not runs:
        return KnownRun.NONE
    if any(goes_on(instance, each) and not is_dead(each.run_id, each.tags) for each in runs):
        return KnownRun.UNFINISHED
    return KnownRun.SUCCEEDED if runs[0].status is dg.DagsterRunStatus.SUCCESS else KnownRun.FAILED


def of_attempt(flow: str, key: str) -> dg.RunsFilter:
    """Finds the run of an attempt, and its repetitions, by the flow and the key."""
    return dg.RunsFilter(tags={attempt_tag(flow): key})


def run_requests(
    sensor: str,
    feeds: AssetFeedGraph,
    requests: Iterable[Request],
    run_config: Mapping[str, Any],
    more_tags: Callable[[Request], Mapping[str, str]] = lambda _: {},
) -> list[dg.RunRequest]:
    """The runs of these requests. A run key has the keys of all attempts that the run is for."""
    return [
        dg.RunRequest(
            run_key=f"{sensor}:{','.join(sorted(each.key for each in request.recorded.values()))}",
            run_config=dict(run_config),
            partition_key=request.need.partition or None,
            asset_selection=[feeds.keys[feed] for feed in request.need.feeds],
            tags={
                WHY_TAG: request.need.reason[:250],
                **{attempt_tag(feed): each.key for feed, each in request.recorded.items()},
                **more_tags(request),
            },
        )
        for request in requests
    ]
