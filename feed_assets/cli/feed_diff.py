"""`feed-assets feed diff`: compare the rows of two updates of a partition.

Here: choosing the updates, and the output. Not here: comparing rows (`row_diff`).
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

import click

from feed_assets.blackboard.listing import list_all
from feed_assets.cli.clock import UpdateName, now
from feed_assets.cli.feed_place import feed_argument, partition_option
from feed_assets.cli.output import each_step, json_option, json_value, print_fields, print_json, print_table, progress
from feed_assets.cli.row_diff import ChangedRow, RowDiff, RowDiffError, UnknownColumnError, diff_rows
from feed_assets.engine.fetched_files import fetch_update, with_uris
from feed_assets.file_feed.errors import NoValidUpdateError
from feed_assets.file_feed.feed import Feed, File, Update
from feed_assets.file_feed.manifest import MANIFEST
from feed_assets.file_feed.names import SECOND
from feed_assets.file_feed.reading import EARLIEST, latest, read_manifest, require_latest
from feed_assets.file_feed.wording import counted


@click.command("diff")
@feed_argument
@partition_option
@click.option("--from", "before", metavar="NAME", type=UpdateName(), help="Default: the valid update before --to.")
@click.option("--to", "after", metavar="NAME", type=UpdateName(), help="Default: the latest update.")
@click.option("--key", metavar="COLUMN,...", default="", help="Columns that identify a row, to find changed rows.")
@click.option(
    "--limit", metavar="N", type=click.IntRange(0, 10**9), default=10, show_default=True, help="Rows to show."
)
@json_option
def diff(
    feed: Feed, *, partition: str | None, before: str | None, after: str | None, key: str, limit: int, as_json: bool
) -> None:
    """Compare the rows of two updates.

    Their files are Parquet, CSV or TSV with a header, or JSON; values of all but Parquet are compared as text. --from
    and --to also take updates that are not valid, such as a rejected one.
    """
    moment = now()
    new = update_named(feed, partition, after) if after else require_latest(feed, partition, now=moment)
    old = update_named(feed, partition, before) if before else _before(new, moment)
    columns = [name.strip() for name in key.split(",") if name.strip()]
    with tempfile.TemporaryDirectory(prefix="feed-diff-") as folder:
        spill = Path(folder) / "spill"
        with progress("fetching", len(old.files) + len(new.files)) as bar:
            show = each_step(bar)
            befores = fetch_update(old, Path(folder) / "before", starting=show)
            afters = fetch_update(new, Path(folder) / "after", starting=show)
            bar()
        try:
            found = diff_rows(list(befores), list(afters), key=columns, limit=limit, spill=spill)
        except UnknownColumnError as error:
            raise click.BadParameter(str(error), param_hint="--key") from error
        except RowDiffError as error:
            raise RowDiffError(with_uris(str(error), {**befores, **afters})) from error
    if as_json:
        print_json(_as_json(old, new, found))
    else:
        _print(old, new, found)


def _before(update: Update, moment: datetime) -> Update:
    """The latest valid update begun earlier. Raises NoValidUpdateError."""
    as_of = max(update.begun, EARLIEST + SECOND) - SECOND
    found = latest(update.feed, update.partition, now=moment, as_of=as_of)
    if found is None or found.name == update.name:
        raise NoValidUpdateError(
            f"{update.feed.title(update.partition)} has no valid update before {update.name} to compare it with. "
            "Name any update with --from."
        )
    return found


def update_named(feed: Feed, partition: str | None, name: str) -> Update:
    """An update by its name, whatever its state. Raises NoValidUpdateError if it does not exist."""
    prefix = feed.update_prefix(partition, name)
    files = tuple(
        File(path, entry.size, entry.tag)
        for entry in list_all(feed.blackboard, prefix)
        if (path := entry.key.removeprefix(prefix)) != MANIFEST and not path.endswith("/")
    )
    if not files and read_manifest(feed, partition, name) is None:
        raise NoValidUpdateError(
            f"{feed.title(partition)} has no update {name}: `feed-assets feed ls {feed.arguments()}` lists them."
        )
    return Update(feed, partition, name, files)


def _as_json(old: Update, new: Update, found: RowDiff) -> dict[str, Any]:
    return {
        "feed": new.feed.uri,
        "partition": new.partition,
        "from": old.name,
        "to": new.name,
        "rows": {"from": found.rows_before, "to": found.rows_after},
        "columns": {
            "added": found.columns_added,
            "removed": found.columns_removed,
            "retyped": {name: {"from": one, "to": other} for name, (one, other) in found.columns_retyped.items()},
        },
        "added": found.added,
        "removed": found.removed,
        "changed": found.changed,
        "first_added": found.first_added,
        "first_removed": found.first_removed,
        "first_changed": [_change(row) for row in found.first_changed],
    }


def _change(row: ChangedRow) -> dict[str, Any]:
    values = {name: {"from": one, "to": other} for name, (one, other) in row.values.items()}
    return {"key": row.key, "values": values}


def _print(old: Update, new: Update, found: RowDiff) -> None:
    retyped = (f"{name} {one} -> {other}" for name, (one, other) in found.columns_retyped.items())
    fields: list[tuple[str, object]] = [
        ("from", f"{old.uri}: {counted(found.rows_before, 'row')}"),
        ("to", f"{new.uri}: {counted(found.rows_after, 'row')}"),
        ("added", found.added),
        ("removed", found.removed),
        ("changed", found.changed if found.changed is not None else "- (give a --key)"),
        *_named_columns("columns added", found.columns_added),
        *_named_columns("columns removed", found.columns_removed),
        *_named_columns("columns retyped", retyped),
    ]
    print_fields(fields)
    _print_rows("removed", found.columns, found.first_removed)
    _print_rows("added", found.columns, found.first_added)
    if found.first_changed:
        click.echo("\nfirst changed")
        lines = [
            (json.dumps(json_value(row.key), ensure_ascii=False), name, _as_it_is(one), _as_it_is(other))
            for row in found.first_changed
            for name, (one, other) in row.values.items()
        ]
        print_table(("key", "column", "from", "to"), lines, empty="")


def _named_columns(title: str, names: Iterable[str]) -> list[tuple[str, object]]:
    text = ", ".join(names)
    return [(title, text)] if text else []


def _print_rows(title: str, columns: Sequence[str], rows: Sequence[Mapping[str, Any]]) -> None:
    if rows:
        click.echo(f"\nfirst {title}")
        numbers = [name for name in columns if all(isinstance(row[name], int | float | None) for row in rows)]
        print_table(columns, [[_as_it_is(row[name]) for name in columns] for row in rows], empty="", numbers=numbers)


def _as_it_is(value: object) -> str | None:
    """A value of the data as text: a number without separators, a time with its fraction of a second if it has one."""
    if value is None:
        return None
    return value.replace(tzinfo=None).isoformat(sep=" ") if isinstance(value, datetime) else str(value)
