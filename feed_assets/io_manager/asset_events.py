"""Events about a feed's partition: they always describe the update in force, and why it is in force.

Dagster shows the latest materialization of a partition, compares its data version to find what is out of date, and
cannot take a materialization back. A step's own materialization comes before its checks have decided, so each decision
is followed by a materialization that describes what is in force then. Here: these events. Not here: the decisions
(`checks`, `sensors`), and the metadata of an update (`metadata`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import dagster as dg

from feed_assets.file_feed import Record, Update
from feed_assets.io_manager.metadata import DATA_VERSION_TAG, IN_FORCE, STATE, UPDATE, published_metadata

REASON, REJECTED, INVALIDATED = "reason", "rejected update", "invalidated update"
HAPPENED = frozenset({REASON, REJECTED, INVALIDATED})
DIMENSION = "dagster/partition/"
SEARCHED = 20
"""Materializations of a partition that are looked through for the one of the update in force."""


def published(
    instance: dg.DagsterInstance, key: dg.AssetKey, update: Update, record: Record | None, previous: Update | None
) -> dg.AssetMaterialization:
    """The materialization of an update that its checks have just published.

    It takes over what the step's own materialization has: the asset's own metadata, and where its inputs come from.
    """
    known = list(_newest_first(instance, key, update.partition))
    staged = _about(known, update.name)
    # Without what assets tell the IO manager only.
    own = {name: value for name, value in (staged.metadata if staged else {}).items() if not name.startswith("feed/")}
    # First what it is, then the asset's own figures: the UI keeps the order.
    metadata = {UPDATE: "", STATE: "", **own, **published_metadata(update, record, previous)}
    return dg.AssetMaterialization(
        key,
        partition=update.partition,
        description=f"Update {update.name} is published.",
        metadata=metadata,
        tags=_tags(known, update.name),
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
    known = list(_newest_first(instance, key, partition))
    if update is None:
        return dg.AssetMaterialization(
            key,
            partition=partition,
            description=f"{why} Nothing is in force: readers find no data here.",
            metadata={**happened, STATE: "nothing in force"},
            tags=_tags(known, None),
        )
    about = _about(known, update.name)
    # What happened stands first, and instead of what happened before.
    shown = {name: value for name, value in (about.metadata if about else {}).items() if name not in HAPPENED}
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
    newest = next(_newest_first(instance, key, update.partition, limit=1), None)
    shown = {name: newest.metadata[name].value for name in (UPDATE, STATE) if name in newest.metadata} if newest else {}
    return shown == {UPDATE: update.name, STATE: IN_FORCE}


def has_event_about(instance: dg.DagsterInstance, key: dg.AssetKey, partition: str | None, update: str) -> bool:
    """Whether Dagster was told of this update: whether an event of late is about it."""
    where = dg.AssetRecordsFilter(asset_key=key, asset_partitions=[partition] if partition else None)
    observed = instance.fetch_observations(where, limit=SEARCHED).records
    tags = [each.asset_observation.tags or {} for each in observed if each.asset_observation is not None]
    return any(each.get(DATA_VERSION_TAG) == update for each in tags) or (
        _about(_newest_first(instance, key, partition), update) is not None
    )


def _newest_first(
    instance: dg.DagsterInstance, key: dg.AssetKey, partition: str | None, *, limit: int = SEARCHED
) -> Iterator[dg.AssetMaterialization]:
    where = dg.AssetRecordsFilter(asset_key=key, asset_partitions=[partition] if partition else None)
    for record in instance.fetch_materializations(where, limit=limit).records:
        if record.asset_materialization is not None:
            yield record.asset_materialization


def _tags(known: Sequence[dg.AssetMaterialization], update: str | None) -> dict[str, str]:
    """The tags of an event about this update, None where it is about none.

    They are those of the newest event about it, so that Dagster goes on knowing which inputs it was made from. What a
    partition of several dimensions is made of stands on any event.
    """
    about = _about(known, update)
    tags = dict((about.tags if about else None) or {})
    for each in known[:1]:
        tags |= {name: value for name, value in (each.tags or {}).items() if name.startswith(DIMENSION)}
    return {**tags, DATA_VERSION_TAG: update} if update else tags


def _about(known: Iterable[dg.AssetMaterialization], update: str | None) -> dg.AssetMaterialization | None:
    """The first of these events that is about this update; None where Dagster never heard of it."""
    return next((each for each in known if update and (each.tags or {}).get(DATA_VERSION_TAG) == update), None)
