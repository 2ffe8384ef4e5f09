"""Asking for runs once: for one state of the input, and never while a run on it is under way.

Here: the record of what was asked for. Not here: why a run is needed, what is under way, and starting runs.

What was asked for is in the state database; a tick compares and replaces it in one transaction. So of two ticks at
once one asks, on whatever machines they run, and Dagster's database may be lost. If the state database is lost, each
request that is still due is made once more at most. Asking is the last thing that a tick does: whatever interrupts it
before leaves no request on record that nobody got. A request that leads to no result is repeated a few times: a store
that did not answer, or a machine that died, leaves no partition stale until a person looks. A request that never became
a run does not count, and is repeated under its run key, which Dagster starts once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from feed_assets.blackboard import Blackboard
from feed_assets.dependencies.graph import FeedGraph
from feed_assets.state import Asked, Store, asked_in, last_asked, record_asked
from feed_assets.state.store import Transaction

MAX_REQUESTS = 20
"""Runs asked for in one tick; what is left over is still due in the next."""

MOST_TIMES = 3
"""How often one state of the input is asked for where no result comes."""

FIRST_PAUSE = timedelta(minutes=10)
"""How long after the first request the second may follow; the pause doubles each time.

After so long a request that has not become a run was lost.
"""


@dataclass(frozen=True, slots=True)
class Need:
    """A partition to be computed again: `due` names for each feed the state of its input that makes it so.

    `downstream` are the feeds that go into the same run.
    """

    partition: str
    due: Mapping[str, str]
    reason: str
    downstream: tuple[str, ...] = ()

    @property
    def feeds(self) -> tuple[str, ...]:
        """All feeds of the run."""
        return (*self.due, *self.downstream)


@dataclass(frozen=True, slots=True)
class Request:
    """A need whose requests are on record: `asked` is what stands there for each feed that is due."""

    need: Need
    asked: Mapping[str, Asked]


def again_at(asked: Asked) -> datetime | None:
    """When the same may be asked for again, if no result has come by then; None if never."""
    return asked.at + FIRST_PAUSE * 2 ** (asked.times - 1) if asked.times < MOST_TIMES else None


@dataclass(slots=True)
class Requests:
    """The requests of one tick.

    `busy` are the feeds that runs under way compute, by partition. `became_a_run` answers whether what was asked for of
    a feed and partition was started.
    """

    store: Store
    board: Blackboard
    graph: FeedGraph
    now: datetime
    busy: Mapping[str, frozenset[str]]
    became_a_run: Callable[[str, str, Asked], bool]
    notes: list[str] = field(default_factory=list)
    given_up: set[tuple[str, str]] = field(default_factory=set)
    already: int = 0
    left_over: int = 0
    _planned: list[Need] = field(default_factory=list)
    _seen: dict[tuple[str, str], Asked | None] = field(default_factory=dict)
    """What was on record of a feed and partition when this tick looked."""
    _times: dict[tuple[str, str], int] = field(default_factory=dict)
    """How often a feed and partition will have been asked for, with this tick's request."""

    @property
    def decided(self) -> list[str]:
        """What was decided, for the log."""
        more = f"{self.left_over} more are due, left for the next tick: {MAX_REQUESTS} were requested"
        return [*self.notes, more] if self.left_over else self.notes

    @property
    def planned(self) -> int:
        """How many runs this tick is going to ask for."""
        return len(self._planned)

    @property
    def full(self) -> bool:
        """Whether this tick is going to ask for as much as one tick may."""
        return self.planned >= MAX_REQUESTS

    def not_yet_asked(self, partition: str, due: Mapping[str, str]) -> dict[str, str]:
        """The feeds to ask for now: not asked for in this state of their input, or long ago without a result."""
        self.look_up((feed, partition) for feed in due)
        return {feed: state for feed, state in due.items() if self._may_ask(feed, partition, state)}

    def look_up(self, places: Iterable[tuple[str, str]]) -> None:
        """Read what is on record of these feeds and partitions in one query, before `not_yet_asked` of each."""
        new = {place: self._on_record(*place) for place in places if place not in self._seen}
        found = last_asked(self.store, new.values())
        self._seen |= {place: found.get(key) for place, key in new.items()}

    def _may_ask(self, feed: str, partition: str, state: str) -> bool:
        asked = self._seen[feed, partition]
        times = 1
        if asked is not None and asked.state == state:
            if self.now < asked.at + FIRST_PAUSE:
                self.already += 1
                return False
            times = asked.times
            if self.became_a_run(feed, partition, asked):
                again = again_at(asked)
                if again is None:
                    self._give_up(feed, partition, asked)
                    return False
                if self.now < again:
                    self.already += 1
                    return False
                times += 1
        self._times[feed, partition] = times
        return True

    def add(self, need: Need) -> None:
        """Plan a run, unless one is under way or the tick asks for enough already. `put_on_record` asks for it.

        `need.due` comes from `not_yet_asked`.
        """
        if self.busy.get(need.partition, frozenset()) & set(need.feeds):
            self.notes.append(
                f"{self._title(need)}: a run on it is under way, looked at again afterwards ({need.reason})"
            )
        elif self.full:
            self.left_over += 1
        else:
            self._planned.append(need)

    def put_on_record(self) -> list[Request]:
        """Ask for the planned runs: the last thing that a tick does, as what is on record counts as asked for.

        A feed that another tick has asked for meanwhile is left out. Raises StoreError: then the next tick asks, or, if
        the connection was lost during the commit, the one after FIRST_PAUSE.
        """
        if not self._planned:
            return []
        with self.store.writing() as transaction:
            places = {self._on_record(feed, need.partition) for need in self._planned for feed in need.due}
            there = asked_in(transaction.connection, places)
            return [request for need in self._planned if (request := self._ask(transaction, need, there))]

    def _ask(self, transaction: Transaction, need: Need, there: Mapping[tuple[str, str], Asked]) -> Request | None:
        """A run of the feeds that no other tick has asked for since; the feeds downstream wait if some are missing."""
        taken: dict[str, Asked] = {}
        for feed, state in need.due.items():
            place, key = (feed, need.partition), self._on_record(feed, need.partition)
            if there.get(key) == self._seen[place]:
                taken[feed] = Asked(state, self._times[place], self.now)
                record_asked(transaction, key, taken[feed], reason=need.reason)
        if not taken:
            self.notes.append(f"{self._title(need)}: another tick has just requested it")
            return None
        downstream = need.downstream if len(taken) == len(need.due) else ()
        need = replace(need, due={feed: asked.state for feed, asked in taken.items()}, downstream=downstream)
        self.notes.append(f"{self._title(need)}: run requested ({need.reason})")
        return Request(need, taken)

    def _give_up(self, feed: str, partition: str, asked: Asked) -> None:
        self.already += 1
        self.given_up.add((feed, partition))
        self.notes.append(
            f"{self.graph.feeds[feed].name} of {partition} was requested {asked.times} times for its present state "
            "and came to no result: look at its runs, then use `feed-assets backfill`"
        )

    def _on_record(self, feed: str, partition: str) -> tuple[str, str]:
        """The feed's URI and the partition: several bases may share the state database."""
        return self.graph.feeds[feed].declaration.on(self.board).uri, partition

    def _title(self, need: Need) -> str:
        """The feeds and the partition, for people."""
        return f"{', '.join(self.graph.feeds[feed].name for feed in need.feeds)} of {need.partition}"


def state_of(update: str | None, inputs: str) -> str:
    """The state that a request answers: what is in force, and the inputs as they are.

    Inputs that are what they were some time ago are another state, where something else was made since.
    """
    return f"{update or 'none'}/{inputs}"
