"""The figures of a master for Prometheus. Not here: the route that shows them (`service`).

Labels name groups and kinds of calls, never payloads, keys or people.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final, TypeVar

from prometheus_client import GC_COLLECTOR, PROCESS_COLLECTOR, CollectorRegistry, Counter, Gauge, Histogram
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from feed_assets.workflow.calls import AnyCall, Commit, Lease, Reply
from feed_assets.workflow.master import Journal

MOST_GROUPS: Final = 200
"""Groups with a label of their own: those with the most tasks. The others are summed up under an empty label."""
_NAME: Final = "feed_assets_workflow"
_STATUSES: Final = ("waiting", "leased", "dead")
S = TypeVar("S")


class Figures:
    """The figures at `/metrics`. `show` sets those of the state; the others are counted as things happen."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.registry.register(PROCESS_COLLECTOR)
        self.registry.register(GC_COLLECTOR)
        of: dict[str, Any] = {"registry": self.registry}
        self.calls = Counter(f"{_NAME}_calls", "Calls by kind; a repeated call counts again", ["call"], **of)
        self.refusals = Counter(f"{_NAME}_refusals", "Refused calls by kind and reason", ["call", "refused"], **of)
        self.leases = Counter(f"{_NAME}_leases", "Leased tasks", **of)
        self.commits = Counter(f"{_NAME}_commits", "Committed tasks", **of)
        self.entry = Histogram(f"{_NAME}_entry_seconds", "Seconds of an append to the journal", **of)
        sizes = [1024 * 4**each for each in range(7)]
        self.entry_bytes = Histogram(f"{_NAME}_entry_bytes", "Bytes of an append to the journal", buckets=sizes, **of)
        self.replay = Gauge(f"{_NAME}_replay_seconds", "Seconds in which this master read the journal", **of)
        self.epoch = Gauge(f"{_NAME}_epoch", "Number of this master's reign", **of)
        self.position = Gauge(f"{_NAME}_position", "Changes in the journal", **of)
        self.sessions = Gauge(f"{_NAME}_sessions", "Sessions of clients", **of)
        self.undecided = Gauge(f"{_NAME}_undecided_writes", "Writes of which the store does not say the outcome", **of)
        self._groups = _Groups()
        self.registry.register(self._groups)
        self._began = 0.0

    def count(self, call: AnyCall, reply: Reply) -> None:
        """Count a call and its answer."""
        name, refused = str(type(call).__struct_config__.tag), reply.answer.refused
        self.calls.labels(name).inc()
        if refused:
            self.refusals.labels(name, refused).inc()
        elif isinstance(call, Lease):
            self.leases.inc(len(reply.tasks))
        elif isinstance(call, Commit):
            self.commits.inc(len(call.consume))

    def show(self, groups: Iterable[Any], oldest: dict[str, float], now: float) -> None:
        """Set the figures of groups; `oldest` has the times (seconds since 1970) of their oldest waiting tasks."""
        sizes = {each.name: [getattr(each, status) for status in _STATUSES] for each in groups}
        own = sorted(sizes, key=lambda name: sum(sizes[name]), reverse=True)[:MOST_GROUPS]
        counts = {name: sizes[name] for name in own}
        if others := [sizes[name] for name in sizes if name not in counts]:
            counts[""] = [sum(each) for each in zip(*others, strict=True)]
        self._groups.counts = counts
        self._groups.ages = {name: max(0.0, now - oldest[name]) for name in own if name in oldest}

    def timed(self, load: Callable[[bytes | None], S]) -> Callable[[bytes | None], S]:
        """The same function; a replay begins when it is called, and ends with `replayed`."""

        def loaded(dump: bytes | None) -> S:
            self._began = time.monotonic()
            return load(dump)

        return loaded

    def replayed(self) -> None:
        """The state is there."""
        self.replay.set(time.monotonic() - self._began)


class MeasuredJournal:
    """A journal whose appends are measured."""

    def __init__(self, journal: Journal, figures: Figures) -> None:
        self._journal, self._figures = journal, figures

    @property
    def is_undecided(self) -> bool:
        """See `Journal`."""
        return self._journal.is_undecided

    def append(self, first_position: int, mutations: Sequence[bytes]) -> None:
        """See `Journal`."""
        with self._figures.entry.time():
            self._journal.append(first_position, mutations)
        self._figures.entry_bytes.observe(sum(map(len, mutations)))


class _Groups(Collector):
    """The figures of groups. A group that is gone has none any more, so they are made anew for each answer."""

    def __init__(self) -> None:
        self.counts: dict[str, list[int]] = {}
        self.ages: dict[str, float] = {}

    def collect(self) -> Iterable[Metric]:
        tasks = GaugeMetricFamily(f"{_NAME}_tasks", "Tasks by group and state", labels=["group", "status"])
        for group, counts in self.counts.items():
            for status, count in zip(_STATUSES, counts, strict=True):
                tasks.add_metric([group, status], count)
        oldest = GaugeMetricFamily(
            f"{_NAME}_oldest_seconds", "Seconds for which the oldest waiting task could have started", labels=["group"]
        )
        for group, age in self.ages.items():
            oldest.add_metric([group], age)
        return tasks, oldest
