"""A stream in memory whose answers a test decides, and a clock whose waits take no time."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import replace

from feed_assets.delivery.streams.port import HASH_KEYS, Acked, Answer, Limits, Record, Shard, hash_key

Answering = Callable[[Sequence[Record]], Sequence[Answer]]


def shards(count: int, first: int = 0) -> list[Shard]:
    """Shards of equal size, numbered from `first`."""
    size = HASH_KEYS // count
    return [
        Shard(f"shard-{first + at}", at * size, HASH_KEYS - 1 if at == count - 1 else (at + 1) * size - 1)
        for at in range(count)
    ]


class MemorySink:
    """Stores what it acknowledges. `answering` decides otherwise; while `gate` is closed, requests wait."""

    title = "memory://stream"

    def __init__(self, count: int = 1, limits: Limits | None = None) -> None:
        self.open_shards = shards(count)
        self.answering: Answering = self.store
        self.gate = threading.Event()
        self.gate.set()
        self.keeps_requests = True
        self.requests: list[list[Record]] = []
        self.asked = 0
        self.stored: list[Record] = []
        self.under_way = 0
        self.maps_read = 0
        self._limits = limits or Limits()
        self._lock = threading.Lock()

    def limits(self) -> Limits:
        return self._limits

    def shards(self) -> Sequence[Shard]:
        self.maps_read += 1
        return [replace(shard) for shard in self.open_shards]

    def shard_of(self, record: Record) -> str:
        return next(shard.name for shard in self.open_shards if shard.low <= hash_key(record.key) <= shard.high)

    def put(self, records: Sequence[Record]) -> Sequence[Answer]:
        with self._lock:
            self.asked += 1
            if self.keeps_requests:
                self.requests.append(list(records))
            self.under_way += 1
        try:
            self.gate.wait()
            return self.answering(records)
        finally:
            with self._lock:
                self.under_way -= 1

    def store(self, records: Sequence[Record]) -> list[Answer]:
        """Acknowledge all."""
        with self._lock:
            first = len(self.stored)
            self.stored += records
            return [Acked(self.shard_of(record), f"{first + at}") for at, record in enumerate(records)]

    def close(self) -> None:
        pass


class SimulatedClock:
    """Whoever waits moves the time on, unless somebody notifies it, or the sink is at work."""

    def __init__(self, sink: MemorySink) -> None:
        self._sink = sink
        self._now = 0.0

    def now(self) -> float:
        return self._now

    def wait(self, condition: threading.Condition, seconds: float | None) -> None:
        if not condition.wait(0.0005) and seconds is not None and not self._sink.under_way:
            self._now += min(seconds, 1.0)
