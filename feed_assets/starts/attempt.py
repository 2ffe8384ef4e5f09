"""An attempt to compute a slot of a flow, and whether another one may follow it.

Here: values and rules. Not here: their rows (`tables`), changing them (`attempts`), and why a slot is due.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Final

from feed_assets.errors import FeedAssetsError

LEASE: Final = timedelta(seconds=180)
"""How long the lease of a running attempt lasts."""
RENEWALS: Final = 9
"""How often a lease is renewed in its length: every 20 s."""
FIRST_PAUSE: Final = timedelta(minutes=10)
"""The pause after the first failure. It doubles with each further failure."""
LOST_AFTER: Final = FIRST_PAUSE
"""How long a request may take to become a run that Dagster knows."""
MOST_TRIES: Final = 3
"""How often the same inputs are tried, unless the trigger says otherwise."""


class State(StrEnum):
    """How far an attempt has come.

    - requested: it is on record. Its run is still to be made, queued, or under way. It has no lease.
    - running: a process of its run has taken it, as the runs of flows with a trigger do.
    - published: an update from its inputs is published, by this attempt or by another.
    - rejected: its checks rejected the update. These inputs are not tried again.
    - ended: its run succeeded, and did not say with what; storage knows. If the same inputs are still due, they are
      tried again after a pause.
    - failed: its run failed. The same inputs are tried again after a pause.
    - unknown: its run is gone, or gave no sign of life for the length of a lease. It may have published.
    - refused: it was refused at its start.
    - given up: it failed as often as the trigger allows, or waited too long. These inputs are not tried again.
    """

    REQUESTED = "requested"
    RUNNING = "running"
    PUBLISHED = "published"
    REJECTED = "rejected"
    ENDED = "ended"
    FAILED = "failed"
    UNKNOWN = "unknown"
    REFUSED = "refused"
    GIVEN_UP = "given up"


ALIVE: Final = frozenset({State.REQUESTED, State.RUNNING})
SETTLED: Final = frozenset({State.PUBLISHED, State.REJECTED})


class AttemptRefusedError(FeedAssetsError):
    """A run may not compute a slot: another attempt lives, or follows it. The message names that attempt."""


@dataclass(frozen=True, slots=True)
class Attempt:
    """An attempt at a slot of a flow. Its `number` is one higher than that of the attempt before it at this slot.

    `key` is Dagster's run key; no other attempt ever has it, also if the database is lost. `digest` identifies the
    inputs for which it was requested, and the update that was in force then; what its run reads is in the record of its
    update. `settled` is the digest of the last attempt that was published or rejected. `tries` counts the tries of
    these inputs, this one included, of which there are at most `most`. `forced` says who started a run that nobody
    requested here. `root` is the first run of its chain of re-executions, `run` the last one. The times are by the
    installation's clock.
    """

    flow: str
    slot: str
    number: int
    key: str
    digest: str
    state: State
    tries: int
    most: int
    requested: datetime
    settled: str = ""
    forced: str = ""
    reason: str = ""
    run: str = ""
    root: str = ""
    started: datetime | None = None
    ended: datetime | None = None

    @property
    def alive(self) -> bool:
        """Whether it waits for its run, or its run has begun and no end is on record."""
        return self.state in ALIVE

    @property
    def forced_key(self) -> str:
        """What `steps.run.Run.starts` needs of it: its key if it was forced, else ""."""
        return self.key if self.forced else ""

    @property
    def title(self) -> str:
        """The attempt, for messages."""
        return f"attempt {self.number} of {self.flow} {self.slot}"

    @property
    def failed(self) -> bool:
        """Whether its inputs were tried and have no result."""
        if self.state is State.UNKNOWN:
            return self.started is not None
        return self.state in {State.ENDED, State.FAILED, State.GIVEN_UP}

    @property
    def never_ran(self) -> bool:
        """Whether it was requested, and Dagster lost that or never got it: the request is made again, as it was."""
        return self.state is State.UNKNOWN and self.started is None


class Answer(StrEnum):
    """Whether an attempt may follow."""

    MAY_START = "may start"
    LIVES = "lives"
    PAUSED = "paused"
    OVER = "over"


@dataclass(frozen=True, slots=True)
class Verdict:
    """Whether an attempt may follow another, and why not; `until` is when a pause or a lease ends."""

    answer: Answer
    reason: str = ""
    until: datetime | None = None


def tries_of(newest: Attempt | None, digest: str) -> int:
    """The number of the next try of these inputs after this attempt."""
    if newest is None or newest.digest != digest or newest.settled == digest:
        return 1
    return newest.tries + newest.failed


def living(newest: Attempt | None, lease_until: datetime | None) -> Verdict | None:
    """Why nothing may follow the newest attempt of a slot yet: it is alive, or one of its processes is.

    `lease_until` is the end of the slot's lease if somebody holds it.
    """
    if newest is not None and newest.alive:
        what = f"runs as {newest.run}" if newest.state is State.RUNNING else "is requested, or its run is under way"
        return Verdict(Answer.LIVES, f"{newest.title} {what}", lease_until)
    if newest is not None and lease_until is not None:
        return Verdict(Answer.LIVES, f"a process of {newest.title} still gives signs of life", lease_until)
    return None


def verdict(newest: Attempt | None, digest: str, *, lease_until: datetime | None, now: datetime) -> Verdict:
    """Whether an attempt for these inputs may follow the newest one of its slot. `now` is the installation's time.

    `lease_until` as for `living`.
    """
    if newest is None:
        return Verdict(Answer.MAY_START)
    if newest.settled == digest and not newest.alive:
        return Verdict(Answer.OVER, f"these inputs have a result since {newest.title} or before it")
    if lives := living(newest, lease_until):
        return lives
    return _after_failures(newest, now) if newest.digest == digest else Verdict(Answer.MAY_START)


def _after_failures(newest: Attempt, now: datetime) -> Verdict:
    """Whether the inputs of an attempt that has ended without a result for them may be tried again."""
    if newest.state is State.GIVEN_UP:
        return Verdict(Answer.OVER, f"{newest.title} was given up: {newest.reason}")
    if newest.ended is not None and newest.failed:
        if newest.tries >= newest.most:
            return Verdict(Answer.OVER, f"these inputs were tried {newest.tries} times, last by {newest.title}")
        until = newest.ended + pause_after(newest.tries)
        if now < until:
            return Verdict(Answer.PAUSED, f"{newest.title} {newest.state}: {newest.reason}", until)
    return Verdict(Answer.MAY_START)


def pause_after(tries: int) -> timedelta:
    """The pause after so many failures."""
    return timedelta(seconds=FIRST_PAUSE.total_seconds() * 2 ** (tries - 1))
