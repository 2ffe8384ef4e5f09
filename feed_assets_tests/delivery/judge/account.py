"""The account that the judge gives of itself: requests, shards by second, violations, answers that it withheld.

Here: the values, as the server counts them and as tests read them.
"""

from __future__ import annotations

import msgspec

KEPT = 1000
"""Violations are all counted, and so many are described."""


class Violation(msgspec.Struct):
    """A request that a client which knows the limits would not send."""

    operation: str
    kind: str
    message: str
    at: float
    """Seconds since 1970."""


class Second(msgspec.Struct):
    """One second of a shard, or a sum of them."""

    records: int = 0
    bytes: int = 0
    """Of data, before base64, and partition keys."""
    throttled: int = 0
    """Records that were refused because they exceeded the limits of the shard."""

    @property
    def throttled_percent(self) -> float:
        """The share of all records that were throttled, in percent."""
        offered = self.records + self.throttled
        return 100 * self.throttled / offered if offered else 0.0


class ShardAccount(msgspec.Struct):
    """A shard: all it has stored since the judge started, and by second since 1970."""

    total: Second
    seconds: dict[int, Second]


class Unanswered(msgspec.Struct):
    """Requests that were done, and got no answer that says so."""

    requests: int = 0
    records: int = 0


class Account(msgspec.Struct):
    """All counts since the judge started."""

    requests: dict[str, int] = {}
    """By operation."""
    errors: dict[str, int] = {}
    """Requests refused as a whole, by the type of the error."""
    record_errors: dict[str, int] = {}
    """Records that got an error, by its code."""
    faults: dict[str, int] = {}
    """Injected faults by name; of `record_error_*` each record."""
    violations: int = 0
    described: list[Violation] = []
    """The first violations."""
    unanswered: Unanswered = msgspec.field(default_factory=Unanswered)
    """By injected faults. The log marks these records."""
    gone: Unanswered = msgspec.field(default_factory=Unanswered)
    """The client had left before the answer, as after its time-out. The log marks nothing."""
    shards: dict[str, dict[str, ShardAccount]] = {}
    """By stream, also if it was deleted, and shard. If two had one name, the later."""

    def total(self, stream: str) -> Second:
        """The sum of a stream's shards."""
        sums = [shard.total for shard in self.shards[stream].values()]
        return Second(
            sum(each.records for each in sums), sum(each.bytes for each in sums), sum(each.throttled for each in sums)
        )
