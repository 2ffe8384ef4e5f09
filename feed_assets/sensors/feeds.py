"""The feeds among a code location's assets, and what depends on what.

Here: a view of Dagster's asset graph in the words of feeds. Not here: any access to storage.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import dagster as dg

from feed_assets.io_manager import FeedDeclaration


@dataclass(frozen=True, slots=True)
class FeedAsset:
    """An asset that is a feed. `upstream` are the assets it reads that are partitioned feeds themselves."""

    key: dg.AssetKey
    declaration: FeedDeclaration
    partitioned: bool
    made_here: bool
    upstream: tuple[dg.AssetKey, ...]


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
        """The feeds made from other feeds, upstream first."""
        return [asset for asset in self.assets.values() if asset.made_here and asset.upstream]

    def descendants(self, keys: Iterable[dg.AssetKey]) -> list[FeedAsset]:
        """The derived feeds that any of these leads to, upstream first."""
        reached = set(keys)
        found = []
        for asset in self.derived():
            if reached & set(asset.upstream):
                reached.add(asset.key)
                found.append(asset)
        return found

    def children(self, key: dg.AssetKey, partition: str | None) -> set[tuple[dg.AssetKey, str]]:
        """The partitions of derived feeds that read this partition, by the assets' partition mappings."""
        return {
            (child.asset_key, child.partition_key)
            for child in self.graph.get_children_partitions(key, partition)
            if child.asset_key in self.assets and child.partition_key is not None
        }

    def by_location(self) -> dict[str, FeedAsset]:
        """The feeds by their location below the base."""
        return {asset.declaration.location: asset for asset in self.assets.values()}


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
