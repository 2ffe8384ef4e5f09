"""Records that were put together, the shards they go to, and requests.

Not here: the bounds of what waits (`buffer`), when something is sent (`facade`), and how fast (`limiter`).
"""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from collections.abc import Iterable, Sequence
from hashlib import md5
from typing import Protocol

from feed_assets.delivery.errors import BadRowsError
from feed_assets.delivery.streams.port import LONGEST_KEY, Acked, Limits, Record, Shard


class Receipt(Protocol):
    """Who is told what became of records."""

    def acked(self, ordinals: Sequence[int], answers: Sequence[Acked]) -> None:
        """The stream has these records."""
        ...

    def failed(self, error: Exception) -> None:
        """Records were not acknowledged, and are not sent again."""
        ...


class Rate(Protocol):
    """What may leave for a shard now. `limiter.ShardRate` is the real one."""

    def room(self, now: float, first: int) -> tuple[int, int]:
        """How many records and bytes may leave now; `first` is the size of the first."""
        ...

    def take(self, records: int, size: int) -> None:
        """So much leaves."""
        ...

    def answered(self, taken: float, now: float, records: int, size: int) -> None:
        """What left at `taken` was answered."""
        ...

    def throttled(self, taken: float, now: float) -> None:
        """The stream refused a record that left at `taken`."""
        ...


class Lane:
    """What waits for one shard, and what is under way to it."""

    __slots__ = ("blocked_since", "queue", "rate", "shard", "size")

    def __init__(self, shard: Shard, rate: Rate) -> None:
        self.shard = shard
        self.rate = rate
        self.queue: deque[Chunk] = deque()
        self.size = 0
        self.blocked_since: float | None = None

    def take(self, records: int, size: int) -> Chunk | None:
        """The first records that wait, if so many records and bytes are allowed; None if none fits."""
        head = self.queue[0]
        taken = head.split(records, size)
        if taken is head:
            self.queue.popleft()
        return taken


class Chunk:
    """Records of one shard that were put together."""

    __slots__ = ("_start", "lane", "ordinals", "receipt", "records", "size", "sizes")

    def __init__(self, lane: Lane, receipt: Receipt) -> None:
        self.lane = lane
        self.receipt = receipt
        self.records: list[Record] = []
        self.ordinals: list[int] = []
        self.sizes: list[int] = []
        self.size = 0
        self._start = 0

    def __len__(self) -> int:
        return len(self.records) - self._start

    @property
    def first_size(self) -> int:
        """The bytes of the first record."""
        return self.sizes[self._start]

    def append(self, record: Record, ordinal: int, size: int) -> None:
        """Add a record."""
        self.records.append(record)
        self.ordinals.append(ordinal)
        self.sizes.append(size)
        self.size += size

    def split(self, records: int, size: int) -> Chunk | None:
        """Take the first records away, as many as are allowed: all, some, or None."""
        if self.size <= size and len(self) <= records:
            if self._start:
                del self.records[: self._start], self.ordinals[: self._start], self.sizes[: self._start]
                self._start = 0
            return self
        start = self._start
        end = min(start + records, len(self.sizes))
        sizes = self.sizes[start:end]
        total = sum(sizes)
        while total > size:
            end -= 1
            total -= sizes.pop()
        if not sizes:
            return None
        head = Chunk(self.lane, self.receipt)
        head.records = self.records[start:end]
        head.ordinals = self.ordinals[start:end]
        head.sizes = sizes
        head.size = total
        self.size -= head.size
        self._start = end
        return head

    def whole(self) -> Chunk:
        """All that is left."""
        return self.split(len(self), self.size) or self


class Request:
    """Records of any shards that are sent together."""

    __slots__ = ("chunks", "records", "size", "taken")

    def __init__(self, taken: float) -> None:
        self.taken = taken
        self.chunks: list[Chunk] = []
        self.records: list[Record] = []
        self.size = 0

    def add(self, chunk: Chunk) -> None:
        """Send these records, too."""
        self.chunks.append(chunk)
        self.records += chunk.records
        self.size += chunk.size


class Routing:
    """Which lane takes a record. It never changes; a split or merge makes another one."""

    def __init__(self, lanes: Iterable[Lane], limits: Limits) -> None:
        self.lanes = sorted(lanes, key=lambda lane: lane.shard.low)
        self._lows = [lane.shard.low.to_bytes(16, "big") for lane in self.lanes[1:]]
        self._largest = limits.bytes_a_record

    def chunks(self, records: Sequence[Record], ordinals: Sequence[int], receipt: Receipt) -> list[Chunk]:
        """The records by lane, in their order. Raises BadRowsError if a record can never be sent."""
        try:
            keys = [record[0].encode() for record in records]
        except UnicodeEncodeError as error:
            raise BadRowsError(f"A record's key is no valid text: {error.reason} at {error.start}.") from None
        sizes = [len(key) + len(record[1]) for key, record in zip(keys, records, strict=True)]
        self._check(records, ordinals, sizes)
        lows, lanes = self._lows, self.lanes
        found: dict[int, Chunk] = {}
        for record, ordinal, size, key in zip(records, ordinals, sizes, keys, strict=True):
            at = bisect_right(lows, md5(key, usedforsecurity=False).digest()) if lows else 0
            chunk = found.get(at)
            if chunk is None:
                chunk = found[at] = Chunk(lanes[at], receipt)
            chunk.records.append(record)
            chunk.ordinals.append(ordinal)
            chunk.sizes.append(size)
        for chunk in found.values():
            chunk.size = sum(chunk.sizes)
        return list(found.values())

    def _check(self, records: Sequence[Record], ordinals: Sequence[int], sizes: Sequence[int]) -> None:
        lengths = [len(record[0]) for record in records]
        if (
            min(lengths, default=1) < 1
            or max(lengths, default=1) > LONGEST_KEY
            or max(sizes, default=0) > self._largest
        ):
            for record, ordinal in zip(records, ordinals, strict=True):
                if reason := _reason(record, self._largest):
                    raise BadRowsError(f"Record {ordinal}: {reason}")


def _reason(record: Record, largest: int) -> str:
    if not record.key:
        return "its key is empty."
    if len(record.key) > LONGEST_KEY:
        return f"its key has {len(record.key)} characters; {LONGEST_KEY} are allowed."
    if record.size > largest:
        return f"it has {record.size} bytes with its key; the stream takes {largest}."
    return ""
