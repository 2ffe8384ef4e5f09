"""The graph of feeds and partitions that decisions need, as a protocol.

`sensors.asset_graph` implements it from Dagster's assets.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from typing import Protocol

from feed_assets.datasets.declaration import FeedDeclaration, Place


@dataclass(frozen=True, slots=True)
class FeedNode:
    """A feed and its inputs. `name` is for messages.

    `upstream` are the locations of the partitioned feeds that it reads. `raw_sources` are the sources
    (`<kind>/<name>`) whose raw data it reads, with the last `evening_hours` of the day before as context.
    """

    name: str
    declaration: FeedDeclaration
    partitioned: bool
    made_here: bool
    upstream: tuple[str, ...] = ()
    raw_sources: frozenset[str] = frozenset()
    evening_hours: int = 0

    @property
    def location(self) -> str:
        """The feed's path below the base."""
        return self.declaration.location


@dataclass(frozen=True, slots=True)
class Parent:
    """A partition of a feed that a partition of a derived feed reads.

    A `required` parent must have a valid update. The first update of a `context` parent makes the partition stale; a
    later update does so only if the partition and its neighbour no longer agree (see `staleness`). A parent that
    `shares_time` overlaps the partition in time: one with an update is enough if no parent is required.
    """

    feed: str
    partition: str
    required: bool
    context: bool
    shares_time: bool = False

    @property
    def place(self) -> Place:
        """The feed and the partition."""
        return self.feed, self.partition


class FeedGraph(Protocol):
    """Feeds, each named by its location, and their partitions."""

    @property
    def feeds(self) -> Mapping[str, FeedNode]:
        """All feeds by location, upstream before downstream."""

    def has(self, feed: str, partition: str) -> bool:
        """Whether the feed has this partition now."""

    def has_time(self, feed: str, partition: str) -> bool:
        """Whether the partition is a period of time, not only a name."""

    def between(self, feed: str, start: datetime, end: datetime) -> set[str]:
        """The partitions of the feed that lie in this time, the first perhaps in part; none if they are not times."""

    def of_day(self, feed: str, day: date) -> Sequence[str]:
        """The partitions of the feed that begin on this day, or else those in which it lies.

        The day's name if the feed's times have none there; none if its partitions are not times.
        """

    def neighbours(self, feed: str, partition: str) -> Mapping[str, str]:
        """The partitions right `before` and `after` this one in time, if the feed has them."""

    def parents(self, feed: str, partition: str) -> Sequence[Parent]:
        """The partitions of partitioned feeds that this partition reads now, by location and partition."""

    def children(self, feed: str, partition: str | None) -> set[tuple[str, str]]:
        """The partitions of derived feeds that read this partition, each with its feed."""

    def alike(self, one: str, other: str) -> bool:
        """Whether both feeds have the same partitions, so that one run can compute them."""


def derived(graph: FeedGraph) -> list[FeedNode]:
    """The partitioned feeds made here from other feeds, upstream first."""
    return [node for node in graph.feeds.values() if node.made_here and node.partitioned and node.upstream]


def descendants(graph: FeedGraph, feeds: Iterable[str]) -> list[FeedNode]:
    """The derived feeds computed, directly or not, from any of these feeds, upstream first."""
    reached = set(feeds)
    found = []
    for node in derived(graph):
        if reached & set(node.upstream):
            reached.add(node.location)
            found.append(node)
    return found


def affected(graph: FeedGraph, node: FeedNode, partition: str | None) -> set[tuple[str, str]]:
    """The partitions that a change of this partition can make stale: its readers, and its neighbours if derived."""
    found = graph.children(node.location, partition)
    if partition is not None and node.made_here and node.upstream:
        found |= {(node.location, each) for each in graph.neighbours(node.location, partition).values()}
    return found
