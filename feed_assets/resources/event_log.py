"""Dagster's event log: its storage, and connections to SQLite that stay open. Not here: what is read and written."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final

import dagster as dg
from dagster._core.storage.event_log import EventLogStorage, SqliteEventLogStorage
from dagster._core.storage.sql import create_engine
from dagster._core.storage.sqlite import SQLITE_BUSY_TIMEOUT_SECONDS

OPEN: Final = 4
"""The databases that stay open: the index of all runs, and those of the last runs. Each run has its own."""


def event_log(instance: dg.DagsterInstance) -> EventLogStorage:
    """The storage of this instance's events."""
    return instance.event_log_storage


def keep_open(instance: dg.DagsterInstance) -> None:
    """Let this instance keep the connections of its event log until its end, if that is in SQLite, and know its tables.

    For each event Dagster opens a connection and compiles its SQL, which takes more than half of the event's time. A
    day of three assets has more than a hundred events. For each check it also asks whether there is a table of checks.
    """
    log = event_log(instance)
    if isinstance(log, SqliteEventLogStorage):
        databases = _Databases(log)
        log._connect = databases.connect  # type: ignore[method-assign]  # noqa: SLF001 - the only place to step in
        log.has_table = _Tables(log.has_table).has  # type: ignore[method-assign]
        log.dispose = databases.dispose  # type: ignore[method-assign]


class _Tables:
    """The tables that were there when somebody asked: they stay. Others are looked for again."""

    def __init__(self, look: Callable[[str], bool]) -> None:
        self._look = look
        self._found: set[str] = set()

    def has(self, table_name: str) -> bool:
        if table_name not in self._found and self._look(table_name):
            self._found.add(table_name)
        return table_name in self._found


class _Databases:
    """The open databases of an event log: the index, and a shard for each run."""

    def __init__(self, log: SqliteEventLogStorage) -> None:
        self._create = log._connect  # noqa: SLF001 - as above
        self._address, self._dispose = log.conn_string_for_shard, log.dispose
        self._engines: OrderedDict[str, Any] = OrderedDict()
        self._lock = threading.Lock()

    @contextmanager
    def connect(self, shard: str) -> Iterator[Any]:
        """A connection in a transaction; no other thread has one meanwhile, as with Dagster's own method."""
        with self._lock, self._engine(shard).begin() as connection:
            yield connection

    def dispose(self) -> None:
        """Close all. Else SQLite leaves the last changes of each in a file beside it, often ten times its size."""
        self._dispose()
        with self._lock:
            while self._engines:
                self._engines.popitem()[1].dispose()

    def _engine(self, shard: str) -> Any:
        if shard not in self._engines:
            with self._create(shard):
                pass  # Dagster makes the tables that the database lacks.
            timeout = {"timeout": SQLITE_BUSY_TIMEOUT_SECONDS}
            self._engines[shard] = create_engine(self._address(shard), connect_args=timeout)
        self._engines.move_to_end(shard)
        while len(self._engines) > OPEN:
            _, oldest = self._engines.popitem(last=False)
            oldest.dispose()
        return self._engines[shard]
