"""Rates: how much one client may put to each shard now.

A shard has a bucket of records and one of bytes. A retry takes tokens, too. The caller asks for room, and waits if
there is none. Not here: what waits (`buffer`), and who sends it (`worker`).

A stream counts what arrives in any second. Requests take different times, so what left evenly may arrive in a heap.
Therefore a record also counts from when it leaves until a second after its answer, less the shortest time that an
answer took. What counts stays below the limit, whatever a request waits for on its way.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import Final

from feed_assets.delivery.streams.port import Limits

RISE: Final = 0.05
"""The part of the share that a rate gains each second, after it was halved."""
_LEAST: Final = 1 / 64
_FORGET: Final = 1.001
_FEW: Final = 8
"""So many answers do not say yet how fast one can be."""


@dataclass(frozen=True, slots=True)
class _Rates:
    """What one sender may put to a shard: per second, and at once."""

    records: float
    bytes: float
    fraction: float
    burst: float

    @property
    def window(self) -> float:
        """The second in which a stream counts, and most of what `fraction` leaves: requests differ."""
        return 1.0 + 0.8 * (1.0 - self.fraction)


class ShardRate:
    """The rate of one sender for one shard. For one thread at a time."""

    __slots__ = (
        "_answers",
        "_at",
        "_bytes",
        "_factor",
        "_fastest",
        "_halved",
        "_rates",
        "_recent",
        "_records",
        "_used",
        "_used_bytes",
    )

    def __init__(self, rates: _Rates, start: float) -> None:
        self._rates = rates
        self._at = start
        self._records = 0.0
        self._bytes = 0.0
        self._factor = 1.0
        self._halved = float("-inf")
        self._fastest = float("inf")
        self._answers = 0
        self._recent: deque[tuple[float, float, int, int]] = deque()
        self._used = 0
        self._used_bytes = 0

    def room(self, now: float, first: int) -> tuple[int, int]:
        """How many records and bytes may leave now, if the first record has so many bytes.

        A bucket has space for the first record and a burst. A record above the limit of a second leaves alone.
        """
        rates = self._rates
        elapsed = now - self._at
        if elapsed > 0.0:
            self._at = now
            self._factor = min(1.0, self._factor + RISE * elapsed)
            rate = self._factor * rates.fraction
            burst = rate * rates.burst
            self._records = min(rates.records * burst + 1, self._records + rates.records * rate * elapsed)
            self._bytes = min(rates.bytes * burst + first, self._bytes + rates.bytes * rate * elapsed)
            self._forget(now)
        records = min(self._records, max(rates.records, 1.0) - self._used)
        size = min(self._bytes, max(rates.bytes, first) - self._used_bytes)
        return max(0, int(records)), max(0, int(size))

    def _forget(self, now: float) -> None:
        """Count no more what the stream has forgotten, too."""
        recent = self._recent
        fastest = self._fastest if self._answers > _FEW else 0.0
        while recent:
            taken, answered, records, size = recent[0]
            # A record above the limit of a second keeps others away until its bytes are paid.
            window = self._rates.window * max(1.0, size / self._rates.bytes)
            if max(taken, answered - fastest) + window > now:
                return
            recent.popleft()
            self._used -= records
            self._used_bytes -= size

    def take(self, records: int, size: int) -> None:
        """Take tokens for what leaves."""
        self._records -= records
        self._bytes -= size
        self._used += records
        self._used_bytes += size

    def answered(self, taken: float, now: float, records: int, size: int) -> None:
        """A request that took tokens at `taken` was answered, or given up."""
        self._fastest = min(self._fastest * _FORGET, now - taken)  # forgets: the way to the stream may get longer
        self._answers += 1
        self._recent.append((taken, now, records, size))

    def throttled(self, taken: float, now: float) -> None:
        """The stream refused a record of a request that took tokens at `taken`: halve the rate.

        What left within a second of the last halving says nothing new: the stream still counts what left before.
        """
        if taken >= self._halved + self._rates.window:
            self._halved = now
            self._factor = max(_LEAST, self._factor / 2)


class ShardRates:
    """The rates of all shards for one sender."""

    def __init__(self, limits: Limits, share: float, fraction: float, burst: float) -> None:
        self._rates = _Rates(limits.records_a_second * share, limits.bytes_a_second * share, fraction, burst)

    def new(self, start: float) -> ShardRate:
        """The rate of a shard that is new. Its buckets are empty at `start`, and filled from then on."""
        return ShardRate(self._rates, start)
