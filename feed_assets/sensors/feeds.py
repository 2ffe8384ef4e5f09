"""The feeds among a code location's assets, and what depends on what.

Here: a view of Dagster's asset graph in the words of feeds. Not here: any access to storage.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import dagster as dg

from feed_assets.io_manager import FeedDeclaration
from feed_assets.io_manager.declaration import CONTEXT, EVENING_BEFORE, is_required, raw_source
from feed_assets.io_manager.time_windows import time_window


@dataclass(frozen=True, slots=True)
class FeedAsset:
    """An asset that is a feed. `upstream` are the assets it reads that are partitioned feeds themselves."""

    key: dg.AssetKey
    declaration: FeedDeclaration
    partitioned: bool
    made_here: bool
    upstream: tuple[dg.AssetKey, ...]


@dataclass(frozen=True, slots=True)
class Parent:
    """A partition of a feed that a partition of a derived feed reads.

    A `required` one has to be there. A `context` one makes the partition stale when it comes for the first time; later
    changes of it do so only where the partition and its neighbour no longer agree (see `staleness`).
    """

    feed: str
    partition: str
    required: bool
    context: bool


@dataclass(frozen=True, slots=True)
class FeedGraph:
    """All feed assets by key, upstream before downstream."""

    assets: Mapping[dg.AssetKey, FeedAsset]
    graph: Any

    @classmethod
    def of(cls, repository: dg.RepositoryDefinition) -> FeedGraph:
        """The feeds of a loaded code location."""
        graph = repository.asset_graph
        declared = {
            key: declaration
            for key in graph.toposorted_asset_keys
            if (declaration := FeedDeclaration.of(graph.get(key).metadata)) is not None
        }
        return cls(
            assets={key: _feed_asset(graph, key, declaration, declared) for key, declaration in declared.items()},
            graph=graph,
        )

    def derived(self) -> list[FeedAsset]:
        """The feeds made from other feeds, upstream first; one without partitions is not for sensors to run."""
        return [asset for asset in self.assets.values() if asset.made_here and asset.partitioned and asset.upstream]

    def descendants(self, keys: Iterable[dg.AssetKey]) -> list[FeedAsset]:
        """The derived feeds that any of these leads to, upstream first."""
        reached = set(keys)
        found = []
        for asset in self.derived():
            if reached & set(asset.upstream):
                reached.add(asset.key)
                found.append(asset)
        return found

    def by_location(self) -> dict[str, FeedAsset]:
        """The feeds by their location below the base."""
        return {asset.declaration.location: asset for asset in self.assets.values()}

    # --- partitions ----------------------------------------------------------------------------------------------

    def has(self, key: dg.AssetKey, partition: str) -> bool:
        """Whether the asset has this partition by now."""
        definition = self.graph.get(key).partitions_def
        if definition is None or isinstance(definition, dg.DynamicPartitionsDefinition):
            return False  # which dynamic partitions there are, only an instance knows: they are for others to run
        try:
            return bool(definition.has_partition_key(partition))
        except OverflowError:
            return False  # beyond the year 9999

    def can_have(self, key: dg.AssetKey, partition: str | None) -> bool:
        """Whether this is how a partition of the asset is named, be it one of another time; None where it has none."""
        definition = self.graph.get(key).partitions_def
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

    def alike(self, one: dg.AssetKey, other: dg.AssetKey) -> bool:
        """Whether both have the same partitions, so that one run can make them."""
        return bool(self.graph.get(one).partitions_def == self.graph.get(other).partitions_def)

    def between(self, key: dg.AssetKey, start: datetime, end: datetime) -> set[str]:
        """The partitions of the asset that begin in this time; none where they are no times."""
        definition = self.graph.get(key).partitions_def
        if not isinstance(definition, dg.TimeWindowPartitionsDefinition):
            return set()
        keys = definition.get_partition_keys_in_time_window(dg.TimeWindow(start, end))
        return {partition for partition in keys if definition.has_partition_key(partition)}

    def range(self, key: dg.AssetKey, first: str, last: str) -> list[str]:
        """The partitions of the asset from first to last; none where these are none of its partitions."""
        definition = self.graph.get(key).partitions_def if self.graph.has(key) else None
        if definition is None or not (definition.has_partition_key(first) and definition.has_partition_key(last)):
            return []
        return list(definition.get_partition_keys_in_range(dg.PartitionKeyRange(first, last)))

    def raw_sources(self, key: dg.AssetKey) -> frozenset[str]:
        """The sources (`<kind>/<name>`) whose raw partitions the asset reads."""
        parents = self.graph.get(key).parent_keys
        found = (raw_source(self.graph.get(parent).metadata) for parent in parents if self.graph.has(parent))
        return frozenset(source for source in found if source is not None)

    def evening_hours(self, key: dg.AssetKey) -> int:
        """How many hours of the day before the asset reads as context of its raw data."""
        return max((int(said.get(EVENING_BEFORE, 0)) for said in self._input_metadata(key).values()), default=0)

    def children(self, key: dg.AssetKey, partition: str | None) -> set[tuple[dg.AssetKey, str]]:
        """The partitions of derived feeds that read this partition, by the assets' partition mappings."""
        if partition is not None and not self.has(key, partition):
            return set()
        return {
            (child.asset_key, child.partition_key)
            for child in self.graph.get_children_partitions(key, partition)
            if child.asset_key in self.assets and child.partition_key is not None
        }

    def parents(self, key: dg.AssetKey, partition: str) -> list[Parent]:
        """The partitions of partitioned feeds that this partition reads now, by the assets' partition mappings."""
        own = self._window(key, partition)
        metadata = self._input_metadata(key)
        found = []
        for each in self.graph.get_parents_partitions(key, partition).parent_partitions:
            parent = self.assets.get(each.asset_key)
            if parent is None or each.partition_key is None:
                continue
            said = metadata.get(each.asset_key, {})
            required = is_required(said, self._window(each.asset_key, each.partition_key), own)
            context = bool(said.get(CONTEXT)) and not required
            found.append(Parent(parent.declaration.location, each.partition_key, required, context))
        return sorted(found, key=lambda each: (each.feed, each.partition))

    def neighbours(self, key: dg.AssetKey, partition: str) -> dict[str, str]:
        """The partitions right `before` and `after` this one in time, as far as the asset has them."""
        definition = self.graph.get(key).partitions_def
        if not isinstance(definition, dg.TimeWindowPartitionsDefinition) or not definition.has_partition_key(partition):
            return {}
        own = definition.time_window_for_partition_key(partition)
        windows = {
            "before": definition.get_prev_partition_window(own.start),
            "after": definition.get_next_partition_window(own.end),
        }
        return {side: window.start.strftime(definition.fmt) for side, window in windows.items() if window is not None}

    def has_time(self, key: dg.AssetKey, partition: str) -> bool:
        """Whether the partition stands for a time; a name does not."""
        return self._window(key, partition) is not None

    def _window(self, key: dg.AssetKey, partition: str) -> dg.TimeWindow | None:
        return time_window(self.graph.get(key).partitions_def, partition)

    def _input_metadata(self, key: dg.AssetKey) -> dict[dg.AssetKey, Mapping[str, Any]]:
        """What the asset says of each of its inputs, by the asset that is read."""
        definition = self.graph.get(key).assets_def
        inputs = definition.node_def.input_dict
        return {upstream: inputs[name].metadata or {} for name, upstream in definition.keys_by_input_name.items()}


def _feed_asset(
    graph: Any,
    key: dg.AssetKey,
    declaration: FeedDeclaration,
    declared: Mapping[dg.AssetKey, FeedDeclaration],
) -> FeedAsset:
    node = graph.get(key)
    return FeedAsset(
        key=key,
        declaration=declaration,
        partitioned=node.is_partitioned,
        made_here=node.is_materializable,
        upstream=tuple(
            sorted(parent for parent in node.parent_keys if parent in declared and graph.get(parent).is_partitioned)
        ),
    )
