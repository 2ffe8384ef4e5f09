"""The table of a feed in the warehouse, as an asset downstream of the feed, and the check of its rows.

Here: wiring and metadata. Not here: loading (`feed_assets.warehouse`), and when it runs (`sensors.warehouse_loads`).
"""

import warnings
from collections.abc import Iterable, Iterator
from functools import partial
from time import monotonic
from typing import Any

import dagster as dg

from feed_assets.datasets.declaration import FeedDeclaration
from feed_assets.feed_events.declarations import COLUMN_SCHEMA, LOADS, declared_feed, specs_of
from feed_assets.feed_events.metadata import IN_FORCE, STATE, UPDATE
from feed_assets.io_manager.audits_under_way import once_audited
from feed_assets.io_manager.retries import retrying
from feed_assets.resources.settings import Clock
from feed_assets.resources.storage import BlackboardResource
from feed_assets.resources.warehouse import WarehouseResource
from feed_assets.warehouse.loading import difference, load
from feed_assets.warehouse.port import Loaded, Warehouse

FOLDER, CHECK = "warehouse", "rows_as_published"
NOTHING = "none"
"""The data version of a partition that has no rows, because no update is in force."""


def warehouse_tables(
    assets: Iterable[dg.AssetsDefinition | dg.AssetSpec], kind: str
) -> Iterator[dg.AssetsDefinition | dg.AssetChecksDefinition]:
    """The table of each feed that names one (`feed_metadata(..., warehouse=...)`), and its check.

    `kind` is the kind of the warehouse. Raises DagsterInvalidDefinitionError if two feeds name one table.
    """
    feeds: dict[str, str] = {}
    for spec in (spec for each in assets for spec in specs_of(each)):
        declaration = declared_feed(spec.metadata)
        if declaration is None or not declaration.table:
            continue
        if other := feeds.get(declaration.table):
            raise dg.DagsterInvalidDefinitionError(
                f"{other} and {declaration.location} name the same table, {declaration.table}: give each its own."
            )
        feeds[declaration.table] = declaration.location
        key = dg.AssetKey([FOLDER, declaration.table])
        yield _table(key, spec, declaration, kind)
        yield _check(key, spec, declaration)


def loaded_metadata(warehouse: Warehouse, table: str, loaded: Loaded) -> dict[str, Any]:
    """A load in Dagster's metadata."""
    return {
        UPDATE: loaded.update or NOTHING,
        STATE: IN_FORCE if loaded.update else "nothing in force: the rows were deleted",
        "dagster/row_count": loaded.rows,
        "table": f"{warehouse.title} {table}",
        "loaded at": loaded.committed,
        "loaded by": loaded.author,
        "loads so far": loaded.number,
    }


def _table(key: dg.AssetKey, spec: dg.AssetSpec, declaration: FeedDeclaration, kind: str) -> dg.AssetsDefinition:
    @dg.asset(
        key=key,
        deps=[spec.key],
        partitions_def=spec.partitions_def,
        group_name=FOLDER,
        kinds={kind, "table"},
        owners=list(spec.owners),
        metadata={
            LOADS: declaration.location,
            "dagster/table_name": declaration.table,
            COLUMN_SCHEMA: spec.metadata[COLUMN_SCHEMA],
        },
        description=(
            f"The rows of {declaration.location} in the table {declaration.table}, with `_partition` and `_update`. A "
            "load replaces the rows of a partition in one transaction by those of the update in force."
        ),
    )
    def table(
        context: dg.AssetExecutionContext, blackboard: BlackboardResource, clock: Clock, warehouse: WarehouseResource
    ) -> dg.MaterializeResult[None]:
        loads = {}
        for partition in _partitions(context, spec):
            begun = monotonic()
            with retrying(context.retry_number):
                feed = declaration.on(blackboard.blackboard)
                author = f"run {context.run.run_id}"
                loading = partial(load, warehouse.warehouse, declaration, feed, partition, now=clock.now, author=author)
                line, wrote = once_audited(loading, feed, [partition], context.instance, context.run, context.log)
            what = "loaded" if wrote else "was loaded before"
            context.log.info(f"{declaration.location} {partition or ''}: {line.update or NOTHING} {what}")
            shown = loaded_metadata(warehouse.warehouse, declaration.table, line)
            loads[partition] = {**shown, "seconds": round(monotonic() - begun, 2)}
        version = dg.DataVersion(max(each[UPDATE] for each in loads.values()))
        if len(loads) == 1:
            return dg.MaterializeResult(metadata=loads.popitem()[1], data_version=version)
        for partition, shown in loads.items():
            context.add_asset_metadata(shown, asset_key=key, partition_key=partition)
        return dg.MaterializeResult(data_version=version)

    return table


def _check(key: dg.AssetKey, spec: dg.AssetSpec, declaration: FeedDeclaration) -> dg.AssetChecksDefinition:
    text = "The table has the rows of the update that was loaded: as many as its record states, and no other."

    def check(
        context: dg.AssetCheckExecutionContext, blackboard: BlackboardResource, warehouse: WarehouseResource
    ) -> dg.AssetCheckResult:
        found = {}
        with retrying(context.retry_number):
            feed = declaration.on(blackboard.blackboard)
            for partition in _partitions(context, spec):
                if differs := difference(warehouse.warehouse, declaration, feed, partition):
                    found[partition or declaration.table] = differs
        differences = "; ".join(f"{partition}: {differs}" for partition, differs in found.items())
        advice = ". Materialize the asset to load it again" if found else ""
        return dg.AssetCheckResult(passed=not found, description=f"{differences or 'the table has its rows'}{advice}.")

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", dg.PreviewWarning)  # partitions of a check, as for audits
        made = dg.asset_check(asset=key, name=CHECK, partitions_def=spec.partitions_def, description=text)
        return made(check)


def _partitions(
    context: dg.AssetExecutionContext | dg.AssetCheckExecutionContext, spec: dg.AssetSpec
) -> list[str | None]:
    return [None] if spec.partitions_def is None else list(map(str, context.partition_keys))
