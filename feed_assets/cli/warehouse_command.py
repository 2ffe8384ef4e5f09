"""`feed-assets warehouse`: load feeds into the warehouse, and show which days its tables have.

Here: the commands. Not here: loading (`feed_assets.warehouse`). The sensor `warehouse_loads` does the same by itself.
"""

from __future__ import annotations

import getpass
import platform
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict
from datetime import date, datetime
from typing import TYPE_CHECKING, Any

import click

from feed_assets.cli.clock import DayParameter, check_order, now
from feed_assets.cli.installation import Installation, chosen_module, load_installation
from feed_assets.cli.output import complain, json_option, print_json, print_table, print_text, progress, say
from feed_assets.datasets.days import is_day
from feed_assets.errors import FAILED
from feed_assets.file_feed.wording import counted

if TYPE_CHECKING:
    from feed_assets.datasets.declaration import FeedDeclaration
    from feed_assets.file_feed.feed import Feed
    from feed_assets.warehouse.loading import Standing
    from feed_assets.warehouse.port import Warehouse

NOTHING_THEN = "No feed with a table has a partition in this time."

_first = click.option("--from", "first", type=DayParameter(), metavar="DATE", help="Only from this day on.")
_last = click.option("--to", "last", type=DayParameter(), metavar="DATE", help="Only up to this day, included.")
_only = click.option("--feed", "names", metavar="NAME", multiple=True, help="Only this feed or table; repeatable.")


@click.group()
def warehouse() -> None:
    """Load feeds into the warehouse that FEED_ASSETS_WAREHOUSE names, and show what its tables have."""


@warehouse.command("load")
@_first
@_last
@_only
@json_option
@click.pass_context
def load_command(
    ctx: click.Context, first: date | None, last: date | None, names: Sequence[str], *, as_json: bool
) -> None:
    """Load each partition that is behind the update in force.

    With --from or --to, it also compares the rows of the other partitions with what was loaded. An update that is
    loaded already changes nothing. If a partition fails, the others go on, and the exit code is 1.
    """
    from feed_assets.file_feed.errors import FeedError  # noqa: PLC0415 - see `_tables`
    from feed_assets.warehouse.loading import load  # noqa: PLC0415 - as above
    from feed_assets.warehouse.port import WarehouseError  # noqa: PLC0415 - as above

    author = _author()
    results: list[dict[str, Any]] = []
    for place, declaration, feed, found in _tables(load_installation(), first, last, names):
        due = [each for each in found if each.state != "loaded" or first or last]
        with progress(declaration.table, len(due)) as bar:
            for each in due:
                bar.under_way(each.partition)
                result: dict[str, Any] = {"table": declaration.table, "partition": each.partition or None}
                try:
                    line, wrote = load(place, declaration, feed, each.partition or None, now=now, author=author)
                except (FeedError, WarehouseError) as error:
                    result |= {"state": "failed", "reason": str(error)}
                    complain(f"Error: {declaration.table} {each.partition}: {error}")
                    bar()
                else:
                    result |= {"state": "loaded" if wrote else "unchanged", "update": line.update, "rows": line.rows}
                    what = (
                        f"{counted(line.rows, 'row')} of {line.update}"
                        if line.update
                        else "no update is in force, no rows"
                    )
                    bar(None if as_json else f"{declaration.table} {each.partition}  {result['state']}  {what}")
                results.append(result)
    if as_json:
        print_json(results)
    elif not results and (first or last):
        say(NOTHING_THEN)
    elif not results:
        print_text(f"Every table{' that you name' * bool(names)} has the updates in force.")
    if failed := sum(each["state"] == "failed" for each in results):
        complain(f"{failed} of {counted(len(results), 'partition')} failed.")
        ctx.exit(FAILED)


@warehouse.command("status")
@_first
@_last
@_only
@json_option
def status_command(first: date | None, last: date | None, names: Sequence[str], *, as_json: bool) -> None:
    """Show each partition, and whether it is behind.

    The table names the update in force, and the update that is loaded.
    """
    rows: list[dict[str, Any]] = [
        {
            "table": declaration.table,
            "partition": each.partition or None,
            "state": each.state,
            "in_force": each.in_force,
            **({} if each.loaded is None else {**asdict(each.loaded), "partition": each.partition or None}),
        }
        for _, declaration, _, found in _tables(load_installation(), first, last, names)
        for each in found
    ]
    if as_json:
        print_json(rows)
        return
    for row in rows:
        if "committed" in row:
            row["committed"] = datetime.fromisoformat(row["committed"])  # shown as all times are
    shown = ("table", "partition", "state", "in_force", "update", "rows", "committed", "author")
    print_table(
        [name.replace("_", " ") for name in shown],
        [[row.get(name) for name in shown] for row in rows],
        empty=NOTHING_THEN if first or last else "No feed with a table has an update.",
        keep=("table", "partition", "state"),
    )


def _tables(
    installation: Installation, first: date | None, last: date | None, names: Sequence[str]
) -> Iterator[tuple[Warehouse, FeedDeclaration, Feed, list[Standing]]]:
    """The feeds that name a table, with their partitions in this time."""
    # Loaded late, as the help of the commands needs no Dagster.
    from feed_assets.warehouse.address import VARIABLE, open_warehouse  # noqa: PLC0415 - see above
    from feed_assets.warehouse.loading import standings  # noqa: PLC0415 - see above

    check_order(first, last)
    if not installation.settings.warehouse:
        raise click.ClickException(f"There is no warehouse: set {VARIABLE}, such as to duckdb:///warehouse.db.")
    place = open_warehouse(installation.settings.warehouse)
    known = {each.location: each.declaration for each in installation.feeds.feeds.values() if each.declaration.table}
    if not known:
        raise click.ClickException(
            f"No feed of {chosen_module()} has a table: name one with `feed_metadata(..., warehouse=...)`."
        )
    if unknown := set(names) - {*known, *(each.table for each in known.values())}:
        tables = ", ".join(f"{location} ({each.table})" for location, each in known.items()) or "none"
        raise click.BadParameter(f"{min(unknown)} has no table. Feeds with tables: {tables}.", param_hint="--feed")
    for location, declaration in known.items():
        if names and not {location, declaration.table} & set(names):
            continue
        feed = declaration.on(installation.blackboard)
        found = standings(place, declaration, feed, now=now())
        yield place, declaration, feed, [each for each in found if _is_inside(each.partition, first, last)]


def _is_inside(partition: str, first: date | None, last: date | None) -> bool:
    """Whether a partition begins in this time, by its name; a partition without a day does if no time is given."""
    day = partition[: len("2019-11-24")]
    return not (first or last) or (is_day(day) and str(first or day) <= day <= str(last or day))


def _author() -> str:
    with suppress(KeyError, OSError):  # a container may have no name for its user
        return f"{getpass.getuser()} on {platform.node()}"
    return platform.node()
