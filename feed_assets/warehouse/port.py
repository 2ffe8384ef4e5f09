"""The port of a warehouse: transactions that replace the rows of a partition, and the log of all loads.

Here: the SQL that all warehouses share, and the schema of the tables. Not here: the SQL in which they differ, and their
drivers (`duckdb_file`, `postgresql`, `snowflake`); the choice of an update (`loading`).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import astuple, dataclass
from pathlib import Path
from typing import Any

from feed_assets.engine.duckdb_sql import literal
from feed_assets.errors import FeedAssetsError
from feed_assets.file_feed.record import Column

PARTITION, UPDATE = "_partition", "_update"
"""The columns of every row besides the feed's columns."""

LOG = "feed_assets_loads"
_NAMES = (
    *("table_name", "partition_name", "number", "feed", "update_name", "row_count"),
    *("digest", "begun", "committed", "loaded_by"),
)
LOG_COLUMNS = tuple(Column(name, "bigint" if name in {"number", "row_count"} else "string") for name in _NAMES)
_LINE = ", ".join(_NAMES[1:])
WAIT_SECONDS = 60
"""How long a load waits for another load of the same partition, or for a lock on the database."""

Parameters = Sequence[str | int | None]


class WarehouseError(FeedAssetsError):
    """A warehouse cannot do what was requested; the message says what, where and what to do, and shows no secret.

    If `transient`, the same request can succeed later without anybody's help.
    """

    def __init__(self, message: str, *, transient: bool = False) -> None:
        super().__init__(message)
        self.transient = transient


class SchemaMismatchError(WarehouseError):
    """The columns of a table differ from its feed's, or this warehouse cannot keep them."""


@dataclass(frozen=True, slots=True)
class Table:
    """A table, and the declared columns of the feed that is loaded into it."""

    name: str
    columns: tuple[Column, ...]


@dataclass(frozen=True, slots=True)
class Loaded:
    """A line of the log: the update whose rows a partition has since then; None if its rows were deleted.

    `partition` is "" for a feed without partitions. `number` counts the loads of the partition. `digest` identifies the
    files of the update. Times are in ISO 8601; `committed` is right before the commit.
    """

    partition: str
    number: int
    feed: str
    update: str | None
    rows: int
    digest: str
    begun: str
    committed: str
    author: str


class Warehouse(ABC):
    """A database with a table for each loaded feed. `title` names it without secrets; `kind` is what it is."""

    kind: str
    title: str

    # --- what differs --------------------------------------------------------------------------------------------

    @abstractmethod
    def open(self, *, writes: bool) -> AbstractContextManager[Any]:
        """A connection in which each statement commits, unless it follows BEGIN. Raises WarehouseError."""

    @abstractmethod
    def execute(self, connection: Any, statement: str, parameters: Parameters = ()) -> list[tuple[Any, ...]]:
        """The rows of a statement; each parameter is a `?` there. Raises WarehouseError."""

    @abstractmethod
    def lock(self, connection: Any, table: str, partition: str) -> None:
        """Let no other transaction have this lock, until the transaction ends. Raises WarehouseError after a wait."""

    @abstractmethod
    def columns(self, connection: Any, table: str) -> Mapping[str, str]:
        """The columns of a table, and their types in the words of `type_of`; none without a table."""

    @abstractmethod
    def insert(
        self, connection: Any, into: str, columns: Sequence[Column], files: Sequence[Path], added: Mapping[str, str]
    ) -> int:
        """Insert the rows of these files `into` a table: the columns of the feed, and the values `added` to each row.

        Returns the number of rows.
        """

    @abstractmethod
    def type_of(self, spark: str) -> str | None:
        """The type of a column that keeps this type of Spark without loss; None if there is no such type."""

    @abstractmethod
    def quoted(self, name: str) -> str:
        """The name of a table or a column in SQL. Raises SchemaMismatchError if the database cannot have it."""

    def after_creation(self, table: str) -> Sequence[str]:  # noqa: ARG002 - for warehouses that have some
        """Statements that follow the creation of a table."""
        return ()

    # --- what is the same ----------------------------------------------------------------------------------------

    @contextmanager
    def loading(self, table: Table, partition: str) -> Iterator[Transaction]:
        """A transaction on a partition that no other load has. The table is there, with the columns of the feed."""
        with self.open(writes=True) as connection:
            self.prepare(connection, table)
            with self._transaction(connection):
                self.lock(connection, table.name, partition)
                yield Transaction(self, connection, table, partition)

    def last_loads(self, table: str) -> dict[str, Loaded]:
        """The last load of each partition of a table; none if there is no such table."""
        newest = "row_number() OVER (PARTITION BY partition_name ORDER BY number DESC) AS place"
        lines = f"SELECT {_LINE}, {newest} FROM {LOG} WHERE table_name = ?"  # noqa: S608 - constants
        with self.open(writes=False) as connection:
            if not self.columns(connection, table) or not self.columns(connection, LOG):
                return {}
            found = self.execute(connection, f"SELECT {_LINE} FROM ({lines}) AS ranked WHERE place = 1", (table,))  # noqa: S608
        return {row[0]: Loaded(*row) for row in found}

    def count(self, table: str, partition: str) -> dict[str, int]:
        """The number of rows that a partition has in a table, by the update that they are of."""
        with self.open(writes=False) as connection:
            return self.count_in(connection, table, partition) if self.columns(connection, table) else {}

    def count_in(self, connection: Any, table: str, partition: str) -> dict[str, int]:
        """As `count`, in this connection."""
        update, of = self.quoted(UPDATE), self.quoted(PARTITION)
        counts = f"SELECT {update}, count(*) FROM {self.quoted(table)} WHERE {of} = ? GROUP BY {update}"  # noqa: S608 - quoted
        return dict(self.execute(connection, counts, (partition,)))

    @contextmanager
    def _transaction(self, connection: Any) -> Iterator[None]:
        self.execute(connection, "BEGIN")
        try:
            yield
            self.execute(connection, "COMMIT")
        except BaseException:
            with suppress(WarehouseError):  # a connection that is lost has nothing to roll back
                self.execute(connection, "ROLLBACK")
            raise

    def prepare(self, connection: Any, table: Table) -> None:
        """Create the log and the table, or add the columns that the feed has got since. Raises SchemaMismatchError.

        A new table has no lines in the log.
        """
        if self.definitions(connection, table):
            with self._transaction(connection):
                self.lock(connection, LOG, "")
                for statement in self.definitions(connection, table):
                    self.execute(connection, statement)

    def definitions(self, connection: Any, table: Table) -> list[str]:
        """The statements that `prepare` executes. Raises SchemaMismatchError."""
        columns = (*table.columns, Column(PARTITION, "string"), Column(UPDATE, "string"))
        defined = self._definitions(LOG, LOG_COLUMNS, self.columns(connection, LOG))
        found = self.columns(connection, table.name)
        if not found:
            # The lines of a table that was dropped would say that the new one has its rows.
            defined.append(f"DELETE FROM {LOG} WHERE table_name = {literal(table.name)}")  # noqa: S608 - quoted
        return [*defined, *self._definitions(table.name, columns, found)]

    def _definitions(self, table: str, columns: Sequence[Column], found: Mapping[str, str]) -> list[str]:
        """The DDL that creates the table, or adds the columns that are missing in `found`."""
        wanted = self._wanted(table, columns)
        defined = {name: f"{self.quoted(name)} {type_}" for name, type_ in wanted.items()}
        if not found:
            create = f"CREATE TABLE IF NOT EXISTS {self.quoted(table)} ({', '.join(defined.values())})"
            return [create, *self.after_creation(table)]
        self._check(table, found, wanted)
        add = f"ALTER TABLE {self.quoted(table)} ADD COLUMN IF NOT EXISTS"
        return [f"{add} {definition}" for name, definition in defined.items() if name not in found]

    def _wanted(self, table: str, columns: Sequence[Column]) -> dict[str, str]:
        """The columns of a table, by the names that `columns` gives, and their types. Raises SchemaMismatchError."""
        wanted: dict[str, str] = {}
        for column in columns:
            name, type_ = self.quoted(column.name)[1:-1].replace('""', '"'), self.type_of(column.type)
            if type_ is None or any(name.lower() == each.lower() for each in wanted):
                why = "is there twice" if type_ else f"is {column.type}, for which {self.kind} has no type without loss"
                raise SchemaMismatchError(
                    f"The column {column.name} of the table {table} {why}. Rename or convert it in the feed, under a "
                    f"new version. {PARTITION} and {UPDATE} are added to each table."
                )
            wanted[name] = type_
        return wanted

    def _check(self, table: str, found: Mapping[str, str], wanted: Mapping[str, str]) -> None:
        faults = [
            f"{name} is {type_} there, and {wanted.get(name, 'no column')} in the feed"
            for name, type_ in found.items()
            if wanted.get(name) != type_
        ]
        if faults:
            raise SchemaMismatchError(
                f"The table {table} in {self.title} does not fit its feed: {'; '.join(faults)}. Name another table for "
                "the new version of the feed (`warehouse=` of `feed_metadata`); or alter or drop the table: "
                "`feed-assets warehouse load` fills a new one."
            )


@dataclass(frozen=True, slots=True)
class Transaction:
    """A load under way; nothing of it can be seen before it is committed."""

    warehouse: Warehouse
    connection: Any
    table: Table
    partition: str

    def last(self) -> Loaded | None:
        """The last load of the partition."""
        of = f"FROM {LOG} WHERE table_name = ? AND partition_name = ?"
        last = f"SELECT {_LINE} {of} ORDER BY number DESC LIMIT 1"
        found = self.warehouse.execute(self.connection, last, (self.table.name, self.partition))
        return Loaded(*found[0]) if found else None

    def feeds(self) -> set[str]:
        """The feeds that were loaded into the table."""
        feeds = f"SELECT DISTINCT feed FROM {LOG} WHERE table_name = ?"  # noqa: S608 - constants
        return {str(feed) for (feed,) in self.warehouse.execute(self.connection, feeds, (self.table.name,))}

    def is_empty(self) -> bool:
        """Whether the table has no row."""
        any_row = f"SELECT 1 FROM {self.warehouse.quoted(self.table.name)} LIMIT 1"  # noqa: S608 - a quoted name
        return not self.warehouse.execute(self.connection, any_row)

    def count(self) -> dict[str, int]:
        """The rows of the partition, by their update."""
        return self.warehouse.count_in(self.connection, self.table.name, self.partition)

    def delete(self) -> None:
        """Delete the rows of the partition."""
        quoted = self.warehouse.quoted
        delete = f"DELETE FROM {quoted(self.table.name)} WHERE {quoted(PARTITION)} = ?"  # noqa: S608 - quoted names
        self.warehouse.execute(self.connection, delete, (self.partition,))

    def insert(self, files: Sequence[Path], update: str) -> int:
        """Insert the rows of files of this update; returns their number."""
        added = {PARTITION: self.partition, UPDATE: update}
        quoted = self.warehouse.quoted
        names = ", ".join(quoted(name) for name in (*(column.name for column in self.table.columns), *added))
        into = f"{quoted(self.table.name)} ({names})"
        return self.warehouse.insert(self.connection, into, self.table.columns, files, added)

    def log(self, loaded: Loaded) -> None:
        """Add a line to the log."""
        places = ", ".join("?" * len(LOG_COLUMNS))
        insert = f"INSERT INTO {LOG} VALUES ({places})"  # noqa: S608 - constants
        self.warehouse.execute(self.connection, insert, (self.table.name, *astuple(loaded)))
