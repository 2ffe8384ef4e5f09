"""The figures of a receiver for Prometheus. Not here: the route that shows them (`server`)."""

from __future__ import annotations

from typing import Any

from prometheus_client import GC_COLLECTOR, PROCESS_COLLECTOR, CollectorRegistry, Counter, Gauge, Histogram

from feed_assets.receiving.landing_segments import Outcome


class Metrics:
    """The figures at `/metrics`. No label names a source or a partner: everybody who reaches the server can read it."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.registry.register(PROCESS_COLLECTOR)
        self.registry.register(GC_COLLECTOR)
        of: dict[str, Any] = {"registry": self.registry}
        self.requests = Counter("feed_assets_receive_requests", "Requests for events by status", ["status"], **of)
        self.events = Counter("feed_assets_receive_events", "Durable records by outcome", ["outcome"], **of)
        self.repeats = Counter("feed_assets_receive_repeats", "Requests that repeated an earlier one", **of)
        self.commit = Histogram("feed_assets_receive_commit_seconds", "Seconds of an append to the journal", **of)
        sizes = (1, 2, 5, 10, 20, 50, 100, 200, 500)
        self.group = Histogram("feed_assets_receive_commit_requests", "Requests in an append", buckets=sizes, **of)
        self.held = Gauge("feed_assets_receive_held_bytes", "Bytes of requests that are not answered yet", **of)
        self.backlog = Gauge("feed_assets_receive_backlog_segments", "Sealed segments that have not landed", **of)
        self.stuck = Gauge("feed_assets_receive_stuck_segments", "Segments that only a stuck source keeps", **of)
        self.oldest = Gauge("feed_assets_receive_backlog_seconds", "Seconds that the oldest event waits, at most", **of)
        self.landed = Counter("feed_assets_receive_landed", "Landed records by outcome", ["outcome"], **of)

    def observe(self, requests: int, seconds: float) -> None:
        """Count an append of `requests`, which took `seconds`."""
        self.group.observe(requests)
        self.commit.observe(seconds)

    def land(self, outcome: Outcome) -> None:
        """Count the records of a segment that has landed."""
        self.landed.labels("landed").inc(outcome.landed)
        self.landed.labels("quarantined").inc(outcome.quarantined)
