"""A stream in a file of SQLite, with the limits of Kinesis: for one machine, the demo and tests of the consumer.

Here: shards, splits and merges, and limits by the second, which all processes share. It says nothing about AWS.
"""

from __future__ import annotations

import itertools
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from feed_assets.delivery.errors import RecordsLostError, StreamError
from feed_assets.delivery.streams.port import (
    HASH_KEYS,
    Acked,
    Answer,
    Batch,
    Limits,
    Read,
    Record,
    Refused,
    Shard,
    hash_key,
)

WAIT_SECONDS: Final = 30.0
KEPT: Final = timedelta(days=7)
"""How long records stay, and are lost then if nobody has read them; Kinesis keeps them for 1 to 365 days."""
RECORDS_A_READ: Final = 10_000
BYTES_A_READ: Final = 10 * 1024 * 1024
_TRIM_SECONDS: Final = 60.0
"""How often a process looks for records that are too old."""
_PAUSE: Final = 0.2
"""Between two looks at a shard that has nothing new: Kinesis allows five a second."""
_SCHEMA: Final = """
CREATE TABLE IF NOT EXISTS shards (name TEXT PRIMARY KEY, low TEXT, high TEXT, parents TEXT, is_open INTEGER,
    trimmed INTEGER DEFAULT 0);
CREATE TABLE IF NOT EXISTS records (
    sequence INTEGER PRIMARY KEY AUTOINCREMENT, shard TEXT, key TEXT, data BLOB, size INTEGER, arrived REAL
);
CREATE INDEX IF NOT EXISTS of_shards ON records (shard, sequence);
CREATE INDEX IF NOT EXISTS by_time ON records (shard, arrived, size);
"""


@dataclass(slots=True)
class LocalStream:
    """See `Stream`. The file is made with so many shards when it is first used. `clock` is seconds since 1970."""

    path: Path
    count: int
    clock: Callable[[], float] = time.time
    kept: timedelta = KEPT
    _trimmed: float = float("-inf")
    _connections: threading.local = field(default_factory=threading.local)

    @property
    def title(self) -> str:
        """See `Sink.title`."""
        return f"local://{self.path.stem}"

    def limits(self) -> Limits:
        """See `Sink.limits`."""
        return Limits()

    def shards(self) -> Sequence[Shard]:
        """See `Sink.shards`."""
        return [each for each in self.all_shards() if each.is_open]

    def all_shards(self) -> Sequence[Shard]:
        """See `Source.all_shards`."""
        with self._open() as database:
            return _shards(database)

    def put(self, records: Sequence[Record]) -> Sequence[Answer]:
        """See `Sink.put`."""
        limits = self.limits()
        if len(records) > limits.records_a_request or sum(each.size for each in records) > limits.bytes_a_request:
            raise StreamError(f"{self.title}: a request has more than {limits.records_a_request} records, or 10 MiB.")
        with self._open(writes=True) as database:
            now = self.clock()
            shards = [each for each in _shards(database) if each.is_open]
            used = {each.name: _used(database, each.name, now) for each in shards}
            answers: list[Answer] = []
            for record in records:
                place = hash_key(record.key)
                shard = next(each.name for each in shards if each.low <= place <= each.high)
                count, size = used[shard][0] + 1, used[shard][1] + record.size
                if count > limits.records_a_second or size > limits.bytes_a_second:
                    answers.append(Refused(throttled=True, message=f"Rate exceeded for {shard}"))
                    continue
                used[shard] = count, size
                row = (shard, record.key, record.data, record.size, now)
                insert = "INSERT INTO records (shard, key, data, size, arrived) VALUES (?, ?, ?, ?, ?)"
                answers.append(Acked(shard, _text(database.execute(insert, row).lastrowid)))
        if now - self._trimmed > _TRIM_SECONDS:
            self._trimmed = now
            self.trim(now - self.kept.total_seconds())
        return answers

    def retention(self) -> timedelta:
        """See `Source.retention`."""
        return self.kept

    def trim(self, before: float) -> int:
        """Forget the records that arrived before this time; returns how many."""
        with self._open(writes=True) as database:
            mark = "UPDATE shards SET trimmed = max(trimmed, coalesce((SELECT max(sequence) FROM records "
            database.execute(f"{mark} WHERE shard = shards.name AND arrived < ?), 0))", (before,))
            return database.execute("DELETE FROM records WHERE arrived < ?", (before,)).rowcount

    def reader(self, shard: str, after: str | None) -> _Reader:
        """See `Source.reader`."""
        return _Reader(self, shard, int(after or 0))

    def split(self, shard: str) -> None:
        """Close a shard, and open two for the halves of its hash keys."""
        with self._open(writes=True) as database:
            parent = self._closed(database, shard)
            middle = (parent.low + parent.high) // 2
            self._add(database, parent.low, middle, (shard,))
            self._add(database, middle + 1, parent.high, (shard,))

    def merge(self, first: str, second: str) -> None:
        """Close two neighbours, and open one for the hash keys of both. `first` has the lower ones."""
        with self._open(writes=True) as database:
            low, high = self._closed(database, first), self._closed(database, second)
            if low.high + 1 != high.low:
                raise StreamError(f"{self.title}: {first} and {second} are no neighbours.")
            self._add(database, low.low, high.high, (first, second))

    def close(self) -> None:
        """See `Stream`. Connections of other threads close with them."""
        if connection := getattr(self._connections, "open", None):
            connection.close()
            del self._connections.open

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _closed(self, database: sqlite3.Connection, name: str) -> Shard:
        found = next((each for each in _shards(database) if each.name == name and each.is_open), None)
        if found is None:
            raise StreamError(f"{self.title} has no open shard {name}.")
        database.execute("UPDATE shards SET is_open = 0 WHERE name = ?", (name,))
        return found

    def _add(self, database: sqlite3.Connection, low: int, high: int, parents: tuple[str, ...] = ()) -> None:
        (number,) = database.execute("SELECT count(*) FROM shards").fetchone()
        row = (f"shardId-{number:012}", str(low), str(high), " ".join(parents))
        database.execute("INSERT INTO shards VALUES (?, ?, ?, ?, 1, 0)", row)

    @contextmanager
    def _open(self, *, writes: bool = False) -> Iterator[sqlite3.Connection]:
        """A transaction. Raises StreamError."""
        try:
            database = getattr(self._connections, "open", None) or self._connect()
            database.execute("BEGIN IMMEDIATE" if writes else "BEGIN")
            try:
                yield database
                database.execute("COMMIT")
            finally:
                if database.in_transaction:
                    database.execute("ROLLBACK")
        except (sqlite3.Error, OSError) as error:
            raise StreamError(f"{self.title}: the file {self.path} cannot be used: {error}.") from None

    def _connect(self) -> sqlite3.Connection:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        database = sqlite3.connect(self.path, timeout=WAIT_SECONDS, isolation_level=None)
        database.execute("PRAGMA journal_mode = WAL")
        database.executescript(_SCHEMA)
        database.execute("BEGIN IMMEDIATE")
        if not _shards(database):
            bounds = [HASH_KEYS * each // self.count for each in range(self.count + 1)]
            for low, high in itertools.pairwise(bounds):
                self._add(database, low, high - 1)
        database.execute("COMMIT")
        self._connections.open = database
        return database


@dataclass(slots=True)
class _Reader:
    """See `ShardReader`."""

    stream: LocalStream
    shard: str
    after: int
    is_first: bool = True

    def next(self) -> Batch:
        """See `ShardReader.next`."""
        if not self.is_first:
            time.sleep(_PAUSE)
        with self.stream._open() as database:  # noqa: SLF001 - a part of the stream
            is_open = {each.name: each.is_open for each in _shards(database)}
            if self.shard not in is_open:
                raise StreamError(f"{self.stream.title} has no shard {self.shard}.")
            self._require_all(database)
            of = "FROM records WHERE shard = ? AND sequence > ?"
            query = f"SELECT sequence, key, data, arrived {of} ORDER BY sequence LIMIT ?"
            rows = database.execute(query, (self.shard, self.after, RECORDS_A_READ))
            records: list[Read] = []
            size = 0
            for sequence, key, data, arrived in rows:
                records.append(Read(_text(sequence), key, data, datetime.fromtimestamp(arrived, UTC)))
                self.after, size = sequence, size + len(data)
                if size >= BYTES_A_READ:
                    break
            newest = f"SELECT max(arrived) {of}"
            (last,) = database.execute(newest, (self.shard, self.after)).fetchone()
        self.is_first = last is not None
        behind = last - records[-1].arrived.timestamp() if last is not None and records else 0.0
        return Batch(records, behind, is_end=last is None and not is_open[self.shard])

    def _require_all(self, database: sqlite3.Connection) -> None:
        """Raise an error if what comes after the last record that was read is not what the file has next."""
        (newest,) = database.execute("SELECT coalesce(max(seq), 0) FROM sqlite_sequence").fetchone()
        if self.after > newest:
            raise StreamError(
                f"{self.stream.title}: {self.stream.path} was made anew: its records up to {self.after} were read, and "
                f"it has {newest}. Begin again with `feed-assets deliver consume --from-oldest`."
            )
        (trimmed,) = database.execute("SELECT trimmed FROM shards WHERE name = ?", (self.shard,)).fetchone()
        if 0 < self.after < trimmed:
            raise RecordsLostError(
                f"{self.stream.title}: shard {self.shard}: records after {_text(self.after)}, up to {_text(trimmed)}, "
                "were dropped unread. Publish or replay what is missing, and accept the loss."
            )


def _shards(database: sqlite3.Connection) -> list[Shard]:
    found = database.execute("SELECT name, low, high, parents, is_open FROM shards ORDER BY name")
    return [
        Shard(name, int(low), int(high), tuple(parents.split()), bool(is_open))
        for name, low, high, parents, is_open in found
    ]


def _used(database: sqlite3.Connection, shard: str, now: float) -> tuple[int, int]:
    """The records and bytes that a shard took in the last second."""
    query = "SELECT count(*), coalesce(sum(size), 0) FROM records WHERE shard = ? AND arrived > ?"
    count, size = database.execute(query, (shard, now - 1)).fetchone()
    return int(count), int(size)


def _text(sequence: int | None) -> str:
    """A sequence number as text, which sorts as the number."""
    return f"{sequence:020}"
