"""Requests each run once for one state of the input, and never while a run of the same feed is under way.

A tick compares and replaces requests in the state database in one transaction: if two ticks run at once, on any
machines, only one requests a run. Dagster's database may be lost. If the state database is lost, each request that is
still due is made at most once more. A tick records requests last, so an interrupted tick leaves no request that nobody
got. A request without a result is repeated a few times: storage may not have answered, or a machine may have died. A
request that never became a run does not count. It is repeated with its run key, which Dagster starts once. While a run
is under way, ticks renew the time of its request: so another Dagster, which does not know the run, does not repeat it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any, Protocol

from feed_assets.blackboard.port import Blackboard
from feed_assets.file_feed.digest import short_digest
from feed_assets.starts.graph import FeedGraph
from feed_assets.starts.tables import (
    LastRequest,
    last_requests,
    read_last_requests,
    record_request,
    renew_request,
)
from feed_assets.state.store import Store, Transaction

MAX_REQUESTS = 20
"""Runs requested in one tick; the next tick requests the rest."""
MOST_TIMES = 3
"""Requests for one state of the input, if no run has a result."""
FIRST_PAUSE = timedelta(minutes=10)
"""Pause before the second request; it doubles each time. A request that is not a run by then was lost.

The pause begins again when a request is renewed, which a tick does after half of it.
"""


@dataclass(frozen=True, slots=True)
class Need:
    """A partition to compute: `due` maps each feed to the state of its input; `downstream` feeds join the run.

    `report` is what a report on the run begins with, as JSON; None if nobody gets a report.
    """

    partition: str
    due: Mapping[str, str]
    reason: str
    downstream: tuple[str, ...] = ()
    report: Mapping[str, Any] | None = None

    @property
    def feeds(self) -> tuple[str, ...]:
        """All feeds of the run."""
        return (*self.due, *self.downstream)


@dataclass(frozen=True, slots=True)
class Request:
    """A need whose requests are on record: `recorded` maps each feed that is due to its recorded request."""

    need: Need
    recorded: Mapping[str, LastRequest]


class RecordReport(Protocol):
    """Records the beginning of a report on a run, in the transaction that records its request."""

    def __call__(self, transaction: Transaction, request: Request, *, report: str, base: str, at: datetime) -> None:
        """`report` is the id of the report: equal for equal requests. `base` is the URI of the feeds' base."""


def again_at(last: LastRequest) -> datetime | None:
    """When the same state may be requested again, if it has no result by then; None if never."""
    return last.at + FIRST_PAUSE * 2 ** (last.times - 1) if last.times < MOST_TIMES else None


@dataclass(slots=True)
class Requests:
    """The requests of one tick.

    `busy` are the feeds that runs under way compute, by partition. `became_a_run` says whether a recorded request of a
    feed and partition was started.
    """

    store: Store
    board: Blackboard
    graph: FeedGraph
    now: datetime
    busy: Mapping[str, frozenset[str]]
    became_a_run: Callable[[str, str, LastRequest], bool]
    record_report: RecordReport | None = None
    """Needed if a need has a `report`."""
    held: Callable[[str, str, str], str | None] = lambda _, __, ___: None
    """Why a feed that is due waits, by the feed, the partition and the state of its input; None: nothing holds it."""
    notes: list[str] = field(default_factory=list)
    given_up: set[tuple[str, str]] = field(default_factory=set)
    already: int = 0
    left_over: int = 0
    _planned: list[Need] = field(default_factory=list)
    _seen: dict[tuple[str, str], LastRequest | None] = field(default_factory=dict)
    """The recorded request of a feed and partition, as this tick read it."""
    _times: dict[tuple[str, str], int] = field(default_factory=dict)
    """How often a feed and partition is requested, this tick's request included."""
    _renewed: set[tuple[str, str]] = field(default_factory=set)
    """The feeds and partitions whose recorded request is renewed: a run is under way, or its time is to come."""

    @property
    def decided(self) -> list[str]:
        """The decisions of this tick, for the log."""
        more = f"{self.left_over} more are due, left for the next tick: {MAX_REQUESTS} were requested"
        return [*self.notes, more] if self.left_over else self.notes

    @property
    def planned(self) -> int:
        """How many runs this tick requests."""
        return len(self._planned)

    @property
    def full(self) -> bool:
        """Whether this tick has planned MAX_REQUESTS runs."""
        return self.planned >= MAX_REQUESTS

    def not_yet_requested(self, partition: str, due: Mapping[str, str]) -> dict[str, str]:
        """The feeds to request now: not yet requested for this state, or requested long ago without a result."""
        self.look_up((feed, partition) for feed in due)
        return {feed: state for feed, state in due.items() if self._may_request(feed, partition, state)}

    def look_up(self, places: Iterable[tuple[str, str]]) -> None:
        """Read the recorded requests of these feeds and partitions in one query, before `not_yet_requested` of each."""
        new = {place: self._on_record(*place) for place in places if place not in self._seen}
        found = last_requests(self.store, new.values())
        self._seen |= {place: found.get(key) for place, key in new.items()}

    def _may_request(self, feed: str, partition: str, state: str) -> bool:
        last = self._seen[feed, partition]
        times = 1 if last is None or last.state != state else self._times_again(feed, partition, last)
        if times is None:
            self.already += 1
            return False
        if (why := self.held(feed, partition, state)) is not None:
            self.notes.append(f"{self._title((feed,), partition)} {why}")
            return False
        self._times[feed, partition] = times
        return True

    def _times_again(self, feed: str, partition: str, last: LastRequest) -> int | None:
        """The number of the next request for the same state, or of this one if it never became a run; None if not now.

        The last request of all is given up if it has no result, and no run is under way.
        """
        under_way, half = feed in self.busy.get(partition, frozenset()), FIRST_PAUSE / 2
        clock_was_ahead = self.now < last.at - half  # the pause begins now, not when that time has come
        if clock_was_ahead or (under_way and self.now >= last.at + half):
            self._renewed.add((feed, partition))
        if self.now < last.at + FIRST_PAUSE:
            return None
        if not self.became_a_run(feed, partition, last):
            return last.times
        again = again_at(last)
        if again is None and not under_way:
            self._give_up(feed, partition, last)
        return last.times + 1 if again is not None and self.now >= again else None

    def add(self, need: Need) -> None:
        """Plan a run of a need with `due` from `not_yet_requested`, unless a run is under way or the tick is full."""
        if self.busy.get(need.partition, frozenset()) & set(need.feeds):
            title = self._title(need.feeds, need.partition)
            self.notes.append(f"{title}: a run on it is under way, a later tick decides ({need.reason})")
        elif self.full:
            self.left_over += 1
        else:
            self._planned.append(need)

    def put_on_record(self) -> list[Request]:
        """Record and return the planned requests, without feeds that another tick has requested meanwhile.

        Renew the requests whose runs are under way, and those of a clock that was ahead.

        A report on a run is recorded in the same transaction, so there is never one without the other.

        Call it last in a tick: a recorded request counts as made. Raises StoreError: then the next tick requests the
        runs, or the first tick after FIRST_PAUSE if the connection was lost during the commit.
        """
        if not self._planned and not self._renewed:
            return []
        with self.store.writing() as transaction:
            places = self._renewed | {(feed, need.partition) for need in self._planned for feed in need.due}
            known = read_last_requests(transaction.connection, {self._on_record(*place) for place in places})
            for place in self._renewed:
                if known.get(key := self._on_record(*place)) == self._seen[place]:
                    renew_request(transaction, key, self.now)
            return [request for need in self._planned if (request := self._record(transaction, need, known))]

    def _record(
        self, transaction: Transaction, need: Need, recorded: Mapping[tuple[str, str], LastRequest]
    ) -> Request | None:
        """Record the feeds that no other tick has requested since; if some are left out, downstream feeds wait."""
        requested: dict[str, LastRequest] = {}
        for feed, state in need.due.items():
            place, key = (feed, need.partition), self._on_record(feed, need.partition)
            if recorded.get(key) == self._seen[place]:
                requested[feed] = LastRequest(state, self._times[place], self.now)
                record_request(transaction, key, requested[feed], reason=need.reason)
        if not requested:
            self.notes.append(f"{self._title(need.feeds, need.partition)}: another tick has just requested it")
            return None
        downstream = need.downstream if len(requested) == len(need.due) else ()
        need = replace(need, due={feed: last.state for feed, last in requested.items()}, downstream=downstream)
        self.notes.append(f"{self._title(need.feeds, need.partition)}: run requested ({need.reason})")
        request = Request(need, requested)
        if need.report is not None:
            self._record_report(transaction, request)
        return request

    def _record_report(self, transaction: Transaction, request: Request) -> None:
        if self.record_report is None:
            raise TypeError("a need with a report, and no `record_report`")
        subjects = [
            f"{self._on_record(feed, request.need.partition)}{last.state}#{last.times}"
            for feed, last in request.recorded.items()
        ]
        report = short_digest("\n".join(sorted(subjects)))
        self.record_report(transaction, request, report=report, base=self.board.uri(""), at=self.now)

    def _give_up(self, feed: str, partition: str, last: LastRequest) -> None:
        self.given_up.add((feed, partition))
        self.notes.append(
            f"{self._title((feed,), partition)} was requested {last.times} times for its present state and "
            "came to no result: check its runs, then use `feed-assets backfill`"
        )

    def _on_record(self, feed: str, partition: str) -> tuple[str, str]:
        """The feed's URI and the partition: several bases may share the state database."""
        return self.graph.feeds[feed].declaration.on(self.board).uri, partition

    def _title(self, feeds: Iterable[str], partition: str) -> str:
        """The feeds and the partition, if they have any, for people."""
        names = ", ".join(self.graph.feeds[feed].name for feed in feeds)
        return f"{names} of {partition}" if partition else names


def state_of(update: str | None, inputs: str) -> str:
    """The state that a request answers: equal inputs are another state if another update is in force."""
    return f"{update or 'none'}/{inputs}"


def in_force_in(state: str) -> str | None:
    """The update in force that a state names; None if there was none."""
    update = state.partition("/")[0]
    return None if update == "none" else update
