"""Derived feeds catch up with their inputs: which partitions are looked at, and which runs are planned.

Here: from staleness to needs. Not here: what is stale (`staleness`), and which partitions have changed.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from datetime import UTC, datetime, time, timedelta

from feed_assets.dependencies.graph import derived
from feed_assets.dependencies.requests import Need, Requests
from feed_assets.dependencies.staleness import staleness
from feed_assets.file_feed import FeedError


def plan_stale(
    requests: Requests,
    touched: Collection[tuple[str, str]],
    *,
    lookback_days: int,
    out_of_time: Callable[[], bool],
    warn: Callable[[str], None],
) -> set[tuple[str, str]]:
    """Plan runs of the stale partitions of the lookback and of `touched`, at least one run, however late it is.

    A feed that cannot be read holds up no other: `warn` gets a sentence. Returns the touched partitions beyond the
    lookback that have to be looked at again.
    """
    graph = requests.graph
    today = datetime.combine(requests.now.date(), time(), UTC)
    still_open = set()
    for node in derived(graph):
        watched = graph.between(node.location, today - timedelta(days=lookback_days), today)
        older = {partition for feed, partition in touched if feed == node.location} - watched
        try:
            answers = list(staleness(requests.board, graph, node, watched | older, now=requests.now))
        except FeedError as error:
            warn(f"{node.name} is not kept up with its inputs: {error}")
            still_open |= {(node.location, partition) for partition in older}
            continue
        stale = [answer for answer in answers if answer.stale]
        requests.look_up((node.location, answer.partition) for answer in stale)
        for answer in stale:
            place = (node.location, answer.partition)
            if requests.full or (requests.planned and out_of_time()):
                requests.left_over += 1
            elif due := requests.not_yet_asked(answer.partition, {node.location: answer.state}):
                requests.add(Need(answer.partition, due, answer.reason))
            if answer.partition in older and place not in requests.given_up:
                still_open.add(place)
    return still_open
