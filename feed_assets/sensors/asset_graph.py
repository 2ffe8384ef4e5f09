"""The feeds among a code location's assets and their dependencies: `starts.graph` from Dagster's asset graph.

Not here: any decision, and any access to storage. Dagster takes up to a millisecond for the inputs of a partition. So a
process asks once for each partition, until partitions come or go.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import date, datetime
from typing import Any, TypeVar, cast
from weakref import WeakKeyDictionary

import dagster as dg

from feed_assets.datasets.declaration import FeedDeclaration
from feed_assets.feed_events.declarations import (
    CONTEXT,
    EVENING_BEFORE,
    OPTIONAL,
    declared_feed,
    is_required,
    plain,
    raw_source,
    shares_time,
)
from feed_assets.file_feed.bounded_cache import BoundedCache
from feed_assets.partitions.time_windows import during, has_dynamic_names, partition_keys, time_window, times_of, within
from feed_assets.starts.graph import FeedNode, Parent

_Answer = TypeVar("_Answer")
_Bounds = tuple[tuple[float, float] | None, ...]

REMEMBERED = 100_000
"""How many answers on partitions a process remembers for a code location."""

MAPPED_BY_NAME_OR_TIME = (
    dg.TimeWindowPartitionMapping,
    dg.IdentityPartitionMapping,
    dg.MultiToSingleDimensionPartitionMapping,
)
"""Mappings whose answers follow from the partition's name and the bounds of the partitions on both sides."""

_ANSWERS: WeakKeyDictionary[Any, BoundedCache[Any, Any]] = WeakKeyDictionary()
"""Answers on partitions, by Dagster's asset graph; they go when the code location is loaded anew."""


@dataclass(frozen=True, slots=True)
class AssetFeedGraph:
    """All feeds by location, upstream before downstream; `keys` maps locations to assets, `locations` assets back.

    Its partitions are those that exist at `moment`.
    """

    feeds: Mapping[str, FeedNode]
    keys: Mapping[str, dg.AssetKey]
    locations: Mapping[dg.AssetKey, str]
    graph: Any
    moment: datetime
    bounds: dict[dg.AssetKey, _Bounds | None] = field(default_factory=dict)

    @classmethod
    def of(cls, repository: dg.RepositoryDefinition | None) -> AssetFeedGraph:
        """The feeds of a loaded code location.

        Raises DagsterInvariantViolationError without a code location, or if two assets declare one location.
        """
        if repository is None:
            message = "A sensor needs the code location's definitions: pass `definitions` to its context."
            raise dg.DagsterInvariantViolationError(message)
        return cls.of_graph(repository.asset_graph)

    @classmethod
    def of_graph(cls, graph: Any) -> AssetFeedGraph:
        """The feeds of Dagster's asset graph. Raises DagsterInvariantViolationError as `of` does."""
        locations: dict[dg.AssetKey, str] = {}
        feeds: dict[str, FeedNode] = {}
        for key in graph.toposorted_asset_keys:
            if (declaration := declared_feed(graph.get(key).metadata)) is not None:
                if declaration.location in feeds:
                    both = f"{feeds[declaration.location].name} and {key.to_user_string()}"
                    message = f"{both} declare the same feed, {declaration.location}: give each its own location."
                    raise dg.DagsterInvariantViolationError(message)
                feeds[declaration.location] = _node(graph, key, declaration, locations)
                locations[key] = declaration.location
        with dg.partition_loading_context() as context:
            moment = context.effective_dt
        return cls(feeds, {location: key for key, location in locations.items()}, locations, graph, moment)

    def below(self, label: str) -> AssetFeedGraph:
        """The assets whose metadata `label` names a feed of this graph, as feeds of their own.

        Each is at the path of its asset, so that requests for it are recorded like those for feeds.
        """
        nodes, keys = {}, {}
        for key in self.graph.toposorted_asset_keys:
            if (location := plain(self.graph.get(key).metadata.get(label))) in self.feeds:
                name, node = key.to_user_string(), self.feeds[location]
                declaration = replace(node.declaration, location=name)
                nodes[name] = replace(node, name=name, declaration=declaration, upstream=(location,))
                keys[name] = key
        locations = {key: name for name, key in keys.items()}
        return replace(self, feeds=nodes, keys=keys, locations=locations, bounds={})

    def optional_inputs(self, feed: str) -> frozenset[str]:
        """The feeds that this one reads if they are there: inputs that are declared as optional."""
        metadata = _input_metadata(self.graph, self.keys[feed])
        return frozenset(
            self.locations[key] for key, each in metadata.items() if key in self.locations and each.get(OPTIONAL)
        )

    # --- partitions ----------------------------------------------------------------------------------------------

    def has(self, feed: str, partition: str) -> bool:
        """Whether the feed has this partition now; False for dynamic partitions, which only an instance knows."""
        return self._answer(_has, feed, partition)

    def can_have(self, feed: str, partition: str | None) -> bool:
        """Whether the feed may have a partition of this name at some time; None means a feed without partitions."""
        definition = self.partitions(feed)
        if definition is None or partition is None:
            return definition is None and partition is None
        if isinstance(definition, dg.DynamicPartitionsDefinition):
            return True  # any name may be added
        if not isinstance(definition, dg.TimeWindowPartitionsDefinition):
            return bool(definition.has_partition_key(partition))
        try:
            start = definition.time_window_for_partition_key(partition).start
        except (ValueError, OverflowError):
            return False
        return definition.get_partition_key_for_timestamp(start.timestamp()) == partition

    def alike(self, one: str, other: str) -> bool:
        """Whether both feeds have the same partitions, so that one run can compute them."""
        return bool(self.partitions(one) == self.partitions(other))

    def between(self, feed: str, start: datetime, end: datetime) -> set[str]:
        """The partitions of the feed that lie in this time, the first perhaps in part; none if they are not times."""
        return {each for each in within(self.partitions(feed), start, end) if self.has(feed, each)}

    def of_day(self, feed: str, day: date) -> Sequence[str]:
        """The partitions of the feed that begin on this day, or else those in which it lies.

        The day's name if the feed's times have none there; none if its partitions are not times.
        """
        definition = self.partitions(feed)
        return during(definition, day) or ([str(day)] if times_of(definition) is not None else [])

    def range(self, key: dg.AssetKey, first: str, last: str) -> list[str]:
        """The partitions of the asset from first to last; none if it does not have both."""
        definition = self.graph.get(key).partitions_def if self.graph.has(key) else None
        if definition is None or not (definition.has_partition_key(first) and definition.has_partition_key(last)):
            return []
        return list(definition.get_partition_keys_in_range(dg.PartitionKeyRange(first, last)))

    def children(self, feed: str, partition: str | None) -> set[tuple[str, str]]:
        """The partitions of derived feeds that read this partition, by the assets' partition mappings."""
        if partition is not None and not self.has(feed, partition):
            return set()
        with dg.partition_loading_context(self.moment):
            found = self.graph.get_children_partitions(self.keys[feed], partition)
        return {
            (self.locations[child.asset_key], child.partition_key)
            for child in found
            if child.asset_key in self.locations and child.partition_key is not None
        }

    def parents(self, feed: str, partition: str) -> Sequence[Parent]:
        """The partitions of partitioned feeds that this partition reads now, by the assets' partition mappings.

        Dagster runs nothing that reads a partition before an input's first, unless the mapping allows it: such a
        partition is required.
        """
        return self._answer(_parents, feed, partition)

    def neighbours(self, feed: str, partition: str) -> Mapping[str, str]:
        """The partitions right `before` and `after` this one in time, if the feed has them."""
        return self._answer(_neighbours, feed, partition)

    def has_time(self, feed: str, partition: str) -> bool:
        """Whether the partition is a period of time, not only a name."""
        return time_window(self.partitions(feed), partition) is not None

    def keys_of_partitions(self, feed: str) -> tuple[str, ...]:
        """The keys by which other programs know the feed's partitions: none, `date`, `date` and `hour`, `partition`."""
        return partition_keys(self.partitions(feed))

    def partitions(self, feed: str) -> dg.PartitionsDefinition | None:
        """The partitions of the feed's asset; None if it has none."""
        definition: dg.PartitionsDefinition | None = self.graph.get(self.keys[feed]).partitions_def
        return definition

    def metadata(self, feed: str) -> Mapping[str, Any]:
        """The metadata of the feed's asset."""
        metadata: Mapping[str, Any] = self.graph.get(self.keys[feed]).metadata
        return metadata

    def _answer(self, question: Callable[[Any, dg.AssetKey, str], _Answer], feed: str, partition: str) -> _Answer:
        """The answer to a question on a partition, remembered if it depends on nothing but the partitions' bounds."""
        key = self.keys[feed]
        if key not in self.bounds:
            self.bounds[key] = _bounds(self.graph, key, self.moment)
        answers = _ANSWERS.setdefault(self.graph, BoundedCache(REMEMBERED))
        asked = (question, key, partition, self.bounds[key])
        with suppress(KeyError):
            return cast("_Answer", answers[asked])
        with dg.partition_loading_context(self.moment):
            answer = question(self.graph, key, partition)
        if self.bounds[key] is not None:
            answers[asked] = answer
        return answer


def _bounds(graph: Any, key: dg.AssetKey, moment: datetime) -> _Bounds | None:
    """The times, at a moment, from the first to the last partition of an asset and of each asset that it reads.

    While they stay the same, a partition has the same inputs and neighbours. None if any of these partitions has no
    time or a dynamic name, or is mapped in a way that these times may not decide.
    """
    upstream = sorted(each for each in graph.get(key).parent_keys if graph.has(each) and graph.get(each).is_partitioned)
    definitions = [graph.get(each).partitions_def for each in (key, *upstream)]
    times = [found for each in definitions if (found := times_of(each)) is not None]
    if (
        len(times) < len(definitions)
        or any(map(has_dynamic_names, definitions))
        or not all(isinstance(graph.get_partition_mapping(key, each), MAPPED_BY_NAME_OR_TIME) for each in upstream)
    ):
        return None
    with dg.partition_loading_context(moment):
        windows = [(each.get_first_partition_window(), each.get_last_partition_window()) for each in times]
    return tuple((first.start.timestamp(), last.end.timestamp()) if first and last else None for first, last in windows)


def _has(graph: Any, key: dg.AssetKey, partition: str) -> bool:
    """See `AssetFeedGraph.has`."""
    definition = graph.get(key).partitions_def
    if definition is None or isinstance(definition, dg.DynamicPartitionsDefinition):
        return False
    try:
        return bool(definition.has_partition_key(partition))
    except OverflowError:
        return False  # beyond the year 9999


def _parents(graph: Any, key: dg.AssetKey, partition: str) -> Sequence[Parent]:
    """See `AssetFeedGraph.parents`."""
    own = time_window(graph.get(key).partitions_def, partition)
    metadata = _input_metadata(graph, key)
    feeds = {each: declared_feed(graph.get(each).metadata) for each in graph.get(key).parent_keys if graph.has(each)}
    result = graph.get_parents_partitions(key, partition)
    nonexistent = result.required_but_nonexistent_parents_partitions
    found = []
    for each in result.parent_partitions | nonexistent:
        feed = feeds.get(each.asset_key)
        if feed is None or each.partition_key is None:
            continue
        declared = metadata.get(each.asset_key, {})
        window = time_window(graph.get(each.asset_key).partitions_def, each.partition_key)
        required = each in nonexistent or is_required(declared, window, own)
        context = bool(declared.get(CONTEXT)) and not required
        found.append(Parent(feed.location, each.partition_key, required, context, shares_time(window, own)))
    return tuple(sorted(found, key=lambda each: (each.feed, each.partition)))


def _neighbours(graph: Any, key: dg.AssetKey, partition: str) -> Mapping[str, str]:
    """See `AssetFeedGraph.neighbours`."""
    definition = graph.get(key).partitions_def
    if not isinstance(definition, dg.TimeWindowPartitionsDefinition) or not definition.has_partition_key(partition):
        return {}
    own = definition.time_window_for_partition_key(partition)
    windows = {
        "before": definition.get_prev_partition_window(own.start),
        "after": definition.get_next_partition_window(own.end),
    }
    starts = {side: window.start.timestamp() for side, window in windows.items() if window is not None}
    # Dagster's names tell the two hours apart when summer time ends.
    return {side: definition.get_partition_key_for_timestamp(start) for side, start in starts.items()}


def _node(graph: Any, key: dg.AssetKey, declaration: FeedDeclaration, upstream: Mapping[dg.AssetKey, str]) -> FeedNode:
    """The feed of this asset; `upstream` has the locations of the feeds sorted before it."""
    node = graph.get(key)
    parents = sorted(node.parent_keys)
    sources = (raw_source(graph.get(parent).metadata) for parent in parents if graph.has(parent))
    inputs = _input_metadata(graph, key).values() if node.is_materializable else ()
    return FeedNode(
        name=key.to_user_string(),
        declaration=declaration,
        partitioned=node.is_partitioned,
        made_here=node.is_materializable,
        upstream=tuple(upstream[each] for each in parents if each in upstream and graph.get(each).is_partitioned),
        raw_sources=frozenset(source for source in sources if source is not None),
        evening_hours=max((int(each.get(EVENING_BEFORE, 0)) for each in inputs), default=0),
    )


def _input_metadata(graph: Any, key: dg.AssetKey) -> dict[dg.AssetKey, Mapping[str, Any]]:
    """The metadata of the asset's inputs, by upstream asset."""
    definition = graph.get(key).assets_def
    inputs = definition.node_def.input_dict
    return {upstream: inputs[name].metadata or {} for name, upstream in definition.keys_by_input_name.items()}
