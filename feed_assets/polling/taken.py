"""Which files of a partner were taken: an index, kept on the blackboard.

Here: the index, and claims of files. Not here: landing (`polling`), and the index in DynamoDB (`dynamodb`).

A state of a file is its name, size and tag. After it has landed, one object says so, whose key has all of it:
`raw/.polled/<source>/<day>/<name>/<landing>.<size>.<tag>`. Of several landings of one name the newest is in force. A
file is up to date only if the newest landing took the state that the partner's listing shows. So an earlier file that
is put back lands again. A poll that stood still while another one landed the name lands nothing (`OvertakenError`). It
needs no clocks for that: it knows which landing was the newest before it looked at the partner's files.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from typing import Protocol
from urllib.parse import quote
from uuid import uuid4

from feed_assets.blackboard import AlreadyExistsError, Blackboard, ConflictError, NotFoundError, list_all
from feed_assets.datasets import is_day
from feed_assets.polling.port import PartnersFile
from feed_assets.sources.layout import LandingId, touching

POLLED = "raw/.polled/"
CLAIMED_FOR = timedelta(hours=1)
"""A claim of a poller that was killed lasts so long."""
LONGEST_CLAIM = 2 * CLAIMED_FOR
"""A claim that lasts longer from now on is of a clock that was ahead, and counts as expired."""
_CLAIM = "claim"


@dataclass(frozen=True, slots=True)
class Taken:
    """The newest landing of a file, and the states of the file that have its content."""

    landing: LandingId
    states: frozenset[str]


@dataclass(frozen=True, slots=True)
class TakenState:
    """A state of a file that has landed."""

    day: str
    name: str
    state: str
    landing: LandingId


class TakenIndex(Protocol):
    """Which states of a source's files have landed. It never claims what has not landed."""

    def taken(self, source_key: str, first: date) -> Mapping[str, Taken]:
        """Name -> what was taken of it, for files of `first` and later days."""
        ...

    def claim(self, source_key: str, file: PartnersFile, seen: Taken | None, *, now: datetime) -> bool:
        """Whether nobody else took this state after `seen`, or claimed it within `CLAIMED_FOR`: then it is claimed now.

        A claim saves a download; if two hold it, the file still lands once. Raises InvalidKeyError if the name is too
        long.
        """
        ...

    def record(self, source_key: str, file: PartnersFile, landing: LandingId, *, now: datetime) -> None:
        """Note that this state has landed, and give the claim back."""
        ...

    def release(self, source_key: str, file: PartnersFile) -> None:
        """Give a claim back without landing."""
        ...


def state_of(file: PartnersFile) -> str:
    """The size and the tag of a file as a part of a key."""
    return f"{'' if file.size is None else file.size}.{quote(file.tag, safe='')}"


def newest(states: Iterable[TakenState]) -> dict[str, Taken]:
    """Name -> the newest landing, with all states that it took."""
    found: dict[str, Taken] = {}
    for each in states:
        before = found.get(each.name)
        if before is None or before.landing.generation < each.landing.generation:
            found[each.name] = Taken(each.landing, frozenset({each.state}))
        elif before.landing == each.landing:
            found[each.name] = Taken(each.landing, before.states | {each.state})
    return found


@dataclass(frozen=True, slots=True)
class BlackboardIndex:
    """The index on the blackboard. A look at it is one listing of the days."""

    blackboard: Blackboard

    def taken(self, source_key: str, first: date) -> Mapping[str, Taken]:
        """See `TakenIndex.taken`."""
        return newest(self.states(source_key, first))

    def states(self, source_key: str, first: date = date.min) -> Iterator[TakenState]:
        """All states that were taken of files of `first` and later days. One listing."""
        prefix = f"{POLLED}{source_key}/"
        for entry in list_all(self.blackboard, prefix, after=f"{prefix}{first}"):
            if (state := _parse(entry.key.removeprefix(prefix))) is not None:
                yield state

    def claim(self, source_key: str, file: PartnersFile, seen: Taken | None, *, now: datetime) -> bool:
        """See `TakenIndex.claim`: one conditional write, and one LIST; a GET if there is a claim."""
        key, until = self._claim(source_key, file), (now + CLAIMED_FOR).isoformat()
        content = json.dumps({"token": uuid4().hex, "until": until}).encode()
        try:
            self.blackboard.create(key, content)
        except AlreadyExistsError:
            if not self._taken_over(key, content, now):
                return False
        # Another poller may have taken it after the look of this one.
        folder, prefix = _folder(source_key, file), f"{POLLED}{source_key}/"
        states = (_parse(entry.key.removeprefix(prefix)) for entry in list_all(self.blackboard, folder))
        taken = newest(each for each in states if each and (each.name, each.state) == (file.name, state_of(file)))
        if file.name in taken and (seen is None or taken[file.name].landing.generation > seen.landing.generation):
            self.release(source_key, file)
            return False
        return True

    def record(self, source_key: str, file: PartnersFile, landing: LandingId, *, now: datetime) -> None:
        """See `TakenIndex.record`."""
        content = json.dumps({"landing": str(landing), "taken_at": now.isoformat()}).encode()
        with suppress(AlreadyExistsError):
            self.blackboard.create(f"{_folder(source_key, file)}{landing}.{state_of(file)}", content)
        self.release(source_key, file)

    def release(self, source_key: str, file: PartnersFile) -> None:
        """See `TakenIndex.release`."""
        self.blackboard.delete(self._claim(source_key, file))

    def _claim(self, source_key: str, file: PartnersFile) -> str:
        return f"{_folder(source_key, file)}{_CLAIM}.{state_of(file)}"

    def _taken_over(self, key: str, content: bytes, now: datetime) -> bool:
        """Whether the claim that is there has this content, or has expired and is replaced by it."""
        with suppress(NotFoundError):  # another poller was faster
            held = self.blackboard.read(key)
            if not now < datetime.fromisoformat(json.loads(held.data)["until"]) <= now + LONGEST_CLAIM:
                with suppress(ConflictError):
                    self.blackboard.replace(key, content, tag=held.entry.tag)
                held = self.blackboard.read(key)
            # The answer to a write that succeeded may have been lost; no other poller writes this content.
            return held.data == content
        return False


def _folder(source_key: str, file: PartnersFile) -> str:
    return f"{POLLED}{source_key}/{file.day}/{file.name}/"


def _parse(path: str) -> TakenState | None:
    """The state of a key below a source; None for a claim."""
    day, _, rest = path.partition("/")
    name, _, last = rest.rpartition("/")
    text, _, state = last.partition(".")
    landing = touching(text)
    return TakenState(day, name, state, landing) if landing and is_day(day) else None
