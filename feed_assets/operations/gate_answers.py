"""Why a partition of a flow runs, or does not run yet: the gate's answer, from storage and the state database.

Here: the answer for one partition, as the sensor `starts` would give it now. Nothing is changed. Not here: printing it
(`cli`), and the decision itself (`dependencies.gate`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import date, datetime, timedelta

from feed_assets.blackboard.port import Blackboard
from feed_assets.datasets.days import is_day
from feed_assets.dependencies.errors import UnknownFlowError
from feed_assets.dependencies.gate.decision import InputState, Verdict, decide
from feed_assets.dependencies.service import Dependencies
from feed_assets.late_data.day_phases import lookback_days
from feed_assets.late_data.raw_growth import SourceDecision, growth_decisions
from feed_assets.late_data.staleness import in_force_at, staleness
from feed_assets.late_data.sweeping import settled_days
from feed_assets.operations.witness_files import wrong_files
from feed_assets.sensors.extra_changes import change_beside, first_start, with_extras
from feed_assets.sensors.flows import Begun, Flows
from feed_assets.sources.spec import Source
from feed_assets.starts.requests import state_of


def explain_flow(
    board: Blackboard,
    flows: Flows,
    states: Dependencies,
    sources: Sequence[Source],
    name: str,
    partition: str,
    *,
    now: datetime,
) -> Verdict:
    """The gate's answer on a partition of the flow: an asset's name, or its feed's location.

    Raises UnknownFlowError.
    """
    feed = flow_named(flows, name)
    require_partition(flows, feed, partition)
    update = in_force_at(board, flows.feeds, [(feed, partition)], now=now)[feed, partition]
    behind, state = _behind(board, flows, states, sources, feed, partition, update, now)
    begun = Begun.of(states, lambda: now)
    case = flows.case(states, feed, partition, in_force=update, behind=behind, begun=begun)

    def waiting(each: InputState) -> str:
        wrong = "" if each.complete else wrong_files(board, flows, states, sources, each.slot, now=now)
        return "; ".join(filter(None, (each.waits, wrong)))

    inputs = [replace(each, waits=waiting(each)) for each in case.inputs]
    case = replace(case, inputs=inputs, alive=begun.waits(feed, partition, state))
    return decide(case, flows.triggers[feed], now=now, lookback=timedelta(days=lookback_days(sources)))


def _behind(
    board: Blackboard,
    flows: Flows,
    states: Dependencies,
    sources: Sequence[Source],
    feed: str,
    partition: str,
    update: str | None,
    now: datetime,
) -> tuple[str, str]:
    """Why a partition is behind its inputs, and the state that a run would be requested for; both "" if it is not."""
    node = flows.feeds.feeds[feed]
    if node.upstream:
        found = next(iter(staleness(board, flows.feeds, node, [partition], now=now)))
        answer = with_extras(flows, states, board, feed, found)
        return (answer.reason, answer.state) if answer.stale else ("", "")
    grown: list[SourceDecision] | None = None
    if node.raw_sources and is_day(partition):
        day = date.fromisoformat(partition)
        read = [source for source in sources if source.key in node.raw_sources]
        sweep = settled_days(node.declaration.on(board))
        grown = [*growth_decisions(board, read, node, now=now, days=(day, day), sweep=sweep)]
    if due := [each for each in grown or () if each.due]:
        return "; ".join(each.sentence() for each in due), state_of(due[-1].update, due[-1].state)
    change = change_beside(flows, states, board, feed, partition, grown)
    if change is None and update is None:
        change = first_start(flows, states, feed, partition)
    if change is not None and states.update_of(flows.slot(feed, partition)) != update:
        return "", ""  # the facts do not have the update in force yet: it may have read this
    return (change.reason, change.state) if change else ("", "")


def flow_named(flows: Flows, name: str) -> str:
    """The location of a flow's feed, by this location or by the asset's name. Raises UnknownFlowError."""
    for location in flows.triggers:
        if name in {location, flows.feeds.feeds[location].name}:
            return location
    known = ", ".join(flows.feeds.feeds[each].name for each in flows.triggers)
    raise UnknownFlowError(
        f"{name!r} is no asset with a trigger: {f'those are {known}' if known else 'this project has none'}. "
        "`feed-assets explain DATE` tells about all assets."
    )


def require_partition(flows: Flows, feed: str, partition: str) -> None:
    """Raise UnknownFlowError for a partition that the flow of this feed cannot have."""
    if not flows.feeds.can_have(feed, partition):
        raise UnknownFlowError(
            f"{partition!r} is not a partition of {flows.feeds.feeds[feed].name}: its slots are {_few(flows, feed)}."
        )


def _few(flows: Flows, feed: str) -> str:
    partitions = flows.feeds.partitions(feed)
    names = list(partitions.get_partition_keys()) if partitions is not None else []
    return f"{names[0]} to {names[-1]}" if names else "none yet"
