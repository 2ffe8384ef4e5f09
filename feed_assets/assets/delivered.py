"""How a project says that a feed is delivered to a destination.

Here: the name and the place of the delivery in the asset graph. Not here: the asset that delivers (`deliveries`), which
needs the extra `delivery`.
"""

from __future__ import annotations

from collections.abc import Iterable

import dagster as dg

from feed_assets.feed_events.declarations import DELIVERS, DESTINATION, declared_feed

FOLDER = "delivery"


def delivered(
    asset: dg.AssetsDefinition | dg.AssetSpec, name: str, *, key: dg.AssetKey | str | None = None
) -> dg.AssetSpec:
    """Deliver the feed of an asset to a destination: the asset `delivery/<name>`, with the same partitions.

    Give it to `Project.definitions`, beside the feed's asset. A run delivers a partition of the update in force; a
    sensor requests the runs. `name` is that of a YAML file's destination (FEED_ASSETS_DELIVERIES). `key` selects one
    asset of a multi-asset.

    Raises DagsterInvalidDefinitionError if the asset is no feed. `Project.definitions` raises DestinationError if the
    destination is unknown, is for another feed, has columns that the feed lacks, or types that cannot be sent, or if it
    has a store and its key is not the identity of the feed.
    """
    spec = _spec(asset, key)
    declaration = declared_feed(spec.metadata)
    if declaration is None:
        raise dg.DagsterInvalidDefinitionError(
            f"{spec.key.to_user_string()} is no feed, so it cannot be delivered: give it `metadata=feed_metadata(...)`."
        )
    return dg.AssetSpec(
        key=dg.AssetKey([FOLDER, name]),
        deps=[spec.key],
        partitions_def=spec.partitions_def,
        group_name=FOLDER,
        owners=list(spec.owners),
        metadata={DELIVERS: declaration.location, DESTINATION: name},
    )


def split_deliveries(
    assets: Iterable[dg.AssetsDefinition | dg.AssetSpec],
) -> tuple[list[dg.AssetsDefinition | dg.AssetSpec], list[dg.AssetSpec]]:
    """The assets that `delivered` has not made, and those that it has."""
    others: list[dg.AssetsDefinition | dg.AssetSpec] = []
    deliveries: list[dg.AssetSpec] = []
    for each in assets:
        if isinstance(each, dg.AssetSpec) and DELIVERS in each.metadata:
            deliveries.append(each)
        else:
            others.append(each)
    return others, deliveries


def _spec(asset: dg.AssetsDefinition | dg.AssetSpec, key: dg.AssetKey | str | None) -> dg.AssetSpec:
    if isinstance(asset, dg.AssetSpec):
        return asset
    wanted = asset.key if key is None else dg.AssetKey.from_user_string(key) if isinstance(key, str) else key
    return asset.specs_by_key[wanted]
