"""Files of a partner that polls leave alone: those that cannot land as they are, and those that a person ignores.

Here: marks of such files, kept on the blackboard. Not here: which files get a mark (`poller`).

A failure is marked for one state of a file and one description of its source. So a file that is sent anew is tried
again, and so is each file after a change of the description. A person ignores a name, in any state.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import date, datetime

from feed_assets.blackboard.listing import list_all
from feed_assets.blackboard.port import AlreadyExistsError, Blackboard, NotFoundError
from feed_assets.file_feed.digest import short_digest
from feed_assets.polling.port import PartnersFile
from feed_assets.polling.taken import state_of
from feed_assets.sources.layout import name_digest
from feed_assets.sources.spec import Source

HELD = "raw/.held/"
_IGNORED, _UNDATED = "ignored", "undated"
"""Folders beside those of days, and behind them in a listing."""


@dataclass(frozen=True, slots=True)
class Failure:
    """Why a file did not land; `file` is its state, None if the listing itself shows none.

    A `final` failure is one of the file as it is. Others may pass, so each poll tries the file again. Some, such as a
    full disk, are none of the file: people are not `told_once`, but at each poll.
    """

    reason: str
    file: PartnersFile | None = None
    final: bool = True
    told_once: bool = True


@dataclass(frozen=True, slots=True)
class Held:
    """A file that is left alone since this time. `final` is as in `Failure`, and False for an ignored file."""

    file: str
    reason: str
    since: datetime
    ignored: bool
    final: bool
    key: str


@dataclass(frozen=True, slots=True)
class Marks:
    """The marks of a source's files, as one listing found them."""

    source: Source
    keys: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Digest of a name -> the keys of its marks."""
    description: str = ""
    """A digest of the source's description."""

    def is_ignored(self, name: str) -> bool:
        """Whether a person has ignored the files of this name."""
        return _ignored_key(self.source, name) in self.of(name)

    def has(self, name: str, failure: Failure) -> bool:
        """Whether people have been told of this failure."""
        return self.key_of(name, failure) in self.of(name)

    def refuses(self, file: PartnersFile) -> bool:
        """Whether this state of the file cannot land."""
        return self.has(file.name, Failure("", file))

    def key_of(self, name: str, failure: Failure) -> str:
        """The key of the mark of a failure."""
        file = failure.file
        state = state_of(file) if file else ""
        parts = (state, "" if failure.final else failure.reason, self.description)
        digests = f"{name_digest(self.source.key, name)}.{short_digest(chr(10).join(parts))}"
        return f"{HELD}{self.source.key}/{file.day if file else _UNDATED}/{digests}"

    def of(self, name: str) -> tuple[str, ...]:
        """The keys of a name's marks."""
        return self.keys.get(name_digest(self.source.key, name), ())


@dataclass(frozen=True, slots=True)
class HeldFiles:
    """The marks of the files of one source. All methods raise BlackboardError."""

    blackboard: Blackboard
    source: Source

    @property
    def _prefix(self) -> str:
        return f"{HELD}{self.source.key}/"

    def marks(self, first: date) -> Marks:
        """The marks of files of `first` and later days, and of names. One listing."""
        found: dict[str, list[str]] = {}
        for entry in list_all(self.blackboard, self._prefix, after=f"{self._prefix}{first}"):
            found.setdefault(entry.key.rpartition("/")[2].partition(".")[0], []).append(entry.key)
        description = short_digest(self.source.model_dump_json())
        return Marks(self.source, {digest: tuple(keys) for digest, keys in found.items()}, description)

    def note(self, marks: Marks, failures: Mapping[str, Failure], landed: Iterable[str], *, now: datetime) -> None:
        """Mark these failures by name, and remove the earlier marks of these files, and of those that have landed."""
        kept: set[str] = set()
        for name, failure in failures.items():
            key = marks.key_of(name, failure)
            kept.add(key)
            self._mark(key, name, failure.reason, now, final=failure.final)
        names = {*failures, *landed}
        ignored = {_ignored_key(self.source, name) for name in names}
        self.blackboard.delete(*({key for name in names for key in marks.of(name)} - kept - ignored))

    def ignore(self, name: str, reason: str, *, now: datetime) -> None:
        """Let polls leave the files of this name alone, in any state."""
        self._mark(_ignored_key(self.source, name), name, reason, now, final=False)

    def release(self, name: str) -> bool:
        """Let the next poll take the file of this name; False if nothing holds it back."""
        keys = self.marks(date.min).of(name)
        self.blackboard.delete(*keys)
        return bool(keys)

    def all(self) -> Iterator[Held]:
        """All files that are left alone. One listing, and a read of each."""
        for entry in list_all(self.blackboard, self._prefix):
            with suppress(NotFoundError, ValueError, KeyError, TypeError):
                content = json.loads(self.blackboard.read(entry.key).data)
                yield Held(
                    content["file"],
                    content["reason"],
                    datetime.fromisoformat(content["since"]),
                    entry.key.startswith(f"{self._prefix}{_IGNORED}/"),
                    content["final"],
                    entry.key,
                )

    def _mark(self, key: str, name: str, reason: str, now: datetime, *, final: bool) -> None:
        content = {"file": name, "reason": reason, "since": now.isoformat(), "final": final}
        with suppress(AlreadyExistsError):
            self.blackboard.create(key, json.dumps(content).encode())


def _ignored_key(source: Source, name: str) -> str:
    return f"{HELD}{source.key}/{_IGNORED}/{name_digest(source.key, name)}"
