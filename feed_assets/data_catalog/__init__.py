"""The Data Catalog of AWS Glue: a table for each feed and source, so that Athena and others find their partitions.

Here: the tables that should be there, the requests to Glue, and making both equal. Not here: when that is done
(`sensors`), and Dagster.

A partition of a feed's table is the location of the update in force, so its readers never see two updates, or half of
one. A partition of a source's table is the prefix of a raw hour, with all its files: those that a later landing
replaced, too. Use these tables to look at what a partner sent, and the feeds to count.
"""

from feed_assets.data_catalog.glue import (
    VARIABLE,
    CatalogError,
    GlueCatalog,
    Partition,
    Present,
    Table,
    check_catalog,
    open_catalog,
)
from feed_assets.data_catalog.reconciling import Drift, Reconciled, is_described, reconcile, unknown_tables
from feed_assets.data_catalog.tables import Wanted, feed_table, source_table, source_table_name, table_name

__all__ = [
    "VARIABLE",
    "CatalogError",
    "Drift",
    "GlueCatalog",
    "Partition",
    "Present",
    "Reconciled",
    "Table",
    "Wanted",
    "check_catalog",
    "feed_table",
    "is_described",
    "open_catalog",
    "reconcile",
    "source_table",
    "source_table_name",
    "table_name",
    "unknown_tables",
]
