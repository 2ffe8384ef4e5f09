"""Reads from the Dagster instance which partitions runs and backfills are computing or will compute."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import UTC, datetime, timedelta

import dagster as dg
from dagster._core.errors import DagsterDefinitionChangedDeserializationError
from dagster._core.execution.backfill import BulkActionsFilter, BulkActionStatus, PartitionBackfill

from feed_assets.feed_events.triggers import BACKFILL_ID_TAG, BACKFILL_TAG, GOES_ON_TAG
from feed_assets.sensors.asset_graph import AssetFeedGraph
from feed_assets.sensors.liveness import gives_signs, is_dead, seconds_seen

UNDER_WAY = [
    dg.DagsterRunStatus.QUEUED,
    dg.DagsterRunStatus.NOT_STARTED,
    dg.DagsterRunStatus.STARTING,
    dg.DagsterRunStatus.STARTED,
    dg.DagsterRunStatus.CANCELING,
]
WILL_RETRY = "dagster/will_retry"
RETRY = "dagster/auto_retry_run_id"
"""Tag of a failed run: the run in which Dagster repeats it."""
RETRY_WITHIN = timedelta(minutes=5)
"""How long a failed run may wait for its retry, from when this process first sees it. Dagster looks every 5 seconds."""
CLOCKS_DIFFER = timedelta(hours=1)
"""By how much the clock of the machine on which a run ended may be behind."""
NEWEST = 100
"""How many runs of backfills are looked at, as one of an hour may have thousands."""
NEXT_RUN_WITHIN = timedelta(seconds=30)
"""How long `feed-assets backfill` may take to begin its next run, from when this process first sees one that ended."""


def runs_under_way(instance: dg.DagsterInstance) -> list[dg.DagsterRun]:
    """The runs that have not ended, and failed ones that Dagster is about to repeat."""
    runs = [*instance.get_runs(dg.RunsFilter(statuses=UNDER_WAY)), *_to_be_retried(instance)]
    return [run for run in runs if not is_dead(run.run_id, run.tags)]


def busy_partitions(
    instance: dg.DagsterInstance, feeds: AssetFeedGraph, runs: Iterable[dg.DagsterRun] | None = None
) -> dict[str, frozenset[dg.AssetKey]]:
    """The partitions that runs and backfills are computing or will compute, each with its assets.

    Assets without partitions are under "". A run without a selection of assets computes all of them. `runs` are those
    under way, if they are known.
    """
    busy: dict[str, set[dg.AssetKey]] = {}
    under_way = runs_under_way(instance) if runs is None else runs
    for run in (*under_way, *_before_the_next(instance)):
        for key, partition in _of_run(run, feeds):
            busy.setdefault(partition, set()).add(key)
    for backfill in instance.get_backfills(filters=BulkActionsFilter(statuses=[BulkActionStatus.REQUESTED])):
        for key, partition in _still_to_come(backfill, feeds):
            busy.setdefault(partition, set()).add(key)
    return {partition: frozenset(assets) for partition, assets in busy.items()}


def goes_on(instance: dg.DagsterInstance, run: dg.DagsterRun) -> bool:
    """Whether the run has yet to end, or Dagster repeats it in a run that has."""
    last: dg.DagsterRun | None = run
    while last is not None and last.is_finished and RETRY in last.tags:
        last = instance.get_run_by_id(last.tags[RETRY])
    if last is None or not last.is_finished:
        return last is not None
    return any(each.run_id == last.run_id for each in _to_be_retried(instance))


def _to_be_retried(instance: dg.DagsterInstance) -> list[dg.DagsterRun]:
    """The failed runs that Dagster is about to repeat."""
    since = datetime.now(UTC) - CLOCKS_DIFFER
    failed = dg.RunsFilter(statuses=[dg.DagsterRunStatus.FAILURE], tags={WILL_RETRY: "true"}, updated_after=since)
    waiting = [run for run in instance.get_runs(failed) if RETRY not in run.tags]
    return [run for run in waiting if seconds_seen(run.run_id, WILL_RETRY) <= RETRY_WITHIN.total_seconds()]


def _before_the_next(instance: dg.DagsterInstance) -> list[dg.DagsterRun]:
    """The ended runs of backfills that are about to begin the next one."""
    since = datetime.now(UTC) - CLOCKS_DIFFER
    ended = [dg.DagsterRunStatus.SUCCESS, dg.DagsterRunStatus.FAILURE]
    of_backfills = dg.RunsFilter(statuses=ended, tags={GOES_ON_TAG: ["true", "false"]}, updated_after=since)
    runs = instance.get_runs(of_backfills, limit=NEWEST)
    over = {run.tags[BACKFILL_ID_TAG] for run in runs if run.tags[GOES_ON_TAG] == "false"}
    own = [run for run in runs if run.tags[BACKFILL_ID_TAG] not in over and gives_signs(run.run_id, run.tags)]
    return [run for run in own if seconds_seen(run.run_id, GOES_ON_TAG) <= NEXT_RUN_WITHIN.total_seconds()]


def _of_run(run: dg.DagsterRun, feeds: AssetFeedGraph) -> Iterator[tuple[dg.AssetKey, str]]:
    assets = feeds.locations if run.asset_selection is None else run.asset_selection
    first, last = (run.tags.get(f"dagster/asset_partition_range_{end}", "") for end in ("start", "end"))
    if first:
        yield from _range(feeds, assets, first, last)
    else:
        yield from ((key, run.tags.get("dagster/partition", "")) for key in assets)
    if gives_signs(run.run_id, run.tags):
        first, _, last = run.tags.get(BACKFILL_TAG, "").partition("/")
        yield from _range(feeds, feeds.locations, first, last)


def _range(
    feeds: AssetFeedGraph, assets: Iterable[dg.AssetKey], first: str, last: str
) -> Iterator[tuple[dg.AssetKey, str]]:
    """The partitions of each asset from first to last; none of an asset that has no partitions of these names."""
    if not first or not last:
        return
    for key in assets:
        yield from ((key, partition) for partition in feeds.range(key, first, last))


def _still_to_come(backfill: PartitionBackfill, feeds: AssetFeedGraph) -> Iterator[tuple[dg.AssetKey, str]]:
    """The partitions of a backfill that are neither materialized nor failed; Dagster starts its stages in turn."""
    if not backfill.is_asset_backfill:
        return
    try:
        data = backfill.get_asset_backfill_data(feeds.graph)
    except DagsterDefinitionChangedDeserializationError:
        return  # this code location does not have the backfill's assets
    left = data.target_subset - data.materialized_subset - data.failed_and_downstream_subset
    for each in left.iterate_asset_partitions():
        if each.partition_key is not None:
            yield each.asset_key, each.partition_key
