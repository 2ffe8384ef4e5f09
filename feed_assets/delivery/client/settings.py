"""What a user of the client sets, and what it counts.

Here: values. Not here: the limits of a stream, which the stream knows (`streams.port.Limits`).
"""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Final, Protocol

from feed_assets.delivery.streams.port import Limits

MIB: Final = 1024 * 1024
_LONGEST_SERIES: Final = 3_600


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientSettings:
    """How a client sends. Times are seconds."""

    queue_bytes: int = 32 * MIB
    """Data and keys from `put` to the end of their future. A full queue blocks `put`; one shard may hold half of it.
    Python needs about 200 bytes more for each record."""
    linger: float = 0.1
    """How long a record waits for others that fill its request."""
    requests: int = 32
    """Requests that may be under way together. Each needs a thread."""
    share: float = 1.0
    """The part of each shard's limit that this client may use. All senders of a stream share it."""
    fraction: float = 0.99
    """The part of the share that is used. The rest allows for clocks that run differently."""
    records_a_second: int | None = None
    """A shard's limit, if it is another one than the stream states."""
    bytes_a_second: int | None = None
    """A shard's limit, if it is another one than the stream states."""
    burst: float = 0.04
    """What a shard that was idle may take at once, in seconds of its rate."""
    turn: float = 0.01
    """How often busy shards get what their rates allow. Longer turns cost rate: a stream counts each second, which must
    not see one turn too many, so a turn is not longer than what `fraction` leaves of a second."""
    map_every: float = 60.0
    """How often the shards are listed at least."""
    give_up_after: float = 3_600.0
    """How long records wait without any progress before all fail."""
    first_pause: float = 0.05
    """The longest pause after a failed request. It doubles with each further failure."""
    longest_pause: float = 20.0

    def limits(self, stated: Limits) -> Limits:
        """The limits of a stream that states these."""
        records, size = self.records_a_second, self.bytes_a_second
        return replace(
            stated,
            records_a_second=records or stated.records_a_second,
            bytes_a_second=size or stated.bytes_a_second,
        )


class Clock(Protocol):
    """Time, for the client. Tests have one of their own."""

    def now(self) -> float:
        """Seconds since any moment; never goes back."""
        ...

    def wait(self, condition: threading.Condition, seconds: float | None) -> None:
        """Wait until the condition, which is held, is notified, or so many seconds have gone."""
        ...


class SystemClock:
    """The clock of this machine."""

    def now(self) -> float:
        """Seconds."""
        return time.monotonic()

    def wait(self, condition: threading.Condition, seconds: float | None) -> None:
        """Wait until notified, or so long."""
        condition.wait(seconds)


@dataclass(frozen=True, slots=True)
class Counters:
    """What a client has done until now.

    `throttled`, `ambiguous` and `retried` count answers about a record, so a record may count several times: its shard
    was over its limit; nobody knows whether the stream has it; its request was not taken.
    """

    acked: int
    acked_bytes: int
    throttled: int
    ambiguous: int
    retried: int
    requests: int
    open: int
    """Records that are not acknowledged yet."""
    queue_bytes: int
    """Their data and keys."""
    blocked: Mapping[str, float]
    """Seconds in which a shard's records waited for its rate, by shard."""
    series: tuple[int, ...]
    """Records acknowledged in each period of `series_seconds`, from the start on."""
    series_seconds: int


@dataclass(slots=True)
class Series:
    """Counts by second, in bounded memory: periods double when there are too many."""

    start: float
    seconds: int = 1
    counts: list[int] = field(default_factory=list)

    def add(self, now: float, count: int) -> None:
        """Count so many, now."""
        period = int((now - self.start) / self.seconds)
        while period >= _LONGEST_SERIES:
            self.counts = [sum(self.counts[at : at + 2]) for at in range(0, len(self.counts), 2)]
            self.seconds *= 2
            period = int((now - self.start) / self.seconds)
        self.counts += [0] * (period + 1 - len(self.counts))
        self.counts[period] += count
