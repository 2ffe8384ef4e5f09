"""Requests each run once for one state of the input, and never while a run of the same feed is under way.

Here: what a tick plans, and puts on record as attempts. Not here: how attempts follow each other (`attempt`,
`attempts`), what is due (`late_data`), and asking Dagster (`sensors`).

If two ticks run at once, on any machines, only one requests a run. Dagster's database may be lost. If the state
database is lost, each request that is still due is made at most once more. A tick records requests last, so an
interrupted tick leaves no request that nobody got. A request without a result is repeated a few times: storage may not
have answered, or a machine may have died. A request that never became a run does not count: it is made again as it
was, with its run key, which Dagster starts once.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, Protocol

from feed_assets.blackboard.port import Blackboard
from feed_assets.file_feed.digest import short_digest
from feed_assets.file_feed.wording import counted
from feed_assets.starts.attempt import MOST_TRIES, Answer, Attempt, State
from feed_assets.starts.attempts import Attempts, Requesting, Standing, Wanted
from feed_assets.starts.graph import FeedGraph
from feed_assets.state.store import Store, Transaction

MAX_REQUESTS = 20
"""Runs requested in one tick; the next tick requests the rest."""


@dataclass(frozen=True, slots=True)
class Need:
    """A partition to compute: `due` maps each feed to the state of its input; `downstream` feeds join the run.

    `report` is what a report on the run begins with, as JSON; None if nobody gets a report. The same inputs are tried
    `most` times.
    """

    partition: str
    due: Mapping[str, str]
    reason: str
    downstream: tuple[str, ...] = ()
    report: Mapping[str, Any] | None = None
    most: int = MOST_TRIES

    @property
    def feeds(self) -> tuple[str, ...]:
        """All feeds of the run."""
        return (*self.due, *self.downstream)


@dataclass(frozen=True, slots=True)
class Request:
    """A need whose attempts are on record: `recorded` maps each feed of the run to its attempt."""

    need: Need
    recorded: Mapping[str, Attempt]


class RecordReport(Protocol):
    """Records the beginning of a report on a run, in the transaction that records its request."""

    def __call__(self, transaction: Transaction, request: Request, *, report: str, base: str, at: datetime) -> None:
        """`report` is the id of the report: equal for equal requests. `base` is the URI of the feeds' base."""


@dataclass(slots=True)
class Requests:
    """The requests of one tick. `busy` are the feeds that runs under way compute, by partition."""

    store: Store
    board: Blackboard
    graph: FeedGraph
    now: datetime
    busy: Mapping[str, frozenset[str]]
    record_report: RecordReport | None = None
    """Needed if a need has a `report`."""
    held: Callable[[str, str, str], str | None] = lambda _, __, ___: None
    """Why a feed that is due waits, by the feed, the partition and the state of its input; None: nothing holds it."""
    notes: list[str] = field(default_factory=list)
    given_up: set[tuple[str, str]] = field(default_factory=set)
    already: int = 0
    left_over: int = 0
    runless: Mapping[str, Attempt] = field(default_factory=dict)
    """The attempts that Dagster has no run of, by their keys."""
    at_once: Mapping[str, int] = field(default_factory=dict)
    """How many partitions of a feed may run at once, for feeds with such a limit."""
    _planned: list[Need] = field(default_factory=list)
    _seen: dict[tuple[str, str], Standing] = field(default_factory=dict)
    """What is on record of a feed and partition, as this tick read it."""
    _alive: Counter[str] | None = None
    """How many attempts of a feed are alive, with those that this tick plans."""

    @property
    def attempts(self) -> Attempts:
        """The attempts below this base."""
        return Attempts(self.store, self.board.uri(""), lambda: self.now)

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
        """Read what is on record of these feeds and partitions in one query, before `not_yet_requested` of each."""
        self._seen |= self.attempts.standing({place for place in places if place not in self._seen})

    def _may_request(self, feed: str, partition: str, state: str) -> bool:
        found = self._seen[feed, partition].verdict(state, now=self.now, runless=self.runless)
        if found.answer is Answer.MAY_START:
            why = self.held(feed, partition, state) or self._too_many(feed)
            if why is not None:
                self.notes.append(f"{self._title((feed,), partition)} {why}")
            return why is None
        self.already += 1
        if found.answer is Answer.OVER and feed not in self.busy.get(partition, frozenset()):
            self._give_up(feed, partition)
        return False

    def _too_many(self, feed: str) -> str | None:
        """Why no other partition of a feed may run now; None if one may."""
        if (most := self.at_once.get(feed)) is None:
            return None
        if self._alive is None:
            self._alive = Counter(each.flow for each in self.attempts.alive())
        if self._alive[feed] >= most:
            return f"waits for its turn: {counted(self._alive[feed], 'partition')} of {most} at once are under way"
        self._alive[feed] += 1
        return None

    def add(self, need: Need) -> None:
        """Plan a run of a need with `due` from `not_yet_requested`, unless a run is under way or the tick is full."""
        if self.busy.get(need.partition, frozenset()) & set(need.feeds):
            title = self._title(need.feeds, need.partition)
            self.notes.append(f"{title}: a run on it is under way, a later tick decides ({need.reason})")
        elif self.full:
            self.left_over += 1
        else:
            self._planned.append(need)

    def forced(self) -> list[Request]:
        """The starts that people forced, and of which Dagster has no run yet: their attempts are on record."""
        waiting = [
            each for each in self.runless.values() if each.forced and each.state is State.REQUESTED and self._has(each)
        ]
        needs = [Need(each.slot, {each.flow: each.digest}, f"{each.forced}: {each.reason}") for each in waiting]
        return [Request(need, {each.flow: each}) for need, each in zip(needs, waiting, strict=True)]

    def _has(self, attempt: Attempt) -> bool:
        return attempt.flow in self.graph.feeds and self.graph.has(attempt.flow, attempt.slot)

    def put_on_record(self) -> list[Request]:
        """Record and return the planned requests, without feeds that another tick has requested meanwhile.

        A report on a run is recorded in the same transaction, so there is never one without the other.

        Call it last in a tick: a recorded request counts as made. Raises StoreError: then the next tick requests the
        runs, or the first tick after LOST_AFTER if the connection was lost during the commit.
        """
        if not self._planned:
            return []
        places = {(feed, need.partition) for need in self._planned for feed in need.feeds}
        with self.attempts.requesting(places, runless=self.runless) as requesting:
            return [request for need in self._planned if (request := self._record(requesting, need))]

    def _record(self, requesting: Requesting, need: Need) -> Request | None:
        """Record the feeds that no other tick has requested since; if some are left out, downstream feeds wait."""

        def request(feed: str, state: str) -> bool:
            made = requesting.request(Wanted(feed, need.partition, state, need.reason, need.most))
            if isinstance(made, Attempt):
                recorded[feed] = made
            return isinstance(made, Attempt)

        recorded: dict[str, Attempt] = {}
        due = {feed: state for feed, state in need.due.items() if request(feed, state)}
        if not due:
            self.notes.append(f"{self._title(need.feeds, need.partition)}: another tick has just requested it")
            return None
        together = short_digest("\n".join(sorted(each.key for each in recorded.values())))
        downstream = need.downstream if len(due) == len(need.due) else ()
        downstream = tuple(feed for feed in downstream if request(feed, f"with/{together}"))
        need = replace(need, due=due, downstream=downstream)
        self.notes.append(f"{self._title(need.feeds, need.partition)}: run requested ({need.reason})")
        made = Request(need, recorded)
        if need.report is not None:
            self._record_report(requesting.transaction, made)
        return made

    def _record_report(self, transaction: Transaction, request: Request) -> None:
        if self.record_report is None:
            raise TypeError("a need with a report, and no `record_report`")
        keys = sorted(request.recorded[feed].key for feed in request.need.due)
        report = short_digest("\n".join([self.board.uri(""), *keys]))
        self.record_report(transaction, request, report=report, base=self.board.uri(""), at=self.now)

    def _give_up(self, feed: str, partition: str) -> None:
        self.given_up.add((feed, partition))
        newest = self._seen[feed, partition].newest
        if newest is not None and newest.failed:
            self.notes.append(
                f"{self._title((feed,), partition)} was requested {newest.tries} times for its present state and "
                "came to no result: check its runs, then use `feed-assets backfill`"
            )

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
