"""Finding the feeds below a base, by looking at storage.

Here: which locations are feeds, and a summary of each. Not here: what feeds declare, and single updates (`states`).
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from datetime import datetime
from itertools import chain

from feed_assets.blackboard.listing import first_folders, list_folders
from feed_assets.blackboard.port import Blackboard
from feed_assets.file_feed.control import recorded
from feed_assets.file_feed.errors import FeedError
from feed_assets.file_feed.feed import CONTROL, Feed
from feed_assets.file_feed.names import is_update_name
from feed_assets.file_feed.scanning import latest_of_all

DEEPEST = 4
"""How many folders below the base a feed's location may be."""


@dataclass(frozen=True, slots=True)
class FeedSummary:
    """A feed at a glance. `partitions` counts those with a valid update; `newest` is the last of them, or None.

    `without` are the partitions that have recorded updates but no valid one. `behind` are those whose newest recorded
    update is not in force: it was rejected, invalidated, or is being written. `fault` says why the feed cannot be read.
    """

    location: str
    partitions: int
    newest: str | None
    latest: str | None
    without: tuple[str, ...] = ()
    behind: tuple[str, ...] = ()
    fault: str = ""


def feed_locations(blackboard: Blackboard, *, below: str = "", leave_out: Collection[str] = ()) -> Iterator[str]:
    """The locations of feeds, ascending: folders with a control area, with updates, or with partitions of updates.

    A few listings of one page for each folder above a feed, and more pages if it holds more than 1,000 folders; none
    inside a feed. `leave_out` are names of folders directly below. Skips folders whose names start with a dot, and
    folders deeper than DEEPEST.
    """
    yield from _visit(blackboard, below.strip("/"), leave_out, DEEPEST)


def summarize(feed: Feed, *, now: datetime) -> FeedSummary:
    """The summary of a feed: a scan of its partitions and a listing of its records; reads no update."""
    try:
        in_force = latest_of_all(feed, now=now)
    except FeedError as error:
        return FeedSummary(feed.location, 0, None, None, fault=str(error))
    newest_recorded = {partition: max(updates) for partition, updates in recorded(feed)}
    newest = max(in_force, default=None)
    return FeedSummary(
        location=feed.location,
        partitions=len(in_force.keys() - {""}),
        newest=newest or None,
        latest=in_force[newest].name if newest is not None else None,
        without=tuple(sorted(newest_recorded.keys() - in_force.keys())),
        behind=tuple(sorted(name for name, update in in_force.items() if newest_recorded.get(name, "") > update.name)),
    )


def _visit(blackboard: Blackboard, location: str, leave_out: Collection[str], depth: int) -> Iterator[str]:
    root = Feed(blackboard, location).root
    page = blackboard.page(root, folders=True)
    names = [folder.removeprefix(root).removesuffix("/") for folder in page.folders]
    if CONTROL in names or any(map(is_update_name, names)):
        yield location
        return
    children = [name for name in names if _may_lead_to_feeds(name, leave_out)]
    # Partitions of a feed look alike, so it is enough to look at the first and the last.
    ends = (first_folders(blackboard, f"{root}{name}/") for name in dict.fromkeys([*children[:1], *children[-1:]]))
    if location and any(CONTROL not in inside and any(map(is_update_name, inside)) for inside in ends):
        yield location
        return
    if not depth:
        return
    more = () if page.next_after is None else list_folders(blackboard, root, after=page.next_after)
    for name in chain(children, (each for each in more if _may_lead_to_feeds(each, leave_out))):
        yield from _visit(blackboard, f"{root}{name}", (), depth - 1)


def _may_lead_to_feeds(name: str, leave_out: Collection[str]) -> bool:
    return not name.startswith(".") and name not in leave_out
