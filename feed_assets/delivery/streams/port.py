"""What a stream does: it takes batches of records, and gives them back shard by shard, in order.

Here: the words of Kinesis that all streams share. Not here: when something is sent (`client`), or read (`consuming`).
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final, NamedTuple, Protocol

HASH_KEYS: Final = 2**128
"""Hash keys are below this."""
LONGEST_KEY: Final = 256
"""Characters of a partition key."""


class Record(NamedTuple):
    """What is put. `key` is the partition key, which chooses the shard: 1 to 256 characters."""

    key: str
    data: bytes

    @property
    def size(self) -> int:
        """The bytes that count for limits: data and key."""
        return len(self.data) + len(self.key.encode())


class Acked(NamedTuple):
    """The stream has the record."""

    shard: str
    sequence: str


class Refused(NamedTuple):
    """The stream did not acknowledge the record; it is to be sent again.

    `throttled`: its shard was over its limit. Else the stream failed, and may have the record or not (`ambiguous`).
    """

    throttled: bool
    message: str


Answer = Acked | Refused


class NotSentError(Exception):
    """A whole request was not taken, and can be sent again: no connection, throttled, or credentials are over."""

    def __init__(self, message: str, *, credentials: bool = False) -> None:
        super().__init__(message)
        self.credentials = credentials


class AmbiguousError(Exception):
    """No answer says whether the stream has stored the records of a request."""


@dataclass(frozen=True, slots=True)
class Shard:
    """A part of a stream, for hash keys from `low` to `high`. A closed one takes nothing; its children do.

    A shard has no parent, one (it was split off), or two (they were merged).
    """

    name: str
    low: int
    high: int
    parents: tuple[str, ...] = ()
    is_open: bool = True


@dataclass(frozen=True, slots=True)
class Limits:
    """What a stream takes. Rates are for a shard and a second; bytes include keys."""

    records_a_request: int = 500
    bytes_a_request: int = 10 * 1024 * 1024
    bytes_a_record: int = 1024 * 1024
    records_a_second: int = 1_000
    bytes_a_second: int = 1_000_000


class Sink(Protocol):
    """A stream to which records are put. Threads may share it."""

    @property
    def title(self) -> str:
        """The stream, for messages."""
        ...

    def limits(self) -> Limits:
        """What it takes. Raises StreamError, NotSentError."""
        ...

    def shards(self) -> Sequence[Shard]:
        """The open shards. Raises StreamError, NotSentError."""
        ...

    def put(self, records: Sequence[Record]) -> Sequence[Answer]:
        """Put the records by one request, and return an answer for each, in their order.

        Raises StreamError if sending again would not help, NotSentError, AmbiguousError.
        """
        ...

    def close(self) -> None:
        """Close the connections."""
        ...


class Read(NamedTuple):
    """A record as it is read."""

    sequence: str
    key: str
    data: bytes
    arrived: datetime


class Batch(NamedTuple):
    """What one request of a reader found.

    `behind` is how many seconds the shard's newest record is ahead. `is_end`: the shard was closed, and this is its
    last batch.
    """

    records: Sequence[Read]
    behind: float
    is_end: bool


class ShardReader(Protocol):
    """Reads one shard, in order. For one thread."""

    def next(self) -> Batch:
        """The next records, perhaps none. Waits as long as the shard's limit of reads demands.

        Raises RecordsLostError if the stream has dropped records that were not read, StreamError, NotSentError.
        """
        ...


class Source(Protocol):
    """A stream from which records are read. Threads may share it."""

    @property
    def title(self) -> str:
        """The stream, for messages."""
        ...

    def all_shards(self) -> Sequence[Shard]:
        """All shards that still have records, also closed ones. Raises StreamError, NotSentError."""
        ...

    def retention(self) -> timedelta:
        """How long it keeps a record. Raises StreamError, NotSentError."""
        ...

    def reader(self, shard: str, after: str | None) -> ShardReader:
        """A reader of the records after this sequence number; None: from the oldest."""
        ...

    def close(self) -> None:
        """Close the connections."""
        ...


class Stream(Sink, Source, AbstractContextManager["Stream"], Protocol):
    """A stream, to put and to read. The block closes it."""


def hash_key(key: str) -> int:
    """The hash key of a partition key: its MD5, as Kinesis defines it."""
    return int.from_bytes(hashlib.md5(key.encode(), usedforsecurity=False).digest(), "big")
