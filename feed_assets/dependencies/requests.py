"""Asking for runs once: for one state of the input, and never while a run on it is under way.

Here: the record of what was asked for. Not here: why a run is needed, what is under way, and starting runs.

What was asked for is an object in the control area of the feed, written on condition that nobody wrote it
since it was read. So of two ticks at once one asks, on whatever machines they run, and Dagster's database may be lost.
These objects are the last thing that a tick writes: whatever interrupts it before leaves no request on record that
nobody got. A request that leads to no result is repeated a few times: a store that did not answer, or a machine
that died, leaves no partition stale until a person looks. A request that never became a run does not count.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from feed_assets.blackboard import AlreadyExistsError, Blackboard, BlackboardError, ConflictError, NotFoundError
from feed_assets.dependencies.graph import FeedGraph
from feed_assets.file_feed import Feed
from feed_assets.file_feed.wording import counted

MAX_REQUESTS = 20
"""Runs asked for in one tick; what is left over is still due in the next."""

MOST_TIMES = 3
"""How often one state of the input is asked for where no result comes."""

FIRST_PAUSE = timedelta(minutes=10)
"""How long after the first request the second may follow; the pause doubles each time.

After so long a request that has not become a run was lost.
"""

AREA = "requests"


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
class Asked:
    """What was last asked for of a partition: for which state of its input, how often, and when last."""

    state: str
    times: int
    at: datetime

    @property
    def again_at(self) -> datetime | None:
        """When the same may be asked for again, if no result has come by then; None if never."""
        return self.at + FIRST_PAUSE * 2 ** (self.times - 1) if self.times < MOST_TIMES else None

    def to_json(self) -> bytes:
        """As it is stored."""
        return json.dumps({"state": self.state, "times": self.times, "at": self.at.isoformat()}).encode()


@dataclass(frozen=True, slots=True)
class Request:
    """A need whose requests are on record: `asked` is what stands there for each feed that is due."""

    need: Need
    asked: Mapping[str, Asked]


def last_asked(feed: Feed, partition: str) -> Asked | None:
    """What was last asked for of this partition; None where nothing was, or it cannot be read. One GET."""
    return _read(feed, partition)[0]


@dataclass(slots=True)
class Requests:
    """The requests of one tick.

    `busy` are the feeds that runs under way compute, by partition. `became_a_run` answers whether what was asked for of
    a feed and partition was started.
    """

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
    _found: dict[tuple[str, str], tuple[str | None, int]] = field(default_factory=dict)
    """Before a request: the tag of the object that it replaces, if there is one, and how often it will have asked."""

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
        return {feed: state for feed, state in due.items() if self._may_ask(feed, partition, state)}

    def _may_ask(self, feed: str, partition: str, state: str) -> bool:
        asked, tag = _read(self._feed(feed), partition)
        times = 1
        if asked is not None and asked.state == state:
            if self.now < asked.at + FIRST_PAUSE:
                self.already += 1
                return False
            times = asked.times
            if self.became_a_run(feed, partition, asked):
                if asked.again_at is None:
                    self._give_up(feed, partition, asked)
                    return False
                if self.now < asked.again_at:
                    self.already += 1
                    return False
                times += 1
        self._found[feed, partition] = tag, times
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

        A feed that another tick asks for meanwhile is left out. Where storage stops answering, the requests that are
        on record are returned and the others are still due; where none is on record, its error is raised.
        """
        requests: list[Request] = []
        for place, need in enumerate(self._planned):
            taken, error = self._take(need)
            if taken:
                requests.append(self._request(need, taken))
            elif error is None:
                self.notes.append(f"{self._title(need)}: another tick has just requested it")
            if error is not None:
                if not requests:
                    raise error
                left = counted(len(self._planned) - place, "request")
                self.notes.append(f"{left} could not be put on record whole, left for the next tick: {error}")
                break
        return requests

    def _request(self, need: Need, taken: Mapping[str, Asked]) -> Request:
        """A run of the feeds whose requests are on record; the feeds downstream wait if others are missing."""
        downstream = need.downstream if len(taken) == len(need.due) else ()
        need = replace(need, due={feed: asked.state for feed, asked in taken.items()}, downstream=downstream)
        self.notes.append(f"{self._title(need)}: run requested ({need.reason})")
        return Request(need, taken)

    def _take(self, need: Need) -> tuple[dict[str, Asked], BlackboardError | None]:
        """The feeds whose requests are on record now, and why storage took no more, if it did not.

        A feed is left out if another tick has asked for it since it was looked for.
        """
        taken: dict[str, Asked] = {}
        for feed, state in need.due.items():
            tag, times = self._found[feed, need.partition]
            asked, where = Asked(state, times, self.now), _key(self._feed(feed), need.partition)
            try:
                if tag is None:
                    self.board.create(where, asked.to_json())
                else:
                    self.board.replace(where, asked.to_json(), tag=tag)
            except (AlreadyExistsError, ConflictError):
                continue
            except BlackboardError as error:
                return taken, error
            taken[feed] = asked
        return taken, None

    def _give_up(self, feed: str, partition: str, asked: Asked) -> None:
        self.already += 1
        self.given_up.add((feed, partition))
        self.notes.append(
            f"{self.graph.feeds[feed].name} of {partition} was requested {asked.times} times for its present state "
            "and came to no result: look at its runs, then use `feed-assets backfill`"
        )

    def _feed(self, feed: str) -> Feed:
        return self.graph.feeds[feed].declaration.on(self.board)

    def _title(self, need: Need) -> str:
        """The feeds and the partition, for people."""
        return f"{', '.join(self.graph.feeds[feed].name for feed in need.feeds)} of {need.partition}"


def state_of(update: str | None, inputs: str) -> str:
    """The state that a request answers: what is in force, and the inputs as they are.

    Inputs that are what they were some time ago are another state, where something else was made since.
    """
    return f"{update or 'none'}/{inputs}"


def _key(feed: Feed, partition: str) -> str:
    return f"{feed.control(AREA, partition)}asked.json"


def _read(feed: Feed, partition: str) -> tuple[Asked | None, str | None]:
    """What was asked for, and the tag to replace it by; one that cannot be read is replaced by the next request."""
    try:
        content = feed.blackboard.read(_key(feed, partition))
    except NotFoundError:
        return None, None
    try:
        fields = json.loads(content.data)
        asked = Asked(str(fields["state"]), int(fields["times"]), datetime.fromisoformat(fields["at"]))
    except (ValueError, KeyError, TypeError):
        return None, content.entry.tag
    return asked, content.entry.tag
