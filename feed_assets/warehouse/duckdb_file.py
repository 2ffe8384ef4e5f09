"""A warehouse in a file of DuckDB. Not here: the common parts of all warehouses (`port`).

One process at a time can have the file open to write, and then no other process can read it. So each load and each
question opens it, waits for others, and closes it. Threads of one process share the database, readers included.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import duckdb

from feed_assets.engine.duckdb_sql import quoted_name
from feed_assets.file_feed.record import Column
from feed_assets.file_feed.wording import first_line
from feed_assets.warehouse.port import WAIT_SECONDS, Parameters, Warehouse, WarehouseError
from feed_assets.warehouse.rows import duckdb_type, query, unreadable

PAUSE = 0.05
QUESTION_SECONDS = 10
"""How long a question waits for another process: a sensor's tick may take 60 s in all."""

_WRITING: dict[Path, threading.Lock] = {}
"""A lock for each file: DuckDB refuses a second transaction that writes the same rows, instead of waiting."""


class DuckdbWarehouse(Warehouse):
    """A file of DuckDB."""

    kind = "duckdb"

    def __init__(self, path: Path) -> None:
        self.path, self.title = path, f"duckdb:///{path}"

    @contextmanager
    def open(self, *, writes: bool) -> Iterator[Any]:
        """See `Warehouse.open`. Waits for other processes; without a file, questions go to an empty database."""
        try:
            if writes:
                self.path.parent.mkdir(parents=True, exist_ok=True)
            there = writes or self.path.exists()
        except OSError as error:
            raise self._unusable(error) from None
        lock = _WRITING.setdefault(self.path, threading.Lock())
        if writes and not lock.acquire(timeout=WAIT_SECONDS):
            raise self._busy(f"a thread of this process has been loading for {WAIT_SECONDS} s")
        try:
            connection = self._connect(WAIT_SECONDS if writes else QUESTION_SECONDS) if there else duckdb.connect()
            with connection:
                connection.execute("SET TimeZone = 'UTC'")
                yield connection
        finally:
            if writes:
                lock.release()

    def _connect(self, wait: float) -> duckdb.DuckDBPyConnection:
        deadline = time.monotonic() + wait
        while True:
            try:
                return duckdb.connect(self.path)
            except duckdb.Error as error:
                if "Could not set lock" not in str(error):
                    raise self._unusable(error) from None
                if time.monotonic() > deadline:
                    raise self._busy(first_line(error)) from None
            time.sleep(PAUSE)

    def _unusable(self, error: Exception) -> WarehouseError:
        return WarehouseError(f"{self.title} cannot be opened: {first_line(error)}")

    def _busy(self, why: str) -> WarehouseError:
        return WarehouseError(
            f"{self.title} cannot be opened: {why}. Only one process at a time can use the file: "
            "end the other, or try again later.",
            transient=True,
        )

    def execute(self, connection: Any, statement: str, parameters: Parameters = ()) -> list[tuple[Any, ...]]:
        """See `Warehouse.execute`."""
        try:
            rows: list[tuple[Any, ...]] = connection.execute(statement, list(parameters)).fetchall()
        except duckdb.Error as error:
            raise WarehouseError(f"{self.title}: {first_line(error)}") from None
        return rows

    def lock(self, connection: Any, table: str, partition: str) -> None:
        """Nothing to do: `open` has the only lock."""

    def columns(self, connection: Any, table: str) -> Mapping[str, str]:
        """See `Warehouse.columns`."""
        here = "database_name = current_database() AND schema_name = current_schema()"
        listed = f"SELECT column_name, data_type FROM duckdb_columns() WHERE table_name = ? AND {here}"  # noqa: S608
        return dict(self.execute(connection, listed, (table,)))

    def insert(
        self, connection: Any, into: str, columns: Sequence[Column], files: Sequence[Path], added: Mapping[str, str]
    ) -> int:
        """DuckDB reads the files itself."""
        try:
            select = query(connection, files, columns, added)
        except duckdb.Error as error:
            raise WarehouseError(unreadable(error)) from None
        return int(self.execute(connection, f"INSERT INTO {into} {select}")[0][0]) if select else 0

    def type_of(self, spark: str) -> str | None:
        """See `Warehouse.type_of`."""
        return duckdb_type(spark)

    def quoted(self, name: str) -> str:
        """See `Warehouse.quoted`."""
        return quoted_name(name)
