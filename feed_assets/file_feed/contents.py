"""All that a feed holds, partition by partition: its updates and their entries in the control area.

Here: one pass over the listings side by side, which needs memory for the largest partition only. Not here: listing a
part of a history (`scanning`), and judging updates.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from heapq import merge
from itertools import groupby
from operator import attrgetter
from typing import NamedTuple

from feed_assets.blackboard.listing import list_all, list_jumping
from feed_assets.blackboard.port import Entry
from feed_assets.file_feed.control import CLAIMS, RECORDS
from feed_assets.file_feed.errors import MixedFeedError
from feed_assets.file_feed.feed import CONTROL, Feed
from feed_assets.file_feed.names import has_update_shape, is_partition_name, is_update_name
from feed_assets.file_feed.read_sets import READ_SETS
from feed_assets.file_feed.reading import Found, not_one_level


@dataclass(slots=True)
class Contents:
    """A partition (None: the feed has none): its updates, and the keys of their claims, records and read sets, by name.

    `odd` maps the name in an update's place to a key that belongs to no update. `marked` are the updates that have a
    directory marker.
    """

    partition: str | None
    updates: dict[str, Found] = field(default_factory=dict)
    claims: dict[str, str] = field(default_factory=dict)
    records: dict[str, str] = field(default_factory=dict)
    read_sets: dict[str, str] = field(default_factory=dict)
    odd: dict[str, str] = field(default_factory=dict)
    marked: set[str] = field(default_factory=set)


class _Object(NamedTuple):
    """An object of an area, sorted by the first folder of its key."""

    folder: str
    area: str
    partition: str | None
    name: str
    path: str
    entry: Entry


def contents(
    feed: Feed, *, within: str | None = None, areas: Collection[str] = (CLAIMS, RECORDS), mixed: bool = False
) -> Iterator[Contents]:
    """The partitions in the order of their keys, or only the partition `within`; last, the objects without a partition.

    Lists the feed and each of the `areas` of its control area once. Raises MixedFeedError if updates and
    partitions lie at one level, unless `mixed`.
    """
    whole, partitioned, folder = Contents(None), False, attrgetter("folder")
    streams = (_data(feed, within), *(_control(feed, area, within) for area in areas))
    for _, objects in groupby(merge(*streams, key=folder), key=folder):
        current = None
        for each in objects:
            if each.partition is None:
                _add(whole, each)
            else:
                current = current or Contents(each.partition)
                _add(current, each)
        if current is not None:
            partitioned = partitioned or bool(current.updates)
            yield current
        if partitioned and whole.updates and not mixed:
            raise MixedFeedError(not_one_level(feed, mixed=True))
    if whole != Contents(None):
        yield whole


def _add(to: Contents, each: _Object) -> None:
    if each.area == CLAIMS:
        to.claims[each.name] = each.entry.key
    elif each.area == RECORDS:
        to.records[each.name] = each.entry.key
    elif each.area == READ_SETS:
        to.read_sets[each.name] = each.entry.key
    elif (
        not is_update_name(each.name) or not each.path or not (to.partition is None or is_partition_name(to.partition))
    ):
        to.odd.setdefault(each.name, each.entry.key)
    else:
        if each.entry.key.endswith("/"):
            to.marked.add(each.name)
        if each.path != "/":
            to.updates.setdefault(each.name, Found(each.name)).add(each.path, each.entry)


def _data(feed: Feed, within: str | None) -> Iterator[_Object]:
    listed = (
        list_all(feed.blackboard, feed.prefix(within))
        if within is not None
        else list_jumping(
            feed.blackboard, feed.root, lambda rest: f"{CONTROL}0" if rest.startswith(f"{CONTROL}/") else rest
        )
    )
    folder = ""
    for entry in listed:
        rest = entry.key.removeprefix(feed.root)
        head, slash, tail = rest.partition("/")
        if head == CONTROL:
            continue
        name, _, path = tail.partition("/")
        if slash and not tail and not has_update_shape(head):
            continue  # the directory marker of a partition: readers do not count it as a file
        # A file beside the folders does not sort as a folder does: it goes with the folder before it.
        folder = f"{head}/" if slash else folder
        marker = "/" if rest.endswith("/") else ""
        if has_update_shape(head) or not name:
            yield _Object(folder, "", None, head, tail or marker, entry)
        else:
            yield _Object(folder, "", head, name, path or marker, entry)


def _control(feed: Feed, area: str, within: str | None) -> Iterator[_Object]:
    folder = feed.control(area)
    for entry in list_all(feed.blackboard, feed.control(area, within)):
        partition, _, rest = entry.key.removeprefix(folder).rpartition("/")
        name = ".".join(rest.split(".")[:2])
        if is_update_name(name) and (not partition or is_partition_name(partition)):
            yield _Object(f"{partition or name}/", area, partition or None, name, "", entry)
