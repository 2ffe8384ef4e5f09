"""The sensor for the data catalog: it describes there what Dagster shows of each feed and of each source's raw hours.

Here: finding what changed since the last tick, and the cursor. Not here: tables, and comparing (`data_catalog`). A tick
without news costs a query of Dagster's database for each table. A table with news costs a request for each 1,000 of its
partitions; the storage is asked only for those that differ.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from functools import partial
from typing import Any

import dagster as dg

from feed_assets.assets import raw_key
from feed_assets.blackboard import Blackboard
from feed_assets.data_catalog import (
    CatalogError,
    GlueCatalog,
    Present,
    Wanted,
    feed_table,
    is_described,
    reconcile,
    source_table,
    source_table_name,
    table_name,
)
from feed_assets.dependencies.graph import FeedNode
from feed_assets.dependencies.turns import Turns
from feed_assets.file_feed import FeedError
from feed_assets.file_feed.digest import short_digest
from feed_assets.resources import BlackboardResource, CatalogResource, Clock
from feed_assets.sensors.asset_graph import AssetFeedGraph
from feed_assets.sensors.ticks import TICK_SECONDS, known_versions, load_cursor
from feed_assets.sources import Source

MOST = 1000
"""Partitions of a table that a tick creates, replaces or deletes. The next tick goes on."""


@dataclass(frozen=True, slots=True)
class _Shown:
    """What Dagster shows of a table: partition -> update, or "" for a raw hour; and how to find what is wanted."""

    table: str
    partitions: Mapping[str, str]
    described: str
    wanted: Callable[..., Wanted | None]

    @property
    def digest(self) -> str:
        """16 hex digits that change with it."""
        return short_digest(json.dumps([self.described, sorted(self.partitions.items())]))


def data_catalog(sources: Sequence[Source], first_day: date, *, interval_seconds: int) -> dg.SensorDefinition:
    """Describes each feed and each source, from `first_day` on, in the catalog; it requests no runs."""

    @dg.sensor(
        name="data_catalog",
        minimum_interval_seconds=interval_seconds,
        default_status=dg.DefaultSensorStatus.RUNNING,
        description=(
            "Keeps tables in the Data Catalog of AWS Glue: one for each feed, whose partitions are the updates in "
            "force, and one for each source's raw hours. `feed-assets catalog reconcile` compares and repairs them all."
        ),
    )
    def sensor(
        context: dg.SensorEvaluationContext, blackboard: BlackboardResource, clock: Clock, catalog: CatalogResource
    ) -> dg.SensorResult:
        deadline = time.monotonic() + TICK_SECONDS
        cursor = load_cursor(context.cursor)
        described = cursor.get("described")
        described = dict(described) if isinstance(described, dict) else {}
        feeds = AssetFeedGraph.of(context.repository_def)
        glue, board, now = catalog.catalog, blackboard.blackboard, clock.now()
        changed = {
            each.table: each
            for each in _shown(context.instance, feeds, catalog_tables(feeds, sources, board, first_day, now))
            # What was never published has no table.
            if (each.partitions or each.table in described) and each.digest != described.get(each.table)
        }
        turns = Turns(list(changed), cursor.get("resume"), over=lambda: time.monotonic() > deadline)
        remarks: list[str] = []
        try:
            tables = glue.tables() if changed else {}
            for table in turns:
                try:
                    differed, done = _bring_up_to_date(glue, changed[table], tables)
                except (FeedError, CatalogError) as error:
                    if isinstance(error, CatalogError) and error.transient:
                        raise
                    # Whatever is wrong with this table, the others go on.
                    remarks.append(f"{table} is not described in {glue.title}: {error}")
                    context.log.warning(remarks[-1])
                    continue
                if differed:
                    remarks.append(f"{table}: {differed} described")
                if done:
                    described[table] = changed[table].digest
        except CatalogError as error:
            if not error.transient:
                raise
            remarks.append(str(error))
        return dg.SensorResult(
            skip_reason="; ".join(remarks) or "The catalog has what Dagster shows.",
            cursor=json.dumps({"described": described, "resume": turns.resume}, sort_keys=True),
        )

    return sensor


def _bring_up_to_date(glue: GlueCatalog, shown: _Shown, tables: Mapping[str, Present]) -> tuple[int, bool]:
    """How many tables and partitions differed, and whether all are as wanted now."""
    there = tables.get(shown.table)
    present = glue.partitions(shown.table) if there is not None else {}
    only: set[str] | None = None
    if there is not None:
        described = {each.partition: each.update or "" for each in present.values()}
        names = {*shown.partitions, *filter(None, described)}
        only = {name for name in names if shown.partitions.get(name) != described.get(name)}
    wanted = shown.wanted(only=only)
    if only is not None and wanted is not None and not is_described(wanted.table, there):
        wanted, only = shown.wanted(only=None), None  # the partitions have the table's columns, too
    if wanted is None:
        return 0, True
    result = reconcile(glue, wanted, tables, present=present, only=only, most=MOST)
    return len(result.drift), result.repaired


def catalog_tables(
    feeds: AssetFeedGraph, sources: Sequence[Source], board: Blackboard, first_day: date, now: datetime
) -> Iterator[tuple[str, FeedNode | Source, Callable[..., Wanted | None]]]:
    """For each table: its name, its feed or source, and a function of `only` that finds what the table should be."""
    for location, node in feeds.feeds.items():
        keys = feeds.keys_of_partitions(location)
        yield (
            table_name(location),
            node,
            partial(feed_table, node.declaration.on(board), node.declaration, keys, now=now),
        )
    for source in sources:
        yield source_table_name(source), source, partial(source_table, board, source, first_day, now.date())


def _shown(instance: dg.DagsterInstance, feeds: AssetFeedGraph, tables: Iterable[Any]) -> Iterator[_Shown]:
    """What Dagster shows of these `catalog_tables`."""
    for name, of, wanted in tables:
        if isinstance(of, Source):
            known = dict.fromkeys(instance.get_materialized_partitions(raw_key(of)), "")
            yield _Shown(name, known, str(of.format), wanted)
        else:
            known = known_versions(instance, feeds.keys[of.location], partitioned=of.partitioned)
            yield _Shown(name, known, str(of.declaration.columns), wanted)
