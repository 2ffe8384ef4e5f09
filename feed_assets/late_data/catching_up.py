"""Plans the runs of derived feeds that are behind their inputs; `staleness` decides which are."""

from __future__ import annotations

from collections.abc import Callable, Collection
from datetime import timedelta

from feed_assets.datasets.days import midnight
from feed_assets.file_feed.errors import FeedError
from feed_assets.late_data.staleness import Staleness, staleness
from feed_assets.late_data.turns import Turns
from feed_assets.starts.graph import FeedNode, derived
from feed_assets.starts.requests import Need, Requests


def plan_stale(
    requests: Requests,
    touched: Collection[tuple[str, str]],
    *,
    lookback_days: int,
    out_of_time: Callable[[], bool],
    warn: Callable[[str], None],
    first: object = None,
    among: Callable[[FeedNode], bool] = lambda _: True,
    revised: Callable[[str, Staleness], Staleness] = lambda _, answer: answer,
) -> tuple[set[tuple[str, str]], str | None]:
    """Plan runs of stale partitions in the lookback and in `touched`, beginning with the feed `first`.

    `among` says which feeds it is asked about; `revised` may add to the answer on a partition of a feed. Compares at
    least one of them and plans at least one run, even if `out_of_time`. If a feed cannot be read, `warn` gets a message
    and the other feeds go on. Returns the touched partitions that the next tick must check again, and the feed for it
    to begin with; None if all were compared.
    """
    graph = requests.graph
    since = midnight(requests.now.date()) - timedelta(days=lookback_days)
    still_open: set[tuple[str, str]] = set()
    nodes = {node.location: node for node in derived(graph) if among(node)}
    turns = Turns(list(nodes), first, out_of_time)
    for location in turns:
        node = nodes[location]
        watched = graph.between(node.location, since, requests.now)
        older = {partition for feed, partition in touched if feed == node.location} - watched
        try:
            found = staleness(requests.board, graph, node, watched | older, now=requests.now)
            answers = [revised(node.location, each) for each in found]
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
    return still_open | {each for each in touched if each[0] in turns.left}, turns.resume
