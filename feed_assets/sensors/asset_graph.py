"""The feeds among a code location's assets and their dependencies: `dependencies.graph` from Dagster's asset graph.

Not here: any decision, and any access to storage.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import dagster as dg

from feed_assets.datasets import FeedDeclaration
from feed_assets.dependencies.graph import FeedNode, Parent
from feed_assets.io_manager.asset_metadata import (
    CONTEXT,
    EVENING_BEFORE,
    declared_feed,
    is_inside,
    is_required,
    raw_source,
)
from feed_assets.io_manager.time_windows import time_window


@dataclass(frozen=True, slots=True)
class AssetFeedGraph:
    """All feeds by location, upstream before downstream; `keys` maps locations to assets, `locations` assets back."""

    feeds: Mapping[str, FeedNode]
    keys: Mapping[str, dg.AssetKey]
    locations: Mapping[dg.AssetKey, str]
    graph: Any

    @classmethod
    def of(cls, repository: dg.RepositoryDefinition | None) -> AssetFeedGraph:
        """The feeds of a loaded code location.

        Raises DagsterInvariantViolationError without a code location, or if two assets declare one location.
        """
        if repository is None:
            message = "A sensor needs the code location's definitions: pass `definitions` to its context."
            raise dg.DagsterInvariantViolationError(message)
        graph = repository.asset_graph
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
        return cls(feeds, {location: key for key, location in locations.items()}, locations, graph)

    # --- partitions ----------------------------------------------------------------------------------------------

    def has(self, feed: str, partition: str) -> bool:
        """Whether the feed has this partition now; False for dynamic partitions, which only an instance knows."""
        definition = self._partitions(feed)
        if definition is None or isinstance(definition, dg.DynamicPartitionsDefinition):
            return False
        try:
            return bool(definition.has_partition_key(partition))
        except OverflowError:
            return False  # beyond the year 9999

    def can_have(self, feed: str, partition: str | None) -> bool:
        """Whether the feed may have a partition of this name at some time; None means a feed without partitions."""
        definition = self._partitions(feed)
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
        return start.strftime(definition.fmt) == partition

    def alike(self, one: str, other: str) -> bool:
        """Whether both feeds have the same partitions, so that one run can compute them."""
        return bool(self._partitions(one) == self._partitions(other))

    def between(self, feed: str, start: datetime, end: datetime) -> set[str]:
        """The partitions of the feed that begin in this time; none if its partitions are not times."""
        definition = self._partitions(feed)
        if not isinstance(definition, dg.TimeWindowPartitionsDefinition):
            return set()
        keys = definition.get_partition_keys_in_time_window(dg.TimeWindow(start, end))
        return {partition for partition in keys if definition.has_partition_key(partition)}

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
        return {
            (self.locations[child.asset_key], child.partition_key)
            for child in self.graph.get_children_partitions(self.keys[feed], partition)
            if child.asset_key in self.locations and child.partition_key is not None
        }

    def parents(self, feed: str, partition: str) -> list[Parent]:
        """The partitions of partitioned feeds that this partition reads now, by the assets' partition mappings.

        Dagster runs nothing that reads a partition before an input's first, unless the mapping allows it: such a
        partition is required.
        """
        key = self.keys[feed]
        own = self._window(key, partition)
        metadata = _input_metadata(self.graph, key)
        found = []
        result = self.graph.get_parents_partitions(key, partition)
        nonexistent = result.required_but_nonexistent_parents_partitions
        for each in result.parent_partitions | nonexistent:
            if each.asset_key not in self.locations or each.partition_key is None:
                continue
            declared = metadata.get(each.asset_key, {})
            window = self._window(each.asset_key, each.partition_key)
            required = each in nonexistent or is_required(declared, window, own)
            context = bool(declared.get(CONTEXT)) and not required
            inside = is_inside(window, own)
            found.append(Parent(self.locations[each.asset_key], each.partition_key, required, context, inside))
        return sorted(found, key=lambda each: (each.feed, each.partition))

    def neighbours(self, feed: str, partition: str) -> dict[str, str]:
        """The partitions right `before` and `after` this one in time, if the feed has them."""
        definition = self._partitions(feed)
        if not isinstance(definition, dg.TimeWindowPartitionsDefinition) or not definition.has_partition_key(partition):
            return {}
        own = definition.time_window_for_partition_key(partition)
        windows = {
            "before": definition.get_prev_partition_window(own.start),
            "after": definition.get_next_partition_window(own.end),
        }
        return {side: window.start.strftime(definition.fmt) for side, window in windows.items() if window is not None}

    def has_time(self, feed: str, partition: str) -> bool:
        """Whether the partition is a period of time, not only a name."""
        return self._window(self.keys[feed], partition) is not None

    def _window(self, key: dg.AssetKey, partition: str) -> dg.TimeWindow | None:
        return time_window(self.graph.get(key).partitions_def, partition)

    def _partitions(self, feed: str) -> dg.PartitionsDefinition | None:
        definition: dg.PartitionsDefinition | None = self.graph.get(self.keys[feed]).partitions_def
        return definition


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
