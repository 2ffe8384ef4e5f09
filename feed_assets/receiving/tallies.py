"""How many records of each partner and source a segment has: accepted, and rejected by reason.

Here: counting requests, and the counts of the segments that have not landed. Not here: the table that keeps the counts
of all receivers (`tables`), and what a partner sees of them (`status`).
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Final, TypeAlias

from feed_assets.receiving.entries import Header
from feed_assets.receiving.rejections import kind_of

Key: TypeAlias = tuple[str, str]
"""A partner, and the key of a source."""

EARLIEST: Final = datetime.min.replace(tzinfo=UTC)
LATEST: Final = datetime.max.replace(tzinfo=UTC)


@dataclass(slots=True)
class Tally:
    """The counts of some requests: `first` and `last` are the times of the first and of the last of them."""

    requests: int = 0
    accepted: int = 0
    rejected: Counter[str] = field(default_factory=Counter)
    first: datetime = LATEST
    last: datetime = EARLIEST

    def add(self, header: Header) -> None:
        """Count a request."""
        self.requests += 1
        self.accepted += header.accepted
        if header.rejected:
            self.rejected.update(kind_of(reason) for _, reason in header.rejected)
        self.first, self.last = min(self.first, header.at), max(self.last, header.at)

    def copy(self) -> Tally:
        """The counts as they are now."""
        return Tally(self.requests, self.accepted, Counter(self.rejected), self.first, self.last)


class Tallies:
    """The counts of a receiver's segments, each until it has landed. Any thread may call it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._of: dict[str, dict[Key, Tally]] = {}

    def add(self, segment: str, headers: Iterable[Header], *, anew: bool = False) -> None:
        """Count requests of a segment. With `anew`, they are all of its requests."""
        with self._lock:
            if anew:
                self._of.pop(segment, None)
            of = self._of.setdefault(segment, {})
            for header in headers:
                key = (header.partner or "", header.source)
                if (tally := of.get(key)) is None:
                    tally = of[key] = Tally()
                tally.add(header)

    def of(self, segment: str) -> Mapping[Key, Tally]:
        """The counts of a segment."""
        with self._lock:
            return {key: tally.copy() for key, tally in self._of.get(segment, {}).items()}

    def all(self) -> dict[str, dict[Key, Tally]]:
        """The counts of all segments, by partner and source, without those that have landed."""
        with self._lock:
            return {segment: {key: tally.copy() for key, tally in of.items()} for segment, of in self._of.items() if of}

    def landed(self, segment: str, sources: Collection[str]) -> None:
        """Forget the counts of sources that have landed."""
        with self._lock:
            of = self._of.get(segment, {})
            for key in [key for key in of if key[1] in sources]:
                del of[key]

    def forget(self, segment: str) -> None:
        """Forget a segment."""
        with self._lock:
            self._of.pop(segment, None)
