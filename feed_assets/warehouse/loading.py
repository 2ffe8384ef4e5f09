"""Loading the update in force of a partition into a warehouse, and comparing both.

Here: which update, when it may replace another, and what is logged. Not here: SQL and drivers (`port`).

A load first locks the partition of its table, then resolves the update in force, and replaces the rows in the same
transaction. Right before the commit it looks once more whether the update is in force. So of two loads, the second one
resolves after the first one has committed, and a table never goes back, unless the feed did: by an invalidation. If
the feed changes between the last look and the commit, the next load finds the log behind the feed.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Literal

from feed_assets.blackboard.port import NotFoundError
from feed_assets.datasets.declaration import FeedDeclaration
from feed_assets.engine.csv_dialect import MalformedCsvError
from feed_assets.engine.duckdb_sql import UnknownFormatError
from feed_assets.engine.fetched_files import fetch, with_uris
from feed_assets.file_feed.control import read_record
from feed_assets.file_feed.digest import short_digest
from feed_assets.file_feed.errors import UpdateChangedError
from feed_assets.file_feed.feed import Feed, Update
from feed_assets.file_feed.reading import ATTEMPTS, is_latest, is_valid, latest, require_latest, updates_from
from feed_assets.file_feed.scanning import latest_of_all
from feed_assets.warehouse.port import Loaded, Table, Transaction, Warehouse, WarehouseError

BATCH_BYTES = 256 * 2**20
"""Bytes of files that a load fetches from a bucket at a time; more only if a single file is larger."""

State = Literal["loaded", "behind", "not loaded", "to be removed"]


@dataclass(frozen=True, slots=True)
class Standing:
    """A partition in a feed and in its table: the update in force, and the last load; each may be None."""

    partition: str
    in_force: str | None
    loaded: Loaded | None

    @property
    def state(self) -> State:
        """Whether the table has the update in force."""
        there = self.loaded.update if self.loaded else None
        if there == self.in_force:
            return "loaded"
        if self.in_force is None:
            return "to be removed"
        return "behind" if there else "not loaded"


class _MovedError(Exception):
    """The update was not in force any more when its rows were in."""


def load(
    warehouse: Warehouse,
    declaration: FeedDeclaration,
    feed: Feed,
    partition: str | None,
    *,
    now: Callable[[], datetime],
    author: str,
) -> tuple[Loaded, bool]:
    """Replace the rows of a partition in its table by the rows of the update in force, in one transaction.

    Returns the last line of the log, and whether this load wrote it. If the update is loaded already, and all its rows
    are there, nothing changes. If no update is in force any more, the partition's rows are deleted.

    Raises NoValidUpdateError if nothing is in force and nothing was loaded; UpdateChangedError if the feed changed in
    each attempt; WarehouseError, also if the table is another feed's, or has a newer update that is still valid, or if
    nothing at all is left of the feed.
    """
    table = Table(declaration.table, declaration.columns)
    for _ in range(ATTEMPTS):
        try:
            with warehouse.loading(table, partition or "") as transaction:
                return _replace(transaction, feed, partition, now=now, author=author)
        except (NotFoundError, _MovedError):
            continue
    raise UpdateChangedError(
        f"{feed.title(partition)} changed during each of {ATTEMPTS} loads. Nothing was loaded: try again."
    )


def standings(warehouse: Warehouse, declaration: FeedDeclaration, feed: Feed, *, now: datetime) -> list[Standing]:
    """Every partition that is in force or was loaded: one query, and the LISTs of `latest_of_all`."""
    loaded = warehouse.last_loads(declaration.table)
    in_force = {partition or "": update.name for partition, update in latest_of_all(feed, now=now).items()}
    return [Standing(each, in_force.get(each), loaded.get(each)) for each in sorted({*loaded, *in_force})]


def difference(warehouse: Warehouse, declaration: FeedDeclaration, feed: Feed, partition: str | None) -> str:
    """How the rows of a partition differ from the update that the log names and from its record; "" if they do not."""
    loaded = warehouse.last_loads(declaration.table).get(partition or "")
    found = warehouse.count(declaration.table, partition or "")
    if loaded is None:
        return "it was never loaded"
    record = read_record(feed, partition, loaded.update) if loaded.update else None
    rows = record.facts.rows.published if record and record.facts.rows else loaded.rows
    expected = _rows(replace(loaded, rows=rows))
    if found == expected:
        return ""
    return f"it has {_counted(found)}, and should have {_counted(expected)}"


def _replace(
    transaction: Transaction, feed: Feed, partition: str | None, *, now: Callable[[], datetime], author: str
) -> tuple[Loaded, bool]:
    _require_own(transaction, feed)
    begun, last = now(), transaction.last()
    update = latest(feed, partition, now=begun)
    if update is None and last is None:
        require_latest(feed, partition, now=begun)
    if update is None and last and last.update and not feed.blackboard.page(feed.root).entries:
        raise WarehouseError(
            f"{feed.uri} is empty: its disk is not mounted, or the feed was deleted. The rows of "
            f"{transaction.table.name} stay. If they are to go, too, drop the table."
        )
    name, digest = (update.name, _digest(update)) if update else (None, "")
    if last and (last.update, last.digest) == (name, digest) and transaction.count() == _rows(last):
        return last, False
    if last and last.update and (name or "") < last.update and _is_valid(feed, partition, last.update):
        raise WarehouseError(
            f"{transaction.table.name} has the update {last.update} of {feed.title(partition)}, which is in force. It "
            f"is not replaced by {name or 'nothing'}: the listing of the storage is older. Try again later."
        )
    if last:  # a search for rows that cannot be there would read the whole table
        transaction.delete()
    rows = sum(_insert(transaction, uris, update.name) for uris in _fetched(update)) if update else 0
    if not (is_latest(update) if update else latest(feed, partition, now=now()) is None):
        raise _MovedError
    number = last.number + 1 if last else 1
    times = begun.isoformat(), now().isoformat()
    loaded = Loaded(partition or "", number, feed.uri, name, rows, digest, *times, author)
    transaction.log(loaded)
    return loaded, True


def _insert(transaction: Transaction, uris: dict[Path, str], update: str) -> int:
    """Insert the rows of fetched files; returns their number. Raises WarehouseError with the URIs of the files."""
    try:
        return transaction.insert(list(uris), update)
    except (UnknownFormatError, MalformedCsvError) as error:
        raise WarehouseError(f"{with_uris(str(error), uris)} Nothing was loaded.") from None
    except WarehouseError as error:
        error.args = (with_uris(str(error), uris),)
        raise


def _require_own(transaction: Transaction, feed: Feed) -> None:
    """Raise WarehouseError if the table has rows of another feed, or rows that the log does not know."""
    feeds = transaction.feeds()
    if feeds - {feed.uri} or not (feeds or transaction.is_empty()):
        whose = f"of {', '.join(sorted(feeds))}, and not of {feed.uri}" if feeds else "that no load has logged"
        raise WarehouseError(
            f"The table {transaction.table.name} in {transaction.warehouse.title} has rows {whose}. Name another table "
            f"or warehouse. If the feed has moved, drop the table."
        )


def _is_valid(feed: Feed, partition: str | None, name: str) -> bool:
    found = updates_from(feed, partition, start=name, newest=name)
    return name in found and is_valid(feed, found[name])


def _fetched(update: Update) -> Iterator[dict[Path, str]]:
    """The files of an update on this machine with their URIs, some at a time; those of a disk are linked."""
    batches: list[dict[str, str | None]] = [{}]
    size = 0
    for file in update.files:
        if batches[-1] and size + file.size > BATCH_BYTES:
            batches.append({})
            size = 0
        batches[-1][update.key(file.path)] = file.tag
        size += file.size
    for tags in filter(None, batches):
        with TemporaryDirectory(prefix="warehouse-") as folder:
            yield fetch(update.feed.blackboard, tags, Path(folder) / "files")


def _digest(update: Update) -> str:
    """16 hex digits that identify the files of an update."""
    files = sorted((file.path, file.size, file.tag) for file in update.files)
    return short_digest(json.dumps(files))


def _rows(loaded: Loaded) -> dict[str, int]:
    """The number of rows by update that a partition has after this load."""
    return {loaded.update: loaded.rows} if loaded.update and loaded.rows else {}


def _counted(rows: dict[str, int]) -> str:
    return ", ".join(f"{count} rows of {update}" for update, count in sorted(rows.items())) or "no rows"
