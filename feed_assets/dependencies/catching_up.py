"""Plans the runs of derived feeds that are behind their inputs; `staleness` decides which are."""

from __future__ import annotations

from collections.abc import Callable, Collection
from datetime import timedelta

from feed_assets.datasets import midnight
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
    """Plan runs of stale partitions in the lookback and in `touched`. Plan at least one run, even if `out_of_time`.

    If a feed cannot be read, `warn` gets a message and the other feeds go on. Returns the touched partitions beyond
    the lookback that the next tick must check again.
    """
    graph = requests.graph
    first = midnight(requests.now.date()) - timedelta(days=lookback_days)
    still_open = set()
    for node in derived(graph):
        watched = graph.between(node.location, first, requests.now)
        older = {partition for feed, partition in touched if feed == node.location} - watched
        try:
            answers = list(staleness(requests.board, graph, node, watched | older, now=requests.now))
        except FeedError as error:
            warn(f"{node.name} is not compared with its inputs: {error}")
            still_open |= {(node.location, partition) for partition in older}
            continue
        stale = [answer for answer in answers if answer.stale]
        requests.look_up((node.location, answer.partition) for answer in stale)
        for answer in stale:
            place = (node.location, answer.partition)
            if requests.full or (requests.planned and out_of_time()):
                requests.left_over += 1
            elif due := requests.not_yet_requested(answer.partition, {node.location: answer.state}):
                requests.add(Need(answer.partition, due, answer.reason))
            if answer.partition in older and place not in requests.given_up:
                still_open.add(place)
    return still_open
