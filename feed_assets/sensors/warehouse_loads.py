"""The sensor for the warehouse: it loads each partition whose table has another update than the one in force.

Here: finding them among what Dagster shows, and run requests. Not here: loading (`assets.warehouse`). Dagster shows the
update in force of each partition (`new_manifests` and the runs report every change), and the update that its table has.
Only where they differ, the storage and the warehouse are asked. So a tick without news costs one query of Dagster's
database, a tick with news two for each table, and a lost database costs a comparison of all partitions.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from typing import Any

import dagster as dg

from feed_assets.assets.warehouse import NOTHING, loaded_metadata
from feed_assets.feed_events.declarations import LOADS
from feed_assets.feed_events.metadata import DATA_VERSION_TAG
from feed_assets.file_feed.digest import short_digest
from feed_assets.file_feed.errors import FeedError
from feed_assets.file_feed.reading import latest
from feed_assets.file_feed.wording import counted
from feed_assets.late_data.turns import Turns
from feed_assets.resources.settings import Clock
from feed_assets.resources.storage import BlackboardResource, StateResource
from feed_assets.resources.warehouse import WarehouseResource
from feed_assets.sensors.asset_graph import AssetFeedGraph
from feed_assets.sensors.ticks import (
    MAX_EVENTS,
    TICK_SECONDS,
    known_versions,
    last_events,
    load_cursor,
    requests_of_tick,
    run_requests,
)
from feed_assets.starts.requests import Need, Requests, state_of
from feed_assets.warehouse.port import Warehouse, WarehouseError

NAME = "warehouse_loads"


def warehouse_loads(*, interval_seconds: int, run_config: Mapping[str, Any]) -> dg.SensorDefinition:
    """Requests a run, with `run_config`, for each partition whose table is behind its feed, in either direction."""

    @dg.sensor(
        name=NAME,
        asset_selection=dg.AssetSelection.all(),
        minimum_interval_seconds=interval_seconds,
        default_status=dg.DefaultSensorStatus.RUNNING,
        description=(
            "Loads a partition into its table when another update is in force: a newer one, or after an invalidation "
            "the one before, or none. Reports loads by `feed-assets warehouse load`."
        ),
    )
    def sensor(
        context: dg.SensorEvaluationContext,
        blackboard: BlackboardResource,
        state: StateResource,
        clock: Clock,
        warehouse: WarehouseResource,
    ) -> dg.SensorResult:
        feeds = AssetFeedGraph.of(context.repository_def)
        tables = feeds.below(LOADS)
        cursor, events_so_far = load_cursor(context.cursor), _events(context.instance, feeds, tables)
        if cursor.get("alike") == events_so_far:
            return dg.SensorResult(skip_reason="Each table has what Dagster shows of its feed.", cursor=context.cursor)
        requests = requests_of_tick(context.instance, state.store, blackboard.blackboard, tables, clock.now())
        try:
            events, resume, alike = _compare(
                context, feeds, tables, requests, warehouse.warehouse, cursor.get("resume")
            )
        except WarehouseError as error:
            if not error.transient:
                raise
            return dg.SensorResult(skip_reason=f"The warehouse cannot be asked now: {error}")
        runs = run_requests(NAME, tables, requests.put_on_record(), run_config)
        for note in requests.decided:
            context.log.info(note)
        decided = "; ".join(requests.decided[:3])
        reason = None if runs else f"{counted(len(events), 'load')} reported, no run needed. {decided}"
        after = {**({"resume": resume} if resume else {}), **({"alike": events_so_far} if alike else {})}
        return dg.SensorResult(run_requests=runs, asset_events=events, skip_reason=reason, cursor=json.dumps(after))

    return sensor


def _events(instance: dg.DagsterInstance, feeds: AssetFeedGraph, tables: AssetFeedGraph) -> str:
    """16 hex digits that change with each event on a table or its feed."""
    keys = [*tables.locations, *(feeds.keys[above] for node in tables.feeds.values() for above in node.upstream)]
    last = last_events(instance, keys)
    return short_digest(json.dumps([[key.to_user_string(), last.get(key)] for key in keys]))


def _compare(
    context: dg.SensorEvaluationContext,
    feeds: AssetFeedGraph,
    tables: AssetFeedGraph,
    requests: Requests,
    warehouse: Warehouse,
    first: object,
) -> tuple[list[dg.AssetMaterialization], str | None, bool]:
    """Plan the loads that are due, beginning with the table `first`.

    Returns the events on loads that Dagster does not show, the table for the next tick to begin with, and whether
    Dagster shows the same of each table and its feed.
    """
    events: list[dg.AssetMaterialization] = []
    alike = True
    deadline = time.monotonic() + TICK_SECONDS

    def over() -> bool:
        return requests.full or len(events) >= MAX_EVENTS or time.monotonic() > deadline

    turns = Turns(list(tables.feeds), first, over)
    for name in turns:
        node = tables.feeds[name]
        (above,) = node.upstream
        feed = feeds.feeds[above].declaration.on(requests.board)
        in_force = known_versions(context.instance, feeds.keys[above], partitioned=node.partitioned)
        shown = known_versions(context.instance, tables.keys[name], partitioned=node.partitioned)
        unlike = {each for each in {*in_force, *shown} if in_force.get(each, "") != shown.get(each, "")}
        alike = alike and not unlike
        differing = sorted((each for each in unlike if name not in requests.busy.get(each, ())), reverse=True)
        loads = warehouse.last_loads(node.declaration.table) if differing else {}
        for partition in differing:
            if over():
                break  # a later tick goes on
            if node.partitioned and not tables.has(name, partition):
                continue
            try:
                update = latest(feed, partition or None, now=requests.now)
            except FeedError as error:
                context.log.warning(f"{name} {partition} is not compared with its feed: {error}")
                continue
            line, wanted = loads.get(partition), update.name if update else None
            if (line.update if line else None) != wanted:
                state = state_of(str(line.number) if line else None, wanted or NOTHING)
                if due := requests.not_yet_requested(partition, {name: state}):
                    why = f"{above} is {wanted or NOTHING} now, the table has {(line and line.update) or NOTHING}"
                    requests.add(Need(partition, due, why))
            elif line is not None and shown.get(partition, "") != (wanted or ""):
                events.append(
                    dg.AssetMaterialization(
                        tables.keys[name],
                        partition=partition or None,
                        description="Loaded outside Dagster.",
                        metadata=loaded_metadata(warehouse, node.declaration.table, line),
                        tags={DATA_VERSION_TAG: wanted or NOTHING},
                    )
                )
    return events, turns.resume, alike and turns.resume is None
