"""A warehouse in PostgreSQL, filled by COPY. Not here: the common parts of all warehouses (`port`)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg

from feed_assets.engine.duckdb_sql import quoted_name
from feed_assets.file_feed.record import Column
from feed_assets.warehouse.port import (
    LOG,
    PARTITION,
    WAIT_SECONDS,
    Parameters,
    SchemaMismatchError,
    Warehouse,
    WarehouseError,
)
from feed_assets.warehouse.rows import mapped, query, reading, send_csv

LONGEST_NAME = 63
"""Bytes of a name; PostgreSQL cuts longer names without an error."""

TYPES = {
    "boolean": "boolean",
    "tinyint": "smallint",
    "smallint": "smallint",
    "int": "integer",
    "bigint": "bigint",
    "float": "real",
    "double": "double precision",
    "string": "text",
    "binary": "bytea",
    "date": "date",
    "timestamp": "timestamp with time zone",
    "timestamp_ntz": "timestamp without time zone",
}


class PostgresqlWarehouse(Warehouse):
    """A database of PostgreSQL; tables are in the first schema of the user's search path."""

    kind = "postgresql"

    def __init__(self, url: str, title: str) -> None:
        self._url, self.title = url, title

    @contextmanager
    def open(self, *, writes: bool) -> Iterator[Any]:
        """See `Warehouse.open`."""
        with self._explained():
            # COPY sends the bytes that DuckDB writes, which are UTF-8 in a database of any encoding.
            named = {"application_name": "feed_assets", "connect_timeout": 10, "client_encoding": "utf8"}
            try:
                connection = psycopg.connect(self._url, autocommit=True, **named)  # type: ignore[arg-type] # numbers, too
            except psycopg.ProgrammingError:  # it shows a part of the URL
                text = "PostgreSQL cannot read the URL in FEED_ASSETS_WAREHOUSE: check its options"
                raise WarehouseError(f"{self.title}: {text}.") from None
        with connection:
            if writes:
                self.execute(connection, f"SET lock_timeout = '{WAIT_SECONDS}s'")
                # A load that has waited for another one must see what that one committed.
                self.execute(connection, "SET default_transaction_isolation = 'read committed'")
            yield connection

    def execute(self, connection: Any, statement: str, parameters: Parameters = ()) -> list[tuple[Any, ...]]:
        """See `Warehouse.execute`."""
        with self._explained():
            text = statement.replace("?", "%s") if parameters else statement
            cursor = connection.execute(text.encode(), parameters or None)
            return cursor.fetchall() if cursor.description else []

    def lock(self, connection: Any, table: str, partition: str) -> None:
        """See `Warehouse.lock`. The server drops the lock when the connection ends, also if the process was killed."""
        of = "current_schema() || '.' || ? || '.' || ?"
        self.execute(connection, f"SELECT pg_advisory_xact_lock(hashtextextended({of}, 0))", (table, partition))

    def columns(self, connection: Any, table: str) -> Mapping[str, str]:
        """See `Warehouse.columns`."""
        columns = "SELECT attname, format_type(atttypid, atttypmod) FROM pg_attribute"
        there = "attrelid = to_regclass(?) AND attnum > 0 AND NOT attisdropped"
        return dict(self.execute(connection, f"{columns} WHERE {there}", (self.quoted(table),)))

    def insert(
        self, connection: Any, into: str, columns: Sequence[Column], files: Sequence[Path], added: Mapping[str, str]
    ) -> int:
        """The rows go from DuckDB to the server as CSV, piece by piece."""
        with reading() as database, self._explained(), connection.cursor() as cursor:
            select = query(database, files, columns, added, render=_rendered)
            if select is None:
                return 0
            with cursor.copy(f"COPY {into} FROM STDIN (FORMAT csv)".encode()) as copy:
                sent = send_csv(database, select, copy.write)
            if cursor.rowcount != sent:
                # Servers before PostgreSQL 18 take a line `\\.` inside a text for the end.
                raise WarehouseError(f"{self.title} took {cursor.rowcount} of {sent} rows. Nothing was loaded.")
            return sent

    def type_of(self, spark: str) -> str | None:
        """See `Warehouse.type_of`."""
        return mapped(spark, TYPES, nested="jsonb", decimal="numeric")

    def quoted(self, name: str) -> str:
        """See `Warehouse.quoted`."""
        if len(name.encode()) > LONGEST_NAME:
            raise SchemaMismatchError(
                f"PostgreSQL cannot have the name {name}: it has {len(name.encode())} bytes, and {LONGEST_NAME} are "
                "allowed. Rename the column in the feed, under a new version."
            )
        return quoted_name(name)

    def after_creation(self, table: str) -> Sequence[str]:
        """An index that finds a partition. For rows a BRIN: it has a line for 128 pages, and costs a load nothing."""
        of = "(table_name, partition_name)" if table == LOG else f"USING brin ({PARTITION}) WITH (autosummarize = on)"
        return [f"CREATE INDEX ON {self.quoted(table)} {of}"]

    @contextmanager
    def _explained(self) -> Iterator[None]:
        try:
            yield
        except psycopg.Error as error:
            # Without the cause: its trace may show the URL.
            # A limit of the server, such as the size of a row, stays: its codes begin with 54.
            transient = isinstance(error, psycopg.OperationalError) and not (error.sqlstate or "").startswith("54")
            text = " ".join(str(error).split()).rstrip(".")
            advice = "Check FEED_ASSETS_WAREHOUSE and the server, and try again" if transient else "Nothing was loaded"
            raise WarehouseError(f"{self.title}: {text}. {advice}.", transient=transient) from None


def _rendered(expression: str, type_: str) -> str:
    """PostgreSQL reads binary values as hexadecimal text."""
    return rf"'\x' || hex({expression})" if type_ == "BLOB" else expression
