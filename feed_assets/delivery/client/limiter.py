"""Rates: how much one client may put to each shard now.

A shard has a bucket of records and one of bytes. A retry takes tokens, too. The caller asks for room, and waits if
there is none. Not here: what waits (`buffer`), and who sends it (`worker`).

A stream counts what arrives in any second. Requests take different times, so what left evenly may arrive in a heap.
Therefore a record also counts from when it leaves until a second after its answer, less the shortest time that an
answer took: then no second at the stream can see more than the limit.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import Final

from feed_assets.delivery.streams.port import Limits

WINDOW: Final = 1.0
"""Seconds in which a stream counts."""
RISE: Final = 0.05
"""The part of the share that a rate gains each second, after it was halved."""
_LEAST: Final = 1 / 64
_FORGET: Final = 1.001


@dataclass(frozen=True, slots=True)
class _Rates:
    """What one sender may put to a shard: per second, and at once."""

    records: float
    bytes: float
    fraction: float
    burst: float


class ShardRate:
    """The rate of one sender for one shard. For one thread at a time."""

    __slots__ = ("_at", "_bytes", "_factor", "_fastest", "_halved", "_rates", "_recent", "_records", "_used")

    def __init__(self, rates: _Rates, now: float) -> None:
        self._rates = rates
        self._at = now
        self._records = 0.0
        self._bytes = 0.0
        self._factor = 1.0
        self._halved = now
        self._fastest = float("inf")
        self._recent: deque[tuple[float, int, int]] = deque()
        self._used = [0, 0]

    def room(self, now: float, first: int) -> tuple[int, int]:
        """How many records and bytes may leave now, if the first record has so many bytes.

        A record larger than the bucket leaves when the bucket is full; the bucket then owes the rest.
        """
        rates = self._rates
        elapsed = max(0.0, now - self._at)
        self._at = now
        self._factor = min(1.0, self._factor + RISE * elapsed)
        rate = self._factor * rates.fraction
        most_records = max(1.0, rates.records * rate * rates.burst)
        most_bytes = rates.bytes * rate * rates.burst
        self._records = min(most_records, self._records + rates.records * rate * elapsed)
        self._bytes = min(most_bytes, self._bytes + rates.bytes * rate * elapsed)
        recent = self._recent
        used = self._used
        while recent and recent[0][0] <= now:
            _, records, size = recent.popleft()
            used[0] -= records
            used[1] -= size
        records_left = min(self._records, max(rates.records, 1.0) - used[0])
        bytes_left = min(self._bytes, rates.bytes - used[1])
        if records_left < 1:
            return 0, 0
        if (
            first > bytes_left
            and self._bytes >= min(first, most_bytes)
            and (used[1] + first <= rates.bytes or not used[1])
        ):
            return 1, first
        return int(records_left), int(bytes_left)

    def take(self, records: int, size: int) -> None:
        """Take tokens for what leaves."""
        self._records -= records
        self._bytes -= size
        self._used[0] += records
        self._used[1] += size

    def answered(self, taken: float, now: float, records: int, size: int) -> None:
        """A request that took tokens at `taken` was answered, or given up."""
        self._fastest = min(self._fastest * _FORGET, now - taken)  # forgets: the way to the stream may get longer
        self._recent.append((max(taken, now - self._fastest) + WINDOW, records, size))

    def throttled(self, taken: float, now: float) -> None:
        """The stream refused a record of a request that took tokens at `taken`: halve the rate.

        Requests that left before the last halving say nothing new.
        """
        if taken >= self._halved:
            self._halved = now
            self._factor = max(_LEAST, self._factor / 2)


class ShardRates:
    """The rates of all shards for one sender."""

    def __init__(self, limits: Limits, share: float, fraction: float, burst: float) -> None:
        self._rates = _Rates(limits.records_a_second * share, limits.bytes_a_second * share, fraction, burst)

    def new(self, now: float) -> ShardRate:
        """The rate of a shard that is new: its buckets begin empty."""
        return ShardRate(self._rates, now)
