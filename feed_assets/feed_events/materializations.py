"""Materializations that describe the update in force of a partition, and why it is in force.

Dagster shows the latest materialization of a partition, compares its data version to find what is out of date, and
cannot take a materialization back. A step reports its own materialization before its checks decide. So after each
decision (`checks`, `sensors`) another materialization describes the update in force.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import dagster as dg

from feed_assets.feed_events.metadata import DATA_VERSION_TAG, IN_FORCE, STATE, UPDATE, published_metadata
from feed_assets.file_feed.feed import Update
from feed_assets.file_feed.record import Record

REASON, REJECTED, INVALIDATED = "reason", "rejected update", "invalidated update"
HAPPENED = frozenset({REASON, REJECTED, INVALIDATED})
DIMENSION = "dagster/partition/"
SEARCHED = 20
"""Materializations of a partition to search for the update in force."""


def published(
    instance: dg.DagsterInstance, key: dg.AssetKey, update: Update, record: Record | None, previous: Update | None
) -> dg.AssetMaterialization:
    """The materialization of an update that its checks have just published.

    It copies the asset's own metadata and the versions of its inputs from the step's materialization.
    """
    known = list(_newest_first(instance, key, update.partition))
    staged = _about(known, update.name)
    # `feed/` entries are for the IO manager only.
    own = {name: value for name, value in (staged.metadata if staged else {}).items() if not name.startswith("feed/")}
    # The UI keeps this order: name and state, the asset's own figures, the rest.
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

    `why` is a sentence. Without an update in force (`update` is None) the event has no path, no rows and no data
    version, so that readers of the partition do not count as out of date.
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
    # The new reason comes first, and replaces the reason of an earlier event.
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
    """Whether Dagster shows this update as in force; not if a run died between publishing and reporting it."""
    newest = next(_newest_first(instance, key, update.partition, limit=1), None)
    shown = {name: newest.metadata[name].value for name in (UPDATE, STATE) if name in newest.metadata} if newest else {}
    return shown == {UPDATE: update.name, STATE: IN_FORCE}


def has_event_about(instance: dg.DagsterInstance, key: dg.AssetKey, partition: str | None, update: str) -> bool:
    """Whether a recent event of the partition is about this update."""
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
    """The tags of an event about this update, or about none.

    The tags are copied from the newest event about the update, so that Dagster knows its inputs. The dimensions of the
    partition are copied from the newest event of any update.
    """
    about = _about(known, update)
    tags = dict((about.tags if about else None) or {})
    for each in known[:1]:
        tags |= {name: value for name, value in (each.tags or {}).items() if name.startswith(DIMENSION)}
    return {**tags, DATA_VERSION_TAG: update} if update else tags


def _about(known: Iterable[dg.AssetMaterialization], update: str | None) -> dg.AssetMaterialization | None:
    """The first of these events that is about this update, or None."""
    return next((each for each in known if update and (each.tags or {}).get(DATA_VERSION_TAG) == update), None)
