"""Limits of AWS as numbers, and the account of a shard's sliding second.

Here: what is counted against a limit, and when. Not here: which records belong to a shard (see `shards`), and the
answers when a limit is passed (see `streams`).

The numbers are those of the API reference and the page "Quotas and limits". AWS writes a shard's limit as 1 MB/s in one
place and 1 MiB/s in another. The judge takes 1,000,000 bytes: a client that stays below that is right by either.
A read counts 2 MiB/s, as a response of 10 MiB is said to block the shard for 5 s.
"""

from __future__ import annotations

from collections import deque
from typing import Final

import msgspec

SECOND: Final = 1_000_000_000
"""In nanoseconds, the unit of all times here."""

REQUEST_RECORDS: Final = 500
REQUEST_BYTES: Final = 10 * 1024**2
"""Of all data and partition keys of a request, before base64."""
KEY_CHARACTERS: Final = 256
READ_RECORDS: Final = 10_000
READ_BYTES: Final = 10 * 1024**2

UNLIMITED: Final = 2**62

CALLS: Final = {
    "CreateStream": 5,
    "DeleteStream": 5,
    "DescribeLimits": 1,
    "DescribeStream": 10,
    "DescribeStreamSummary": 20,
    "ListStreams": 5,
    "MergeShards": 5,
    "SplitShard": 5,
    "UpdateShardCount": 10,
}
"""Calls a second in an account. ListShards has 1,000 a stream, GetShardIterator 5 a shard."""


class Settings(msgspec.Struct, forbid_unknown_fields=True):
    """What a test may set; the defaults are AWS's values."""

    shard_records: int = 1000
    shard_bytes: int = 1_000_000
    shard_reads: int = 5
    shard_read_bytes: int = 2 * 1024**2
    iterator_seconds: float = 300.0
    transition_seconds: float = 0.0
    """How long a stream is CREATING, UPDATING or DELETING. AWS takes some seconds."""
    calls_limited: bool = True
    """Whether calls that manage streams are limited, see CALLS."""


class SlidingSecond:
    """What happened in the last second: a number of events, and their bytes.

    The second ends now and excludes its begin: an event at T counts until just before T + 1 s. An event that is larger
    than the limit alone passes when nothing else counts, and then counts for as many seconds as it takes to work its
    bytes off, so that the average holds.
    """

    __slots__ = ("_entries", "bytes", "events")

    def __init__(self) -> None:
        self.events = 0
        self.bytes = 0
        self._entries: deque[list[int]] = deque()

    def admit(self, now: int, size: int, most_events: int, most_bytes: int) -> bool:
        """Whether an event of this size is within both limits. If so, it counts. `now` never decreases."""
        self.forget(now)
        if self.events >= most_events or (self.bytes + size > most_bytes and self.bytes):
            return False
        self.add(now, size, most_bytes)
        return True

    def add(self, now: int, size: int, most_bytes: int) -> None:
        """Count an event without asking."""
        lasts = SECOND if size <= most_bytes else size * SECOND // most_bytes
        entries = self._entries
        if entries and entries[-1][0] >= now + lasts:
            last = entries[-1]
            last[1] += 1
            last[2] += size
        else:
            entries.append([now + lasts, 1, size])
        self.events += 1
        self.bytes += size

    def forget(self, now: int) -> None:
        """Stop counting what is over."""
        entries = self._entries
        while entries and entries[0][0] <= now:
            _, events, size = entries.popleft()
            self.events -= events
            self.bytes -= size
