"""The database: concurrent reads, one writer of each log at a time.

Here: connections, locks and transactions. Not here: the schema (`schema`), the logs (`event_log`), and any fact (the
`tables` of the room that owns its meaning). A store keeps its connections. It opens a file anew that was deleted or
replaced, and a forked process opens its own. Every transaction first looks whether the schema is the newest.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from weakref import WeakSet, finalize

from sqlalchemy import NullPool, QueuePool, create_engine, event, text
from sqlalchemy.engine import Connection, Engine
from sqlalchemy.exc import DisconnectionError
from sqlalchemy.pool import Pool

from feed_assets.state.address import VARIABLE, StoreError, explained, on_local_disk, shown, state_url
from feed_assets.state.event_log import MAIN, Event, NewEvent, append_many, lock_log, read_events
from feed_assets.state.schema import VERSION_TABLE, UnknownSchemaError, is_newest, migrate

WAIT_SECONDS = 30
"""How long a transaction waits for another transaction."""
KEPT_SECONDS = 600
"""How long an idle connection to a server is used again."""

_engines: WeakSet[Engine] = WeakSet()
_inherited: list[Pool] = []
"""Connections of the process that forked this one: closing them here would end them there."""


@dataclass(frozen=True, slots=True)
class Transaction:
    """The only writing transaction of its log at this time; it commits all its changes or none."""

    connection: Connection
    log: str = MAIN

    def append(self, kind: str, at: datetime, details: Mapping[str, Any]) -> int:
        """Append an event to the log and return its number. See `append_many`."""
        return self.append_many([NewEvent(kind, at, details)])[0]

    def append_many(self, events: Sequence[NewEvent]) -> range:
        """Append events to the log, in order, and return their numbers. The cost of each is small beside the first's.

        Deletes events that are older than EVENTS_KEPT when the newest of these happens.
        """
        return append_many(self.connection, self.log, events)


class Store:
    """The facts and events at `sqlite:////directory/state.db` or `postgresql://user:password@host/database`.

    Any number of threads and processes may use it. The first write creates an SQLite file. All methods raise
    StoreError, and so does the constructor for a URL that cannot be used.
    """

    def __init__(self, url: str) -> None:
        self._url = state_url(url)
        self._file = Path(self._url.database or "") if self._url.drivername == "sqlite" else None
        if self._file:
            # With None, SQLite's driver begins no transactions; `_begin` does.
            options: dict[str, Any] = {"connect_args": {"isolation_level": None, "timeout": WAIT_SECONDS}}
        else:
            # A transaction that has waited for another one must see what that one committed.
            options = {"isolation_level": "READ COMMITTED", "pool_pre_ping": True, "pool_recycle": KEPT_SECONDS}
        with explained(self._url):
            self._engine = create_engine(self._url, poolclass=QueuePool, pool_size=1, max_overflow=-1, **options)
        if self._file:
            _follow_the_file(self._engine, self._file)
        _engines.add(self._engine)
        finalize(self, self._engine.dispose)

    @property
    def url(self) -> str:
        """The address of the database, without its password."""
        return self._url.render_as_string(hide_password=True)

    @contextmanager
    def writing(self, log: str = MAIN) -> Iterator[Transaction]:
        """A writing transaction. An error rolls it back; after an error of the commit, its outcome is unknown.

        On PostgreSQL, writers of other logs go on meanwhile, so a table belongs to one log.
        """
        with self._transaction(writes=True) as connection:
            if self._file is None:  # SQLite has one writer at a time
                lock_log(connection, log)
            yield Transaction(connection, log)

    @contextmanager
    def reading(self) -> Iterator[Connection]:
        """A read-only transaction."""
        with self._transaction(writes=False) as connection:
            yield connection

    def events(self, after: int = 0, *, log: str = MAIN, limit: int = 1000) -> list[Event]:
        """The first `limit` events of a log with a higher number than `after`, in order; a new database starts at 1.

        The numbers have no gaps. If the first is not `after` + 1, the events between were older than EVENTS_KEPT and
        are deleted. `followed.Followed` keeps a view up to date by them.
        """
        if not self.exists():
            return []
        with self.reading() as connection:
            return read_events(connection, log, after, limit)

    def close(self) -> None:
        """Close the connections that are kept. The store can be used again."""
        self._engine.dispose()

    def exists(self) -> bool:
        """Whether the database exists; False only for an SQLite file before the first write."""
        with explained(self._url):
            if self._file is None:
                return True
            _refuse_links(self._file)
            return self._file.exists()

    def is_current(self) -> bool:
        """Whether the database exists and has the newest schema; it is not changed."""
        if not self.exists():
            return False
        with explained(self._url), self._engine.connect() as connection:
            return is_newest(connection)

    @contextmanager
    def _transaction(self, *, writes: bool) -> Iterator[Connection]:
        with explained(self._url):
            if self._file and not self.exists():
                self._make(self._file)
            with self._engine.connect() as connection:
                self._begin(connection, writes=writes)
                if not is_newest(connection):
                    connection.rollback()
                    self._migrate(connection)
                    self._begin(connection, writes=writes)
                yield connection
                connection.commit()

    def _begin(self, connection: Connection, *, writes: bool) -> None:
        if self._file:
            connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")
        elif writes:
            connection.execute(text(f"SET LOCAL lock_timeout = '{WAIT_SECONDS}s'"))
        else:
            # All queries of a reader see the same commits, as in SQLite.
            connection.execute(text("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY"))

    def _migrate(self, connection: Connection) -> None:
        """Bring the schema to the newest, unless another process has done so meanwhile."""
        self._begin(connection, writes=True)
        if not self._file:
            connection.execute(text("SELECT pg_advisory_xact_lock(hashtext(:name))"), {"name": VERSION_TABLE})
        try:
            migrate(connection)
        except UnknownSchemaError as unknown:
            message = (
                f"The state database {shown(self._url)} has the schema {unknown}, made by a newer feed_assets: update "
                f"feed_assets, or name another database in {VARIABLE}."
            )
            raise StoreError(message) from None
        connection.commit()

    def _make(self, file: Path) -> None:
        """Create an empty SQLite file, with a write-ahead log if on a local disk: the log needs shared memory.

        With the log, readers and a writer do not wait for each other. SQLite can switch it on only while no other
        process uses the file, so the file is linked into place with the log on. The log of an earlier file, which a
        killed process may have left, would be read into the new file, and damage it.
        """
        file.parent.mkdir(parents=True, exist_ok=True)
        if on_local_disk(file):
            with _alone_in(file.parent), TemporaryDirectory(dir=file.parent) as folder:
                if file.exists():
                    return
                new = Path(folder) / file.name
                new.touch()  # SQLite itself would let only this user write, whatever the mask of new files
                with create_engine(self._url.set(database=str(new)), poolclass=NullPool).connect() as connection:
                    connection.exec_driver_sql("PRAGMA journal_mode = WAL")
                for ending in ("-wal", "-shm"):
                    file.with_name(f"{file.name}{ending}").unlink(missing_ok=True)
                file.hardlink_to(new)


def _follow_the_file(engine: Engine, file: Path) -> None:
    """Let the engine use a connection only while its file is the one at this path."""

    @event.listens_for(engine, "connect")
    def connected(_: Any, record: Any) -> None:
        record.info["file"] = _identity(file)

    @event.listens_for(engine, "checkout")
    def taken(_: Any, record: Any, __: Any) -> None:
        if record.info["file"] != _identity(file):
            raise DisconnectionError


def _identity(file: Path) -> tuple[int, int] | None:
    try:
        found = file.stat()
    except FileNotFoundError:
        return None
    return found.st_dev, found.st_ino


def _forked() -> None:
    """Let a new process open connections of its own."""
    for engine in _engines:
        _inherited.append(engine.pool)
        engine.dispose(close=False)


os.register_at_fork(after_in_child=_forked)


def _refuse_links(file: Path) -> None:
    """Raise StoreError if the file or its directory is a link: whoever may write above may have put it there."""
    for path in (file.parent, file):
        if path.is_symlink():
            message = (
                f"{path} is a symbolic link, to {path.readlink()}, and is not used for the state database: remove the "
                f"link, or name the file itself in {VARIABLE}."
            )
            raise StoreError(message)


@contextmanager
def _alone_in(directory: Path) -> Iterator[None]:
    """Let no other process make a database in this directory meanwhile."""
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)
