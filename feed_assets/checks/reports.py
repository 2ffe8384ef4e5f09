"""Telling Dagster what an audit came to, so that its UI shows what every reader sees.

Here: which events follow from which decision. Not here: the decision (`steps.audit`), and what an event says
(`io_manager.asset_events`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import datetime, timedelta
from typing import Any

import dagster as dg
from dagster._core.events import AssetMaterializationPlannedData

from feed_assets.blackboard import Blackboard
from feed_assets.checks.results import log_evaluations
from feed_assets.datasets import FeedDeclaration
from feed_assets.file_feed import FeedError, begun, latest, read_record
from feed_assets.io_manager.asset_events import INVALIDATED, REJECTED, is_shown, published, still_in_force
from feed_assets.io_manager.asset_metadata import declared_feed
from feed_assets.steps import Audited

ONE_SECOND = timedelta(seconds=1)


def report(context: dg.AssetCheckExecutionContext, key: dg.AssetKey, audited: Audited, *, now: datetime) -> None:
    """Log what is in force now that the audit is done.

    After a publication that is the update with its full metadata. After a rejection or an invalidation it is the update
    before, if there is one, and the partition counts as failed. An update that was in force and stays so needs no event
    if Dagster shows it. Costs one or two LIST.
    """
    candidate = audited.candidate
    if candidate is None:
        return
    update = candidate.update
    # The attempt that rejected it may have stopped before it could report it.
    was_rejected = candidate.record is not None and candidate.record.state == "rejected"
    turned_away = was_rejected or bool(audited.blocking)
    there = latest(update.feed, update.partition, now=now)
    log = context.op_execution_context.log_event
    if not turned_away and candidate.staged is None and is_shown(context.instance, key, update):
        return
    if not turned_away and there is not None and there.name == update.name:
        previous = latest(update.feed, update.partition, now=now, as_of=begun(update.name) - ONE_SECOND)
        log(published(context.instance, key, there, candidate.record, previous))
        return
    happened = {}
    if turned_away:
        happened[REJECTED if candidate.staged is not None or was_rejected else INVALIDATED] = update.name
    log(still_in_force(context.instance, key, update.partition, there, why=audited.done, metadata=happened))
    if turned_away:
        _mark_as_failed(context, key, update.partition, audited.done)


def report_left_out(
    context: dg.AssetCheckExecutionContext,
    key: dg.AssetKey,
    partitions: Iterable[str | None],
    *,
    blackboard: Blackboard,
    now: datetime,
) -> None:
    """Log what is in force of the assets that this run was to make from the asset, and now does not.

    Without that Dagster shows their partitions and their checks as failed, though nothing is wrong with what their
    readers see. So the outcomes of their last audit are stated again, too. Costs a LIST and a GET for each.
    """
    why = f"Not made again: {key.to_user_string()} was turned away by its checks."
    for child, declaration in _downstream(context, key):
        feed = declaration.on(blackboard)
        for partition in partitions:
            try:
                there = latest(feed, partition, now=now)
            except FeedError as error:
                # A feed of other partitions, say. What Dagster shows of it is advice; the results of the audit are not.
                context.log.warning(f"{declaration.location} is not restated: {error}")
                continue
            if there is not None:
                event = still_in_force(context.instance, child, partition, there, why=why)
                context.op_execution_context.log_event(event)
                record = read_record(feed, partition, there.name)
                audited = Audited(there.name, record.checks if record else (), why)
                log_evaluations(context, child, partition, audited, _planned_checks(context, child))


def _planned_checks(context: dg.AssetCheckExecutionContext, key: dg.AssetKey) -> set[str]:
    """The names of the asset's checks that this run was to evaluate."""
    selected = context.run.asset_check_selection
    keys = context.job_def.asset_layer.asset_graph.asset_check_keys if selected is None else selected
    return {each.name for each in keys if each.asset_key == key}


def _mark_as_failed(
    context: dg.AssetCheckExecutionContext, key: dg.AssetKey, partition: str | None, message: str
) -> None:
    """Make Dagster count the partition as failed, not as materialized.

    It does so where a run that failed was to materialize a partition, and no materialization came after that was
    planned. A step cannot take its materialization back; so it is planned once more.
    """
    planned = dg.DagsterEvent.build_asset_materialization_planned_event(
        context.run.job_name,
        context.op_execution_context.get_step_execution_context().step.key,
        AssetMaterializationPlannedData(key, partition=partition),
    )
    context.instance.report_dagster_event(planned._replace(message=message), run_id=context.run.run_id)


def _downstream(
    context: dg.AssetCheckExecutionContext, key: dg.AssetKey
) -> Iterator[tuple[dg.AssetKey, FeedDeclaration]]:
    """The feeds of this run that are made from the asset, directly or not."""
    layer: Any = context.job_def.asset_layer
    reached = {key}
    for each in layer.asset_graph.toposorted_asset_keys:
        node = layer.asset_graph.get(each)
        if each in layer.selected_asset_keys and reached & set(node.parent_keys):
            reached.add(each)
            declaration = declared_feed(node.metadata)
            if declaration is not None:
                yield each, declaration
