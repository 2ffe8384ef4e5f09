"""Reports the outcome of an audit to Dagster, so that its UI shows the update in force.

Not here: the decision (`steps.audit`), and the content of an event (`feed_events.materializations`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import datetime

import dagster as dg
from dagster._core.events import AssetMaterializationPlannedData

from feed_assets.blackboard.port import Blackboard
from feed_assets.datasets.declaration import FeedDeclaration
from feed_assets.feed_events.declarations import declared_feed
from feed_assets.feed_events.materializations import INVALIDATED, REJECTED, is_shown, published, still_in_force
from feed_assets.feed_events.results import StepContext, log_evaluations, log_event
from feed_assets.feed_events.selection import asset_layer
from feed_assets.file_feed.control import read_record
from feed_assets.file_feed.errors import FeedError
from feed_assets.file_feed.names import SECOND, begun
from feed_assets.file_feed.reading import latest
from feed_assets.steps.audit import Audited


def report_audit(context: StepContext, key: dg.AssetKey, audited: Audited, *, now: datetime) -> None:
    """Log the update in force after the audit. Costs one or two LISTs, and a LIST and a GET for the growth.

    After a publication it is the new update with its full metadata. After a rejection or an invalidation it is the
    update before, if any, and the partition counts as failed. If the update was and stays in force, and Dagster shows
    it, no event is logged.
    """
    candidate = audited.candidate
    if candidate is None:
        return
    update = candidate.update
    # An earlier attempt may have rejected the update and stopped before it reported that.
    was_rejected = candidate.record is not None and candidate.record.state == "rejected"
    refused = was_rejected or bool(audited.blocking)
    in_force = latest(update.feed, update.partition, now=now)
    if not refused and candidate.staged is None and is_shown(context.instance, key, update):
        return
    if not refused and in_force is not None and in_force.name == update.name:
        previous = latest(update.feed, update.partition, now=now, as_of=begun(update.name) - SECOND)
        log_event(context, published(context.instance, key, in_force, candidate.record, previous))
        return
    entry = REJECTED if candidate.staged is not None or was_rejected else INVALIDATED
    metadata = {entry: update.name} if refused else {}
    shown = still_in_force(context.instance, key, update.partition, in_force, why=audited.done, metadata=metadata)
    log_event(context, shown)
    if refused:
        _mark_as_failed(context, key, update.partition, audited.done)


def report_left_out(
    context: StepContext,
    key: dg.AssetKey,
    partitions: Iterable[str | None],
    *,
    blackboard: Blackboard,
    now: datetime,
) -> None:
    """Log the updates in force of the downstream assets that this run now skips, and their last check outcomes.

    Otherwise Dagster shows their partitions and checks as failed, although their updates in force are valid. Costs
    two LISTs and a GET for each asset and partition.
    """
    why = f"Not made again: the checks of {key.to_user_string()} failed."
    for child, declaration in _downstream(context, key):
        feed = declaration.on(blackboard)
        for partition in partitions:
            try:
                in_force = latest(feed, partition, now=now)
            except FeedError as error:
                # For example, its partitions are others. The results of the audit matter more than this report.
                context.log.warning(f"The update in force of {declaration.location} is not reported: {error}")
                continue
            if in_force is not None:
                event = still_in_force(context.instance, child, partition, in_force, why=why)
                log_event(context, event)
                record = read_record(feed, partition, in_force.name)
                audited = Audited(in_force.name, record.checks if record else (), why)
                log_evaluations(context, child, partition, audited, _planned_checks(context, child))


def _planned_checks(context: StepContext, key: dg.AssetKey) -> set[str]:
    """The names of the asset's checks that this run has selected."""
    selected = context.run.asset_check_selection
    keys = asset_layer(context).asset_graph.asset_check_keys if selected is None else selected
    return {each.name for each in keys if each.asset_key == key}


def _mark_as_failed(context: StepContext, key: dg.AssetKey, partition: str | None, message: str) -> None:
    """Make Dagster count the partition as failed, not as materialized.

    A partition counts as failed if its run failed and no materialization followed the planned one. A step cannot take
    its materialization back, so this plans another.
    """
    planned = dg.DagsterEvent.build_asset_materialization_planned_event(
        context.run.job_name,
        context.get_step_execution_context().step.key,
        AssetMaterializationPlannedData(key, partition=partition),
    )
    context.instance.report_dagster_event(planned._replace(message=message), run_id=context.run.run_id)


def _downstream(context: StepContext, key: dg.AssetKey) -> Iterator[tuple[dg.AssetKey, FeedDeclaration]]:
    """The feeds of this run that are computed from the asset, directly or not."""
    layer = asset_layer(context)
    reached = {key}
    for each in layer.asset_graph.toposorted_asset_keys:
        node = layer.asset_graph.get(each)
        if each in layer.selected_asset_keys and reached & set(node.parent_keys):
            reached.add(each)
            declaration = declared_feed(node.metadata)
            if declaration is not None:
                yield each, declaration
