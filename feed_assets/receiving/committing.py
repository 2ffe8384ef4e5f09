"""Making requests durable: one append for all that came meanwhile, repeated requests, and when a segment is sealed.

Here: what the journal's thread does with a group of requests. Not here: the thread (`journal.group_commit`), what
becomes of a sealed segment (`keeping`), and media (`journal`).
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import TypeAlias

from feed_assets.journal.group_commit import GroupCommit
from feed_assets.journal.segments import MEDIUM_ERRORS, Segments, age
from feed_assets.receiving.entries import Entry, Header, decode_header, entries, framed
from feed_assets.receiving.limits import Limits
from feed_assets.receiving.tables import answers
from feed_assets.receiving.tallies import Key, Tallies, Tally
from feed_assets.state.address import StoreError
from feed_assets.state.store import Store

REPEATS: timedelta = timedelta(hours=24)
"""How long a request that is repeated gets the answer of the first."""

_log = logging.getLogger(__name__)


class UnavailableError(Exception):
    """Nothing of a request was acknowledged; it can be sent again."""


@dataclass(frozen=True, slots=True)
class _Submission:
    header: Header
    frame: bytes


_Answers: TypeAlias = list[Header | Exception]


@dataclass(frozen=True, slots=True)
class Sealed:
    """A sealed segment, with the headers of its requests that may be repeated, by their key, and the counts of all."""

    name: str
    repeatable: Mapping[str, Header]
    tallies: Mapping[Key, Tally] = field(default_factory=dict)


class Committer:
    """Makes entries durable. `start` and `close` it once; `sealed` is called, in one thread, with each sealed segment.

    A segment is sealed when it has `roll_bytes`, or `roll_seconds` after its first entry. `observe` gets the number of
    requests and the seconds of each append.
    """

    def __init__(
        self,
        journal: Segments,
        store: Store,
        sealed: Callable[[Sealed], None],
        limits: Limits,
        *,
        observe: Callable[[int, float], None] = lambda *_: None,
    ) -> None:
        self._journal, self._store, self._sealed, self._observe = journal, store, sealed, observe
        self._limits = limits
        self._group: GroupCommit[_Submission, Header] = GroupCommit(
            self, size=lambda each: len(each.frame), most=limits.roll_bytes
        )
        self._segment = ""
        self._bytes = 0
        self._due = 0.0
        self._unknown = False  # whether the medium has to tell which entries are in the segment
        self._repeatable: dict[str, Header] = {}
        self._recent: dict[str, Header] = {}
        self.failure = ""
        """Why the last append failed; empty if it succeeded."""
        self.tallies = Tallies()
        """The counts of the segments that have not landed."""

    def start(self) -> None:
        """Seal what a killed process left, then take entries. Raises the errors of the medium."""
        self._journal.claim()
        for segment in self._journal.segments():
            self._seal(segment, ask=True)
        self._group.start()

    async def commit(self, entry: Entry) -> Header:
        """Wait until the entry is durable. Returns its header, or that of the request that it repeats.

        Raises UnavailableError if it may be lost.
        """
        return await self._group.settled(_Submission(entry.header, framed(entry)))

    def forget(self, keys: Sequence[str]) -> None:
        """Forget the answers with these keys, as the store has them now."""
        for key in keys:
            self._recent.pop(key, None)

    @property
    def oldest_seconds(self) -> float:
        """The age of the open segment in seconds: no entry that was acknowledged has waited longer in it."""
        return age(self._segment)

    def close(self) -> None:
        """Write what was submitted, seal the segment, and end. Nothing may be submitted any more."""
        self._group.close()

    def settle(self, items: Sequence[_Submission]) -> _Answers:
        """See `journal.group_commit.Work`."""
        try:
            settled = self._commit(items)
            self.failure = ""
        except MEDIUM_ERRORS as error:
            self.failure = f"{self._journal}: {error}"
            _log.error("Nothing of %d requests was acknowledged. %s", len(items), self.failure)
            settled = [UnavailableError(str(error)) for _ in items]
            # Only a sealed segment tells which of the requests are in it.
            self._try_to_seal()
        return settled

    def rest(self, *, closing: bool) -> float | None:
        """See `journal.group_commit.Work`."""
        if self._segment and (closing or self._bytes >= self._limits.roll_bytes or time.monotonic() >= self._due):
            self._try_to_seal()
        return max(0.0, self._due - time.monotonic()) if self._segment else None

    def _commit(self, group: Sequence[_Submission]) -> _Answers:
        """Write the requests of a group that do not repeat another. Returns the answer to each request."""
        first, problem = self._given({each.header.key for each in group if each.header.key})
        settled: _Answers = []
        new: list[_Submission] = []
        for each in group:
            key = each.header.key
            if key and problem and key not in first:
                settled.append(UnavailableError(problem))
                continue
            header = first.setdefault(key, each.header) if key else each.header
            if header is each.header:
                new.append(each)
            settled.append(header)
        if new:
            self._append(new)
        return settled

    def _given(self, keys: set[str]) -> tuple[dict[str, Header], str]:
        """The requests with these keys that were answered before; and the problem if the store cannot be asked."""
        recent = {key: self._recent[key] for key in keys if key in self._recent}
        try:
            stored = answers(self._store, keys - recent.keys(), after=datetime.now(UTC) - REPEATS)
        except StoreError as error:
            return recent, str(error)
        return recent | {key: decode_header(text) for key, text in stored.items()}, ""

    def _append(self, new: Sequence[_Submission]) -> None:
        started = time.monotonic()
        if self._unknown:
            self._seal_open()
        if not self._segment:
            self._segment = self._journal.begin()
            self._due, self._bytes = started + self._limits.roll_seconds, 0
        self._unknown = True
        self._journal.append([each.frame for each in new])
        self._unknown = False
        self._bytes += sum(len(each.frame) for each in new)
        headers = [each.header for each in new]
        self._note(headers)
        self.tallies.add(self._segment, headers)
        self._observe(len(new), time.monotonic() - started)

    def _note(self, headers: Iterable[Header]) -> None:
        repeatable = {header.key: header for header in headers if header.key}
        self._repeatable |= repeatable
        self._recent |= repeatable

    def _try_to_seal(self) -> None:
        """Seal the open segment. If that fails, try again in a second; until then nothing is acknowledged."""
        try:
            self._seal_open()
        except MEDIUM_ERRORS as error:
            self._unknown, self._due = True, time.monotonic() + 1
            self.failure = f"{self._journal}: {error}"

    def _seal_open(self) -> None:
        if self._segment:
            self._seal(self._segment, ask=self._unknown)
            self._segment, self._unknown = "", False

    def _seal(self, segment: str, *, ask: bool) -> None:
        """Seal a segment. With `ask`, read its entries back: others may be in it than those acknowledged here."""
        self._journal.seal(segment)
        if ask:
            headers = [entry.header for entry in entries(self._journal, segment)]
            self._note(headers)
            self.tallies.add(segment, headers, anew=True)
        self._sealed(Sealed(segment, self._repeatable, self.tallies.of(segment)))
        self._repeatable = {}
