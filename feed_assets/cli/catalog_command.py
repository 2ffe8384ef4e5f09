"""`feed-assets catalog reconcile`: compare the Data Catalog of AWS Glue with the storage, and repair it.

Here: the command. Not here: tables, and comparing (`feed_assets.data_catalog`). The sensor `data_catalog` describes by
itself what Dagster shows; this looks at the storage, also for what Dagster does not know.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from itertools import groupby
from typing import TYPE_CHECKING

import click

from feed_assets.cli.clock import now
from feed_assets.cli.installation import load_installation
from feed_assets.cli.output import complain, json_option, print_json, print_text, progress
from feed_assets.errors import FAILED
from feed_assets.file_feed.wording import counted

if TYPE_CHECKING:
    from feed_assets.data_catalog.reconciling import Drift

MOST_LINES = 10
"""More partitions of a table with the same problem share one line."""


@click.group()
def catalog() -> None:
    """Describe feeds and raw data in the database of AWS Glue that FEED_ASSETS_CATALOG names."""


@catalog.command("reconcile")
@click.option("--dry-run", is_flag=True, help="Only show what differs; the exit code is 1 if anything does.")
@json_option
@click.pass_context
def reconcile_command(ctx: click.Context, *, dry_run: bool, as_json: bool) -> None:
    """Make the tables describe what lies in the storage.

    Tables and partitions are created, replaced and deleted; no file is touched. If a table fails, the others go on, and
    the exit code is 1.
    """
    # Loaded late, as the help needs no Dagster.
    from feed_assets.data_catalog.glue import VARIABLE, CatalogError, open_catalog  # noqa: PLC0415 - as above
    from feed_assets.data_catalog.reconciling import reconcile, unknown_tables  # noqa: PLC0415 - as above
    from feed_assets.file_feed.errors import FeedError  # noqa: PLC0415 - as above
    from feed_assets.sensors.data_catalog import catalog_tables  # noqa: PLC0415 - as above

    installation = load_installation()
    if not (database := installation.settings.catalog):
        raise click.ClickException(f"There is no catalog: set {VARIABLE} to glue://database.")
    glue = open_catalog(database)
    tables = glue.tables()
    drift: list[Drift] = []
    failed = 0
    first_day = installation.settings.first_day
    wanted_tables = catalog_tables(installation.feeds, installation.sources, installation.blackboard, first_day, now())
    finders = {name: find for name, _, find in wanted_tables}
    with progress("catalog", len(finders)) as bar:
        for name, find in finders.items():
            bar.under_way(name)
            found: tuple[Drift, ...] = ()
            try:
                if (wanted := find()) is not None:
                    found = reconcile(glue, wanted, tables, repair=not dry_run).drift
            except (FeedError, CatalogError) as error:
                failed += 1
                complain(f"Error: {name}: {error}")
            drift += found
            bar(None if as_json else "\n".join(_lines(found)) or None)
    base = installation.blackboard.uri("x").removesuffix("/x")
    unknown = unknown_tables(tables, finders.keys(), base)
    if as_json:
        print_json({"repaired": not dry_run, "drift": list(map(asdict, drift)), "unknown_tables": unknown})
    else:
        found_there = counted(len(drift), "difference") if drift else "no difference"
        print_text(f"{glue.title}: {found_there}{', repaired' if drift and not dry_run else ''}.")
        for name in unknown:
            print_text(
                f"{name} belongs to this base, but to no feed or source of this project: delete it if it is over."
            )
    if failed or (dry_run and drift):
        ctx.exit(FAILED)


def _lines(found: Sequence[Drift]) -> Iterator[str]:
    """A line for each difference of a table, and one for many partitions with the same problem."""
    for (table, problem, partitioned), group in groupby(
        found, lambda each: (each.table, each.problem, bool(each.partition))
    ):
        alike = list(group)
        if len(alike) > MOST_LINES:
            first, last = alike[0].partition, alike[-1].partition
            yield f"{table} {first} ... {last}, {counted(len(alike), 'partition')}: {problem}; --json names each"
        else:
            yield from (f"{table} {each.partition if partitioned else '(table)'}: {problem}" for each in alike)
