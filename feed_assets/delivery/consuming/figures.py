"""The figures of a consumer for Prometheus. Not here: the route that shows them (`serving`).

Labels name shards, hops and outcomes, never keys or data.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any, Final

from prometheus_client import CollectorRegistry, Counter, Gauge

_NAME: Final = "feed_assets_delivery"


class Figures:
    """What one process has done, and how far behind it is. `show` brings the ages up to date."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        of: dict[str, Any] = {"registry": self.registry}
        self.records = Counter(f"{_NAME}_records", "Records by hop and outcome", ["hop", "outcome"], **of)
        self.losses = Counter(f"{_NAME}_losses", "Shards whose records were dropped unread", **of)
        self.shards = Gauge(f"{_NAME}_shards", "Shards that this process reads", **of)
        self._lag = Gauge(f"{_NAME}_lag_seconds", "Age of the oldest record that may be unsettled", ["shard"], **of)
        self._waiting = Gauge(f"{_NAME}_waiting", "1 if the shard waits for a store or a repair", ["shard"], **of)
        self._unsettled = Gauge(f"{_NAME}_oldest_unsettled_seconds", "Age of the oldest unsettled delivery", **of)
        self.until: dict[str, datetime] = {}
        """Of each shard that is read: all records that arrived before this time are settled."""
        self.waiting: dict[str, str] = {}
        """Why shards wait."""
        self.oldest: datetime | None = None
        """When the oldest delivery ended that is not settled."""

    def forget(self, shard: str) -> None:
        """Show nothing more of a shard: another process reads it."""
        self.until.pop(shard, None)
        self.waiting.pop(shard, None)

    def late(self, most: timedelta, now: datetime) -> list[str]:
        """The shards that are further behind."""
        return sorted(shard for shard, until in self.until.copy().items() if now - until > most)

    def show(self, now: datetime) -> CollectorRegistry:
        """The registry, with the ages of now."""
        self._lag.clear()
        self._waiting.clear()
        for shard, until in self.until.copy().items():
            self._lag.labels(shard).set(max(0.0, (now - until).total_seconds()))
            self._waiting.labels(shard).set(shard in self.waiting)
        self.shards.set(len(self.until))
        self._unsettled.set((now - self.oldest).total_seconds() if self.oldest else 0.0)
        return self.registry
