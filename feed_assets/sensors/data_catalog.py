"""The sensor for the data catalog: it describes there what Dagster shows of each feed and of each source's raw hours.

Here: finding what changed since the last tick, and the cursor. Not here: tables, and comparing (`data_catalog`). A tick
without news costs one query of Dagster's database, whatever the number of partitions. A table with new events costs
another; if its partitions have changed, a request for each 1,000 of them. The storage is asked for those that differ.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from functools import cached_property, partial

import dagster as dg

from feed_assets.assets.external import raw_key
from feed_assets.blackboard.port import Blackboard
from feed_assets.data_catalog.glue import CatalogError, GlueCatalog, Present
from feed_assets.data_catalog.reconciling import is_described, reconcile
from feed_assets.data_catalog.tables import Wanted, feed_table, source_table, source_table_name, table_name
from feed_assets.file_feed.digest import short_digest
from feed_assets.file_feed.errors import FeedError
from feed_assets.late_data.turns import Turns
from feed_assets.resources.data_catalog import CatalogResource
from feed_assets.resources.settings import Clock
from feed_assets.resources.storage import BlackboardResource
from feed_assets.sensors.asset_graph import AssetFeedGraph
from feed_assets.sensors.ticks import TICK_SECONDS, known_versions, last_events, load_cursor
from feed_assets.sources.spec import Source
from feed_assets.starts.graph import FeedNode

MOST = 1000
"""Partitions of a table that a tick creates, replaces or deletes. The next tick goes on."""


@dataclass(frozen=True)
class _Shown:
    """The table of a feed or of raw hours as Dagster shows it, and the function that finds its wanted state."""

    instance: dg.DagsterInstance
    table: str
    of: FeedNode | Source
    key: dg.AssetKey
    wanted: Callable[..., Wanted | None]

    @cached_property
    def partitions(self) -> Mapping[str, str]:
        """Partition -> update, or "" for a raw hour."""
        if isinstance(self.of, Source):
            return dict.fromkeys(self.instance.get_materialized_partitions(self.key), "")
        return known_versions(self.instance, self.key, partitioned=self.of.partitioned)

    @property
    def described(self) -> str:
        """The facts that decide the table's description, besides its partitions."""
        return str(self.of.format if isinstance(self.of, Source) else self.of.declaration.columns)

    @cached_property
    def digest(self) -> str:
        """16 hex digits that change with the description and the partitions."""
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
        described, looked_at = (_texts(cursor.get(name)) for name in ("described", "looked_at"))
        feeds = AssetFeedGraph.of(context.repository_def)
        glue, board, now = catalog.catalog, blackboard.blackboard, clock.now()
        all_tables = {
            name: _Shown(context.instance, name, of, _key(feeds, of), wanted)
            for name, of, wanted in catalog_tables(feeds, sources, board, first_day, now)
        }
        last = last_events(context.instance, [each.key for each in all_tables.values()])
        states = {
            name: short_digest(json.dumps([each.described, last.get(each.key)]))
            for name, each in all_tables.items()
            # What was never published has no table.
            if last.get(each.key) is not None or name in described
        }
        new = [name for name, state in states.items() if state != looked_at.get(name)]
        turns = Turns(new, cursor.get("resume"), over=lambda: time.monotonic() > deadline)
        remarks: list[str] = []
        tables: Mapping[str, Present] | None = None
        try:
            for table in turns:
                shown = all_tables[table]
                if shown.digest == described.get(table):
                    looked_at[table] = states[table]
                    continue
                tables = glue.tables() if tables is None else tables
                try:
                    differed, done = _bring_up_to_date(glue, shown, tables)
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
                    described[table], looked_at[table] = shown.digest, states[table]
        except CatalogError as error:
            if not error.transient:
                raise
            remarks.append(str(error))
        return dg.SensorResult(
            skip_reason="; ".join(remarks) or "The catalog has what Dagster shows.",
            cursor=json.dumps({"described": described, "looked_at": looked_at, "resume": turns.resume}, sort_keys=True),
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


def _key(feeds: AssetFeedGraph, of: FeedNode | Source) -> dg.AssetKey:
    return raw_key(of) if isinstance(of, Source) else feeds.keys[of.location]


def _texts(value: object) -> dict[str, str]:
    """The texts of a part of the cursor by table; none if it cannot be read."""
    return {str(name): str(text) for name, text in value.items()} if isinstance(value, dict) else {}
