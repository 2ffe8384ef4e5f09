"""Making a table of the catalog equal to what is wanted, and finding what differs, in both directions.

Not here: what is wanted (`tables`), and requests (`glue`).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Literal

from feed_assets.data_catalog.glue import (
    VARIABLE,
    CatalogError,
    GlueCatalog,
    Present,
    Table,
    partition_digest,
    table_digest,
)
from feed_assets.data_catalog.tables import Wanted

Problem = Literal["missing", "different", "not wanted"]


@dataclass(frozen=True, slots=True)
class Drift:
    """A table (`partition` is None) or a partition that the catalog lacks, has otherwise, or should not have."""

    table: str
    partition: str | None
    problem: Problem


@dataclass(frozen=True, slots=True)
class Reconciled:
    """The differences, and whether all were repaired."""

    drift: tuple[Drift, ...]
    repaired: bool


def reconcile(
    catalog: GlueCatalog,
    wanted: Wanted,
    tables: Mapping[str, Present],
    *,
    present: Mapping[tuple[str, ...], Present] | None = None,
    only: Collection[str] | None = None,
    repair: bool = True,
    most: int | None = None,
) -> Reconciled:
    """Compare a table with the wanted table. With `repair`, correct at most `most` partitions of each problem.

    `tables` are the tables of the database, `present` the partitions that the table has, if the caller knows them.
    `only` are the names of the partitions that `wanted` knows, if not all: others stay. Running it again changes
    nothing. Raises CatalogError if the table is somebody else's.
    """
    table = wanted.table
    _require_own(catalog, table, tables.get(table.name))
    there = tables.get(table.name)
    table_differs = not is_described(table, there)
    if present is None:
        present = catalog.partitions(table.name) if there and table.keys else {}
    by_values = {each.values: name for name, each in wanted.partitions.items()}
    new = [each for each in wanted.partitions.values() if each.values not in present]
    changed = [
        each
        for each in wanted.partitions.values()
        if (found := present.get(each.values)) and not found.is_as(each.location, partition_digest(table, each))
    ]
    extra = {
        values: each.partition or "/".join(values)
        for values, each in present.items()
        if values not in by_values and (only is None or each.partition in only)
    }
    drift = (
        *([Drift(table.name, None, "different" if there else "missing")] if table_differs else []),
        *(Drift(table.name, by_values[each.values], "missing") for each in new),
        *(Drift(table.name, by_values[each.values], "different") for each in changed),
        *(Drift(table.name, name, "not wanted") for name in extra.values()),
    )
    if not repair:
        return Reconciled(drift, repaired=not drift)
    if there is None:
        catalog.put_table(table)
    catalog.put_partitions(table, new[:most], changed[:most])
    catalog.delete_partitions(table.name, list(extra)[:most])
    repaired = most is None or max(map(len, (new, changed, extra))) <= most
    if there is not None and table_differs and repaired:
        # Last: as long as the table is described as before, the next comparison looks at all its partitions.
        catalog.put_table(table)
    return Reconciled(drift, repaired)


def is_described(table: Table, there: Present | None) -> bool:
    """Whether the catalog has the table, with the wanted description."""
    return there is not None and there.is_as(table.location, table_digest(table))


def unknown_tables(tables: Mapping[str, Present], known: Collection[str], base: str) -> list[str]:
    """The tables that were written for this base, but for no feed or source that is known now."""
    below = f"{base}/"
    return sorted(name for name, each in tables.items() if name not in known and (each.owner or "").startswith(below))


def _require_own(catalog: GlueCatalog, table: Table, there: Present | None) -> None:
    """Raise CatalogError if the table was not written for the same feed or source, or has other partition keys."""
    if there is None:
        return
    if there.owner != table.owner:
        raise CatalogError(
            f"The table {table.name} in {catalog.title} belongs to {there.owner or 'somebody else'}, and not to "
            f"{table.owner}. Name another database in {VARIABLE}, or delete that table."
        )
    if there.keys != table.keys:
        raise CatalogError(
            f"The table {table.name} in {catalog.title} has partitions by {', '.join(there.keys) or 'nothing'}, and "
            f"should have them by {', '.join(table.keys) or 'nothing'}. Glue cannot change that: delete the table, and "
            "run this again."
        )
