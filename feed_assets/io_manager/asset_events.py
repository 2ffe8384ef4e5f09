"""What Dagster is told of a feed's partition: always the update in force, and why it is that one.

Dagster shows the latest materialization of a partition, compares its data version to find what is out of date, and
cannot take a materialization back. A step's own materialization comes before its checks have decided, so each decision
is followed by a materialization that describes what is in force then. Here: these events. Not here: the decisions
(`checks`, `sensors`), and the metadata of an update (`metadata`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import dagster as dg

from feed_assets.file_feed import Record, Update
from feed_assets.io_manager.metadata import DATA_VERSION_TAG, IN_FORCE, STATE, UPDATE, published_metadata

REASON = "reason"
SEARCHED = 20
"""Materializations of a partition that are looked through for the one of the update in force."""


def published(
    instance: dg.DagsterInstance, key: dg.AssetKey, update: Update, record: Record | None, previous: Update | None
) -> dg.AssetMaterialization:
    """The materialization of an update that its checks have just published.

    It takes over what the step's own materialization has: the asset's own metadata, and where its inputs come from.
    """
    staged = _known(instance, key, update.partition, update.name)
    # Without what assets tell the IO manager only.
    own = {name: value for name, value in (staged.metadata if staged else {}).items() if not name.startswith("feed/")}
    # First what it is, then the asset's own figures: the UI keeps the order.
    metadata = {UPDATE: "", STATE: "", **own, **published_metadata(update, record, previous)}
    return dg.AssetMaterialization(
        key,
        partition=update.partition,
        description=f"Update {update.name} is published.",
        metadata=metadata,
        tags=_tags(staged, update.name),
    )


def still_in_force(
    instance: dg.DagsterInstance,
    key: dg.AssetKey,
    partition: str | None,
    update: Update | None,
    *,
    why: str,
    metadata: Mapping[str, Any] | None = None,
) -> dg.AssetMaterialization:
    """The materialization to report after a rejection or an invalidation: it describes the update in force.

    `why` is a sentence on what happened. With nothing in force (`update` is None) the event has no path, no rows and
    no data version, so that nothing which reads the partition counts as out of date.
    """
    happened = {STATE: IN_FORCE, REASON: why, **(metadata or {})}
    if update is None:
        return dg.AssetMaterialization(
            key,
            partition=partition,
            description=f"{why} Nothing is in force: readers find no data here.",
            metadata={**happened, STATE: "nothing in force"},
        )
    known = _known(instance, key, partition, update.name)
    # What happened stands first, and replaces what happened before.
    shown = dict(known.metadata) if known else {}
    if UPDATE not in shown or "path" not in shown:
        shown |= published_metadata(update, None, None)
    return dg.AssetMaterialization(
        key,
        partition=partition,
        description=f"{why} Update {update.name} is in force.",
        metadata={**happened, **shown, **happened},
        tags=_tags(known, update.name),
    )


def is_shown(instance: dg.DagsterInstance, key: dg.AssetKey, update: Update) -> bool:
    """Whether Dagster shows this update as the one in force: a run may have died after it had published it."""
    where = dg.AssetRecordsFilter(asset_key=key, asset_partitions=[update.partition] if update.partition else None)
    for record in instance.fetch_materializations(where, limit=1).records:
        metadata = record.asset_materialization.metadata if record.asset_materialization else {}
        return (metadata.get(UPDATE), metadata.get(STATE)) == (
            dg.MetadataValue.text(update.name),
            dg.MetadataValue.text(IN_FORCE),
        )
    return False


def _known(
    instance: dg.DagsterInstance, key: dg.AssetKey, partition: str | None, update: str
) -> dg.AssetMaterialization | None:
    """The newest materialization of this update that Dagster has, None where it never heard of it."""
    where = dg.AssetRecordsFilter(asset_key=key, asset_partitions=[partition] if partition else None)
    for record in instance.fetch_materializations(where, limit=SEARCHED).records:
        known = record.asset_materialization
        if known is not None and (known.tags or {}).get(DATA_VERSION_TAG) == update:
            return known
    return None


def _tags(known: dg.AssetMaterialization | None, update: str) -> dict[str, str]:
    """The tags of what is known, so that Dagster goes on knowing which inputs the update was made from."""
    return {**((known.tags if known else None) or {}), DATA_VERSION_TAG: update}
