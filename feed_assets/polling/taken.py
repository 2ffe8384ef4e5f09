"""Which files of a partner were taken: an index, kept on the blackboard.

Here: the index. Not here: who takes a file (`poller`, by leases), and the index in DynamoDB (`dynamodb`).

A state of a file is its name, size and tag. After it has landed, one object says so, whose key has all of it:
`raw/.polled/<source>/<day>/<name>/<landing>.<size>.<tag>`. The newest landing of a name is in force. A
file is up to date only if the newest landing took the state that the partner's listing shows. So an earlier file that
is put back lands again. A poll that stood still while another one landed the name lands nothing (`OvertakenError`). It
needs no clocks for that: it knows which landing was the newest before it looked at the partner's files.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import date, datetime
from typing import Protocol
from urllib.parse import quote

from feed_assets.blackboard.listing import list_all
from feed_assets.blackboard.port import AlreadyExistsError, Blackboard
from feed_assets.datasets.days import is_day
from feed_assets.polling.port import PartnersFile
from feed_assets.sources.layout import LandingId, touching

POLLED = "raw/.polled/"
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
    """Which states of a source's files have landed; none that has not."""

    def taken(self, source_key: str, first: date) -> Mapping[str, Taken]:
        """Name -> the newest landing of that file, for files of `first` and later days."""
        ...

    def newest(self, source_key: str, file: PartnersFile) -> Taken | None:
        """The newest landing of a file with this name and day; None if there is none."""
        ...

    def record(self, source_key: str, file: PartnersFile, landing: LandingId, *, now: datetime) -> None:
        """Note that this state has landed. Raises InvalidKeyError if its key is too long."""
        ...


def state_of(file: PartnersFile) -> str:
    """The size and the tag of a file as a part of a key."""
    return f"{'' if file.size is None else file.size}.{quote(file.tag, safe='')}"


def lease_of(source_key: str, file: PartnersFile) -> str:
    """The name of the lease on taking this state of a file: a key of the blackboard, beside what is noted."""
    return f"{_folder(source_key, file)}{_CLAIM}.{state_of(file)}"


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

    def newest(self, source_key: str, file: PartnersFile) -> Taken | None:
        """See `TakenIndex.newest`. One LIST."""
        prefix = f"{POLLED}{source_key}/"
        entries = list_all(self.blackboard, _folder(source_key, file))
        states = (_parse(entry.key.removeprefix(prefix)) for entry in entries)
        return newest(each for each in states if each is not None and each.name == file.name).get(file.name)

    def record(self, source_key: str, file: PartnersFile, landing: LandingId, *, now: datetime) -> None:
        """See `TakenIndex.record`. One conditional write."""
        content = json.dumps({"landing": str(landing), "taken_at": now.isoformat()}).encode()
        with suppress(AlreadyExistsError):
            self.blackboard.create(f"{_folder(source_key, file)}{landing}.{state_of(file)}", content)


def _folder(source_key: str, file: PartnersFile) -> str:
    return f"{POLLED}{source_key}/{file.day}/{file.name}/"


def _parse(path: str) -> TakenState | None:
    """The state of a key below a source; None for a lease."""
    day, _, rest = path.partition("/")
    name, _, last = rest.rpartition("/")
    text, _, state = last.partition(".")
    landing = touching(text)
    return TakenState(day, name, state, landing) if landing and is_day(day) else None
