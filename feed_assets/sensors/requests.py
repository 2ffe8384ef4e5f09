"""Asking for runs once: for one state of the input, and never while a run on it is under way.

Here: what both sensors share. Not here: why a run is needed, and what is under way (`busy`).

What was asked for is an object in the control area of the asset's feed, written on condition that nobody wrote it
since it was read. So of two ticks at once one asks, on whatever machines they run, and Dagster's database may be lost.
A request that leads to no result is repeated a few times: a store that did not answer, or a machine that died, leaves
no partition stale until a person looks.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any

import dagster as dg

from feed_assets.blackboard import AlreadyExistsError, Blackboard, ConflictError, NotFoundError
from feed_assets.file_feed import Feed
from feed_assets.sensors.feeds import FeedGraph

MAX_REQUESTS = 20
"""Runs asked for in one tick; what is left over is still due in the next."""

MOST_TIMES = 3
"""How often one state of the input is asked for where no result comes."""

FIRST_PAUSE = timedelta(minutes=10)
"""How long after the first request the second may follow; the pause doubles each time."""

WHY_TAG = "feed_assets/why"
AREA = "requests"


@dataclass(frozen=True, slots=True)
class Need:
    """A partition that has to be computed again: `due` names for each asset the state of its input that makes it so.

    `along` are the assets downstream that go into the same run.
    """

    partition: str
    due: Mapping[dg.AssetKey, str]
    reason: str
    along: tuple[dg.AssetKey, ...] = ()

    @property
    def assets(self) -> tuple[dg.AssetKey, ...]:
        """All assets of the run."""
        return (*self.due, *self.along)

    @property
    def title(self) -> str:
        """The assets and the partition, for people."""
        return f"{', '.join(key.to_user_string() for key in self.assets)} of {self.partition}"


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


def last_asked(feed: Feed, partition: str) -> Asked | None:
    """What was last asked for of this partition; None where nothing was, or it cannot be read. One GET."""
    return _read(feed, partition)[0]


@dataclass(slots=True)
class Requests:
    """The requests of one tick."""

    sensor: str
    board: Blackboard
    feeds: FeedGraph
    busy: Mapping[str, frozenset[dg.AssetKey]]
    now: datetime
    run_config: Mapping[str, Any] = field(default_factory=dict)
    runs: list[dg.RunRequest] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    given_up: set[tuple[dg.AssetKey, str]] = field(default_factory=set)
    already: int = 0
    left_over: int = 0
    _found: dict[tuple[dg.AssetKey, str], tuple[Asked | None, str | None]] = field(default_factory=dict)

    @property
    def decided(self) -> list[str]:
        """What was decided, for the log."""
        more = f"{self.left_over} more are due, left for the next tick: {MAX_REQUESTS} were requested"
        return [*self.notes, more] if self.left_over else self.notes

    @property
    def full(self) -> bool:
        """Whether this tick has asked for as much as one tick may."""
        return len(self.runs) >= MAX_REQUESTS

    def not_yet_asked(self, partition: str, due: Mapping[dg.AssetKey, str]) -> dict[dg.AssetKey, str]:
        """Those that may be asked for now: not asked for in this state of their input, or long ago without a result."""
        open_ones = {}
        for key, state in due.items():
            asked, _ = self._found[key, partition] = _read(self._feed(key), partition)
            if asked is None or asked.state != state:
                open_ones[key] = state
            elif asked.again_at is None:
                self.already += 1
                self.given_up.add((key, partition))
                self.notes.append(
                    f"{key.to_user_string()} of {partition} was requested {asked.times} times for its present state "
                    "and came to no result: look at its runs, then use `feed-assets backfill`"
                )
            elif self.now < asked.again_at:
                self.already += 1
            else:
                open_ones[key] = state
        return open_ones

    def add(self, need: Need) -> bool:
        """Ask for a run, unless one is under way or the tick has asked for enough; False where it is still due.

        `need.due` comes from `not_yet_asked`. An asset that another tick asks for meanwhile is left out.
        """
        if self.busy.get(need.partition, frozenset()) & set(need.assets):
            self.notes.append(f"{need.title}: a run on it is under way, looked at again afterwards ({need.reason})")
            return False
        if self.full:
            self.left_over += 1
            return False
        taken = {key: asked for key, state in need.due.items() if (asked := self._take(key, need.partition, state))}
        if not taken:
            self.notes.append(f"{need.title}: another tick has just requested it")
            return True
        need = replace(need, due={key: asked.state for key, asked in taken.items()})
        self.notes.append(f"{need.title}: run requested ({need.reason})")
        subjects = sorted(
            f"{key.to_user_string()}@{need.partition}:{asked.state}#{asked.times}" for key, asked in taken.items()
        )
        self.runs.append(
            dg.RunRequest(
                run_key=f"{self.sensor}:{','.join(subjects)}",
                run_config=dict(self.run_config),
                partition_key=need.partition,
                asset_selection=list(need.assets),
                tags={WHY_TAG: need.reason[:250]},
            )
        )
        return True

    def _take(self, key: dg.AssetKey, partition: str, state: str) -> Asked | None:
        """Put the request on record; None where another tick did so since it was looked for."""
        before, tag = self._found[key, partition]
        times = before.times + 1 if before is not None and before.state == state else 1
        asked = Asked(state, times, self.now)
        where = _key(self._feed(key), partition)
        try:
            if tag is None:
                self.board.create(where, asked.to_json())
            else:
                self.board.replace(where, asked.to_json(), tag=tag)
        except (AlreadyExistsError, ConflictError):
            return None
        return asked

    def _feed(self, key: dg.AssetKey) -> Feed:
        return self.feeds.assets[key].declaration.on(self.board)


def load_cursor(text: str | None) -> dict[str, object]:
    """The cursor's content; one that cannot be read starts afresh: storage and run keys keep that harmless."""
    try:
        content = json.loads(text or "{}")
    except ValueError:
        return {}
    return content if isinstance(content, dict) else {}


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
