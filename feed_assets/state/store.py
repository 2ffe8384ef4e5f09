"""The database: concurrent reads, one writer at a time, and events numbered without gaps.

Here: connections, locks, migrations and the event log. Not here: any fact (`last_requests`). Every transaction opens a
connection, and first creates or migrates the database if needed. So threads, forks and a deleted file are safe.
"""

from __future__ import annotations

import fcntl
import os
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from sqlalchemy import JSON, NullPool, column, create_engine, delete, insert, select, table, text, update
from sqlalchemy.engine import Connection
from sqlalchemy.exc import DBAPIError

from feed_assets.state.address import VARIABLE, StoreError, explained, on_local_disk, shown, state_url

WAIT_SECONDS = 30
"""How long a transaction waits for another transaction."""

MIGRATIONS = Path(__file__).parent / "migrations"
EVENTS_KEPT = timedelta(days=30)
"""How long events stay in the log. A reader must come back within this time."""

VERSION_TABLE = "feed_assets_version"
VERSION = table(VERSION_TABLE, column("version_num"))
EVENTS = table("feed_assets_events", column("sequence"), column("at"), column("kind"), column("details", JSON))
COUNTER = table("feed_assets_event_counter", column("last"))
"""One row, the newest event's number; a writing transaction locks it first."""

_ONE_MIGRATION = threading.Lock()
"""Alembic keeps its context in global variables."""


@dataclass(frozen=True, slots=True)
class Event:
    """A change. `sequence` is one higher than that of the event committed before."""

    sequence: int
    at: datetime
    kind: str
    details: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Transaction:
    """The only writing transaction at this time; it commits all its changes or none."""

    connection: Connection

    def append(self, kind: str, at: datetime, details: Mapping[str, Any]) -> int:
        """Append an event and return its number. `at` has a time zone; `details` must be JSON.

        Deletes the oldest events, up to the first that is younger than EVENTS_KEPT at this time.
        """
        number = update(COUNTER).values(last=COUNTER.c.last + 1).returning(COUNTER.c.last)
        sequence = int(self.connection.execute(number).scalar_one())
        row = {"sequence": sequence, "at": stored_time(at), "kind": kind, "details": dict(details)}
        self.connection.execute(insert(EVENTS).values(row))
        kept = select(EVENTS.c.sequence).where(EVENTS.c.at >= stored_time(at - EVENTS_KEPT))
        first = kept.order_by(EVENTS.c.sequence).limit(1).scalar_subquery()
        self.connection.execute(delete(EVENTS).where(EVENTS.c.sequence < first))
        return sequence


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
            options = {"isolation_level": "READ COMMITTED"}
        with explained(self._url):
            self._engine = create_engine(self._url, poolclass=NullPool, **options)

    @contextmanager
    def writing(self) -> Iterator[Transaction]:
        """A writing transaction. An error rolls it back; after an error of the commit, its outcome is unknown."""
        with self._transaction(writes=True) as connection:
            connection.execute(select(COUNTER.c.last).with_for_update())
            yield Transaction(connection)

    @contextmanager
    def reading(self) -> Iterator[Connection]:
        """A read-only transaction."""
        with self._transaction(writes=False) as connection:
            yield connection

    def events(self, after: int = 0, *, limit: int = 1000) -> list[Event]:
        """The first `limit` events with a higher number than `after`, in order; a new database starts at 1.

        The numbers have no gaps. If the first is not `after` + 1, the events between were older than EVENTS_KEPT and
        are deleted. No part of this version reads the log; it is for services that follow the facts.
        """
        if not self.exists():
            return []
        query = select(EVENTS).where(EVENTS.c.sequence > after).order_by(EVENTS.c.sequence).limit(limit)
        with self.reading() as connection:
            rows = connection.execute(query).all()
        return [Event(sequence, datetime.fromisoformat(at), kind, details) for sequence, at, kind, details in rows]

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
            return self._is_newest(connection)

    @contextmanager
    def _transaction(self, *, writes: bool) -> Iterator[Connection]:
        with explained(self._url):
            if self._file and not self.exists():
                self._make(self._file)
            with self._engine.connect() as connection:
                current = self._is_newest(connection)
                connection.rollback()
                if not current:
                    self._migrate()
                with connection.begin():
                    self._begin(connection, writes=writes)
                    yield connection

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

    def _begin(self, connection: Connection, *, writes: bool) -> None:
        if self._file:
            connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")
        elif writes:
            connection.execute(text(f"SET LOCAL lock_timeout = '{WAIT_SECONDS}s'"))

    def _is_newest(self, connection: Connection) -> bool:
        """Whether the schema is the newest. One query says so of nearly all databases; Alembic is slow to load."""
        with suppress(DBAPIError), connection.begin():  # an empty database has no such table
            if connection.execute(select(VERSION.c.version_num)).scalars().all() == [_newest()]:
                return True
        return self._version(connection) == _newest()

    def _version(self, connection: Connection) -> str | None:
        """The schema of the database, None if it is empty. Raises StoreError if the schema is unknown (newer)."""
        from alembic.runtime.migration import MigrationContext  # noqa: PLC0415 - slow to load, and rarely needed

        context = MigrationContext.configure(connection, opts={"version_table": VERSION_TABLE})
        version = context.get_current_revision()
        if version not in (None, *_revisions()):
            message = (
                f"The state database {shown(self._url)} has the schema {version}, made by a newer feed_assets: update "
                f"feed_assets, or name another database in {VARIABLE}."
            )
            raise StoreError(message)
        return version

    def _migrate(self) -> None:
        """Upgrade the schema, unless another process has done so meanwhile."""
        from alembic import command  # noqa: PLC0415 - as above
        from alembic.config import Config  # noqa: PLC0415 - as above

        config = Config()
        config.set_main_option("script_location", str(MIGRATIONS).replace("%", "%%"))
        with _ONE_MIGRATION, self._engine.connect() as connection, connection.begin():
            self._begin(connection, writes=True)
            if not self._file:
                connection.execute(text("SELECT pg_advisory_xact_lock(hashtext(:name))"), {"name": VERSION_TABLE})
            if self._version(connection) != _newest():
                config.attributes["connection"] = connection
                command.upgrade(config, "head")


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


def stored_time(moment: datetime) -> str:
    """A time as the database stores and compares it."""
    return moment.astimezone(UTC).isoformat()


@cache
def _newest() -> str:
    """The newest schema, which has the name of its module: `v0003_reports` makes `0003_reports`."""
    return max(module.stem for module in (MIGRATIONS / "versions").glob("v*.py")).removeprefix("v")


@cache
def _revisions() -> list[str]:
    """The schemas that this program knows, newest first."""
    from alembic.script import ScriptDirectory  # noqa: PLC0415 - slow to load, and rarely needed

    return [script.revision for script in ScriptDirectory(str(MIGRATIONS)).walk_revisions()]
