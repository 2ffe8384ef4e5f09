"""The embedded store: one SQLite file on a local disk of one machine.

Here: the table, and its transactions. Not here: which version is newer; bytes compare as versions do.
"""

from __future__ import annotations

import sqlite3
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from feed_assets.delivery.errors import SpaceTakenError, StoreUnusableError
from feed_assets.delivery.stores.port import Change, Outcome, Value

WAIT_SECONDS: Final = 60.0
"""How long a transaction waits for those of other threads and processes."""
SCHEMA: Final = 1
SWEPT_AT_ONCE: Final = 10_000
"""Rows that one transaction of a sweep deletes: writers wait for it."""

_TABLES: Final = (
    "CREATE TABLE owners (space TEXT PRIMARY KEY, owner TEXT NOT NULL)",
    # A tombstone has no value. `ended` is set for tombstones, and for values that end: the time from which their age
    # counts, which is the end, or the arrival if that is later.
    """CREATE TABLE entries (
        space TEXT NOT NULL, key TEXT NOT NULL, version BLOB NOT NULL, value BLOB, expires REAL, ended REAL,
        PRIMARY KEY (space, key)
    )""",
    "CREATE INDEX ended ON entries (ended) WHERE ended IS NOT NULL",
    f"PRAGMA user_version = {SCHEMA}",
)
_PUT: Final = """
    INSERT INTO entries VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT (space, key) DO UPDATE
    SET version = excluded.version, value = excluded.value, expires = excluded.expires, ended = excluded.ended
"""
_SWEEP: Final = f"""
    DELETE FROM entries WHERE rowid IN (SELECT rowid FROM entries WHERE ended < ? LIMIT {SWEPT_AT_ONCE})
"""  # noqa: S608 - a number of this module


class SqliteStore:
    """A store in an SQLite file with a write-ahead log; threads and processes of one machine may share it.

    The first use creates the file. Each `apply` is one transaction: all of its changes are on the disk when it returns,
    and none of them if the process is killed before. Raises StoreUnusableError, as its methods do.
    """

    def __init__(self, file: Path) -> None:
        self._file = file
        # Lookups do not wait for the disk, as writers do.
        self._writing, self._reading = threading.Lock(), threading.Lock()
        with self._explained():
            self._writer = self._connect()
            self._reader = self._connect()

    @property
    def title(self) -> str:
        """See `Store.title`."""
        return f"sqlite:///{self._file}"

    def claim(self, space: str, owner: str) -> None:
        """See `Store.claim`."""
        with self._transaction() as connection:
            connection.execute("INSERT INTO owners VALUES (?, ?) ON CONFLICT DO NOTHING", (space, owner))
            ((found,),) = connection.execute("SELECT owner FROM owners WHERE space = ?", (space,))
        if found != owner:
            raise SpaceTakenError.of(self.title, space, found)

    def apply(self, space: str, changes: Sequence[Change]) -> Sequence[Outcome]:
        """See `Store.apply`."""
        now = time.time()
        newest: dict[str, bytes] = {}
        rows: dict[str, tuple[object, ...]] = {}
        outcomes: list[Outcome] = []
        with self._transaction() as connection:
            for key, version, value, expires in changes:
                if key not in newest:
                    select = "SELECT version FROM entries WHERE space = ? AND key = ?"
                    (newest[key],) = connection.execute(select, (space, key)).fetchone() or (b"",)
                if newest[key] < version:
                    newest[key] = version
                    rows[key] = (space, key, version, value, expires, _ended(value, expires, now))
                outcomes.append("applied" if newest[key] == version else "superseded")
            connection.executemany(_PUT, rows.values())
        return outcomes

    def get_many(self, space: str, keys: Sequence[str], *, now: float) -> Mapping[str, Value]:
        """See `Store.get_many`."""
        select = (
            "SELECT value, version FROM entries WHERE space = ? AND key = ? "
            "AND value IS NOT NULL AND (expires IS NULL OR expires >= ?)"
        )
        with self._explained(), self._reading:
            found = ((key, self._reader.execute(select, (space, key, now)).fetchone()) for key in keys)
            return {key: Value(*row) for key, row in found if row}

    def sweep(self, *, before: float) -> int:
        """See `Store.sweep`. The age of a tombstone counts from its arrival."""
        swept = 0
        while True:
            with self._transaction() as connection:
                deleted = connection.execute(_SWEEP, (before,)).rowcount
            swept += deleted
            if deleted < SWEPT_AT_ONCE:
                return swept

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with self._writing, self._reading:
            self._writer.close()
            self._reader.close()

    @contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        with self._explained(), self._writing, _transaction_of(self._writer):
            yield self._writer

    def _connect(self) -> sqlite3.Connection:
        # With None, the driver begins no transactions.
        connection = sqlite3.connect(
            self._file, timeout=WAIT_SECONDS, isolation_level=None, check_same_thread=False, cached_statements=16
        )
        try:
            _use_log(connection)
            # A consumer moves its checkpoint when `apply` has returned: a power cut must lose nothing then.
            connection.execute("PRAGMA synchronous = FULL")
            self._make_tables(connection)
        except BaseException:
            connection.close()
            raise
        return connection

    def _make_tables(self, connection: sqlite3.Connection) -> None:
        with _transaction_of(connection):
            ((schema,),) = connection.execute("PRAGMA user_version")
            ((tables,),) = connection.execute("SELECT count(*) FROM sqlite_schema")
            if schema == 0 and tables == 0:
                for statement in _TABLES:
                    connection.execute(statement)
            elif schema != SCHEMA:
                raise StoreUnusableError(
                    f"{self.title} is no store of this feed_assets (schema {schema}, expected {SCHEMA}): update "
                    "feed_assets, or name another file."
                )

    @contextmanager
    def _explained(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.Error as error:
            raise StoreUnusableError(f"{self.title}: {str(error).rstrip('.')}. {_advice(error)}") from error


@contextmanager
def _transaction_of(connection: sqlite3.Connection) -> Iterator[None]:
    # Immediate: a transaction that reads first could not become a writer after another one has written.
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


def _ended(value: bytes | None, expires: float | None, now: float) -> float | None:
    if value is None:
        return now
    return None if expires is None else max(expires, now)


def _use_log(connection: sqlite3.Connection) -> None:
    """Let readers and a writer not wait for each other. SQLite itself waits for no other process here."""
    deadline = time.monotonic() + WAIT_SECONDS
    while True:
        try:
            connection.execute("PRAGMA journal_mode = WAL")
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode != sqlite3.SQLITE_BUSY or time.monotonic() > deadline:
                raise
            time.sleep(0.02)
        else:
            return


def _advice(error: sqlite3.Error) -> str:
    # Errors of the driver itself have no code. The lower byte is the kind.
    match getattr(error, "sqlite_errorcode", 0) & 0xFF:
        case sqlite3.SQLITE_FULL:
            return "Free space on the disk; nothing of this call is in the store."
        case sqlite3.SQLITE_CANTOPEN | sqlite3.SQLITE_READONLY | sqlite3.SQLITE_PERM:
            return "Check that the directory exists, and that this user may write to it and to the file."
        case sqlite3.SQLITE_NOTADB | sqlite3.SQLITE_CORRUPT:
            return "Name another file, or move this one away and deliver again with `feed-assets deliver replay`."
        case sqlite3.SQLITE_BUSY:
            return f"Another process held the file for {WAIT_SECONDS:.0f} s: end it, or use Redis for many writers."
        case 0:
            return "It is used after its block, or with a value that SQLite cannot hold: a bug of the program."
        case _:
            return "Check the disk and the file."
