"""What the kept journal tells people: the story of a unit, and whether journal and snapshots agree.

Here: reading the storage, without a master. Not here: replaying for a master (`history`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from hashlib import blake2b
from typing import Any

from feed_assets.file_feed.wording import counted
from feed_assets.workflow.errors import JournalDamagedError
from feed_assets.workflow.history import BEGINNING, Cursor, follow
from feed_assets.workflow.places import Place
from feed_assets.workflow.snapshots import listed, read_snapshot
from feed_assets.workflow.state import Mutation, State, decode_mutation
from feed_assets.workflow.tasks import Task


@dataclass(frozen=True, slots=True)
class Event:
    """What became of a unit at a position: its new id (0 if it is gone), and the session that did it.

    `at` is in seconds since 1970, by the master's clock.
    """

    position: int
    at: float
    what: str
    id: int
    who: str

    def as_json(self) -> dict[str, Any]:
        """The event as JSON."""
        return asdict(self)


@dataclass(frozen=True, slots=True)
class Checked:
    """What a replay of the kept journal has found."""

    position: int
    tasks: int
    snapshots: int
    digest: str

    def as_json(self) -> dict[str, Any]:
        """What was found as JSON."""
        return asdict(self)

    @property
    def sentence(self) -> str:
        """What was found."""
        return (
            f"The journal is whole up to position {self.position:,}, with {counted(self.tasks, 'task')}, which include "
            f"configurations and orders. {counted(self.snapshots, 'snapshot')} compared. Its digest is {self.digest}."
        )


class _Reader(State):
    """A state that shows each mutation that it replays, with the tasks that it has removed."""

    seen: Callable[[int, Mutation, list[Task]], None]

    def replay(self, mutation: bytes) -> None:
        """See `State.replay`."""
        decoded = decode_mutation(mutation)
        gone = self.apply(decoded)
        self.seen(self.position, decoded, gone)


def story_of(place: Place, unit: int) -> list[Event]:
    """What the kept journal says of a unit, oldest first. Reads all of it. Raises JournalDamagedError."""
    events: list[Event] = []
    state, cursor = _oldest(place)
    first = state.version_of(unit)
    if first is not None:
        events.append(Event(state.position, first.since, f"was there, {first.status}", first.id, first.holder))

    def seen(position: int, mutation: Mutation, gone: list[Task]) -> None:
        before = next((each for each in gone if each.unit == unit), None)
        now = next((each for each in mutation.new if each.unit == unit), None)
        if before is not None or now is not None:
            made = [each for each in mutation.new if each.unit == each.id]
            what = _change(before, now, made, mutation)
            events.append(Event(position, mutation.at, what, now.id if now else 0, mutation.session))

    state.seen = seen
    follow(place, state, cursor)
    return events


def check_journal(place: Place) -> Checked:
    """Replay the kept journal. Raises JournalDamagedError if a byte is missing, or a snapshot says something else."""
    snapshots = {}
    for epoch, number in listed(place):
        found, _ = read_snapshot(place, epoch, number)
        snapshots[found.position] = found
    (state, cursor), compared = _oldest(place), list[int]()

    def seen(position: int, _: Mutation, __: list[Task]) -> None:
        if position in snapshots:
            found = snapshots[position]
            if blake2b(state.dump(), digest_size=len(found.digest)).digest() != found.digest:
                uri = place.board.uri(place.snapshot(found.epoch, found.number))
                raise JournalDamagedError(
                    f"{uri} is another state than the journal gives. Keep copies of both, and report this."
                )
            compared.append(position)

    state.seen = seen
    follow(place, state, cursor)
    return Checked(state.position, len(state.tasks), len(compared) + bool(snapshots), state.digest())


def _oldest(place: Place) -> tuple[_Reader, Cursor]:
    """The oldest state that is kept: the journal goes on from there."""
    for epoch, number in listed(place):
        found, dump = read_snapshot(place, epoch, number)
        return _Reader.load(dump), Cursor(epoch, number, found.checksum)
    return _Reader(), BEGINNING


def _change(before: Task | None, now: Task | None, made: list[Task], mutation: Mutation) -> str:
    """What happened to a unit, in a few words."""
    if now is None:
        return _end(before, made, mutation)
    if before is None:
        return f"made for {now.group}"
    if now.empty and not before.empty:
        return "dropped, its bundle gets it as an empty one"
    if now.holder:
        return "lease renewed" if before.holder == now.holder else f"leased for {now.seconds:g} s"
    if now.attempt > before.attempt:
        return f"{'dead' if now.dead else 'failed'}, attempt {now.attempt}: {now.reasons[-1]}"
    return "given back" if before.holder else "waits again"


def _end(before: Task | None, made: list[Task], mutation: Mutation) -> str:
    """How a unit has ended. Only a leased task is committed."""
    if not mutation.session:
        return "absorbed by another task with its key"
    if before is not None and not before.holder:
        return "dropped"
    if made:
        return f"committed, made units {', '.join(str(each.unit) for each in made)}"
    return "committed, or absorbed by another task with its key" if before is not None and before.key else "committed"
