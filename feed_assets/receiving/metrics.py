"""The figures of a receiver for Prometheus. Not here: the route that shows them (`server`)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from prometheus_client import GC_COLLECTOR, PROCESS_COLLECTOR, CollectorRegistry, Counter, Gauge, Histogram

from feed_assets.receiving.entries import Header
from feed_assets.receiving.landing_segments import Outcome
from feed_assets.serving.signatures import Refusal

STATUSES: Final = (202, 400, 401, 403, 404, 408, 413, 415, 422, 429, 499, 503)
"""Of requests for events; 499 is a client that ended the connection. Each is counted from 0 on."""


@dataclass(frozen=True, slots=True)
class _OfSource:
    accepted: Counter
    rejected: Counter
    last: Gauge


class Metrics:
    """The figures at `/metrics`. No label names a source or a partner: everybody who reaches the server can read it.

    `of_sources` has the figures of each source, for operators. All series exist from the start.
    """

    def __init__(self, sources: Iterable[str] = ()) -> None:
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
        what = "Signatures that were refused by reason"
        self.signatures = Counter("feed_assets_receive_refused_signatures", what, ["reason"], **of)
        self.of_sources = CollectorRegistry()
        of, labels = {"registry": self.of_sources}, ["source", "outcome"]
        self.source_events = Counter("feed_assets_receive_source_events", "Durable records by outcome", labels, **of)
        self.source_landed = Counter("feed_assets_receive_source_landed", "Landed records by outcome", labels, **of)
        labels, what = ["source"], "Seconds that the oldest request of the source waits to land, at most"
        self.source_lag = Gauge("feed_assets_receive_source_lag_seconds", what, labels, **of)
        what = "When the source's last request came, in seconds since 1970; 0 before the first"
        self.source_last = Gauge("feed_assets_receive_source_last_request_seconds", what, labels, **of)
        self._of_source: dict[str, _OfSource] = {}
        self._begin(sources)

    def _begin(self, sources: Iterable[str]) -> None:
        """Let each series exist with 0: an alert on its increase would miss the first one."""
        for status in STATUSES:
            self.requests.labels(status)
        for reason in Refusal:
            self.signatures.labels(reason.value)
        # Finding a series by its labels takes longer than counting.
        self._accepted, self._rejected = (self.events.labels(outcome) for outcome in ("accepted", "rejected"))
        for outcome in ("landed", "quarantined"):
            self.landed.labels(outcome)
        for source in sources:
            self.source_lag.labels(source)
            accepted, rejected = (self.source_events.labels(source, each) for each in ("accepted", "rejected"))
            self._of_source[source] = _OfSource(accepted, rejected, self.source_last.labels(source))
            for outcome in ("landed", "quarantined"):
                self.source_landed.labels(source, outcome)

    def observe(self, requests: int, seconds: float) -> None:
        """Count an append of `requests`, which took `seconds`."""
        self.group.observe(requests)
        self.commit.observe(seconds)

    def take(self, header: Header) -> None:
        """Count the records of a request that is durable."""
        accepted, rejected, of_source = self._accepted, self._rejected, self._of_source[header.source]
        if header.accepted:
            accepted.inc(header.accepted)
            of_source.accepted.inc(header.accepted)
        if header.rejected:
            rejected.inc(len(header.rejected))
            of_source.rejected.inc(len(header.rejected))
        of_source.last.set(header.at.timestamp())

    def show_lag(self, seconds: Mapping[str, float]) -> None:
        """Set the lag of each of these sources."""
        for source, lag in seconds.items():
            self.source_lag.labels(source).set(lag)

    def land(self, outcome: Outcome) -> None:
        """Count the records of a segment that has landed."""
        self.landed.labels("landed").inc(outcome.landed)
        self.landed.labels("quarantined").inc(outcome.quarantined)
        for source, became in outcome.sources.items():
            self.source_landed.labels(source, "landed").inc(became.landed)
            self.source_landed.labels(source, "quarantined").inc(became.quarantined)
