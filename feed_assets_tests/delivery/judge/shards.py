"""The shards of a stream: ranges of hash keys, which shard a key belongs to, splits and merges.

Here: shards as values, and arithmetic on ranges. Not here: records, limits and API (see `streams`, `operations`).
"""

from __future__ import annotations

from array import array
from bisect import bisect_right
from hashlib import md5
from typing import Any, Final

from feed_assets_tests.delivery.judge.limits import SlidingSecond
from feed_assets_tests.delivery.judge.log import sequence_number

HASH_KEYS: Final = 2**128


def hash_key(partition_key: bytes) -> int:
    """The position of a partition key: its MD5 as a number of 128 bits."""
    return int.from_bytes(md5(partition_key, usedforsecurity=False).digest())


def uniform_starts(count: int) -> list[int]:
    """The first hash key of each of so many equal ranges; the last one takes the remainder."""
    return [HASH_KEYS // count * number for number in range(count)]


class Shard:
    """A range of hash keys (`start` to `end`, both included), and the places of its records in the log."""

    def __init__(self, prefix: str, index: int, start: int, end: int, parents: tuple[Shard, ...], born: int) -> None:
        self.index = index
        self.id = f"shardId-{index:012d}"
        self.start = start
        self.end = end
        self.parents = parents
        self.children: list[Shard] = []
        self.prefix = prefix
        self.born = born
        """The offset of the log at which it was opened."""
        self.closed: int | None = None
        """The offset at which it was closed."""
        self.opened_at = 0.0
        self.closed_at: float | None = None
        self.offsets = array("Q")
        self.sizes = array("I")
        self.first = 0
        """The number of the first record that is not trimmed."""
        self.writes = SlidingSecond()
        self.reads = SlidingSecond()
        self.iterators = SlidingSecond()
        self.seconds: dict[int, list[int]] = {}
        """By second: records, their bytes, throttled records."""
        self.success = f'{index:012d}","ShardId":"{self.id}"}}'
        """The end of a stored record's answer, after the offset."""

    @property
    def open(self) -> bool:
        """Whether it takes records."""
        return self.closed is None

    def tally(self, second: int) -> list[int]:
        """The counters of a second."""
        return self.seconds.setdefault(second, [0, 0, 0])

    def description(self) -> dict[str, Any]:
        """The API's structure `Shard`."""
        numbers = {"StartingSequenceNumber": sequence_number(self.prefix, self.born, self.index)}
        if self.closed is not None:
            numbers["EndingSequenceNumber"] = sequence_number(self.prefix, self.closed, self.index)
        names = ("ParentShardId", "AdjacentParentShardId")
        return {
            "ShardId": self.id,
            **{name: parent.id for name, parent in zip(names, self.parents, strict=False)},
            "HashKeyRange": self.range(),
            "SequenceNumberRange": numbers,
        }

    def range(self) -> dict[str, str]:
        """The API's structure `HashKeyRange`."""
        return {"StartingHashKey": str(self.start), "EndingHashKey": str(self.end)}

    def is_before(self, other: Shard) -> bool:
        """Whether the other range follows on this one without a gap."""
        return self.end + 1 == other.start


class OpenShards:
    """The open shards in the order of their ranges, which together hold each hash key once."""

    def __init__(self) -> None:
        self.shards: list[Shard] = []
        self._starts: list[int] = []

    def of(self, key: int) -> Shard:
        """The shard of a hash key."""
        return self.shards[bisect_right(self._starts, key) - 1]

    def replace(self, closed: tuple[Shard, ...], opened: list[Shard]) -> None:
        """Put shards in the place of others."""
        left = [shard for shard in self.shards if shard not in closed]
        self.shards = sorted([*left, *opened], key=lambda shard: shard.start)
        self._starts = [shard.start for shard in self.shards]
