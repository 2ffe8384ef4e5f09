"""Segments on a blackboard: the entries below a prefix each, an entry for each append, ended by an empty seal.

Appended records survive the machine and its disk. Once a segment is sealed, no append to it succeeds, neither of a
request that storage carries out late nor of another writer of the same name. So the seal stays for a week after the
segment was removed. A segment without its first entry is removed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from io import BytesIO
from itertools import groupby
from typing import Final

from feed_assets.blackboard.keys import check_key
from feed_assets.blackboard.listing import list_all
from feed_assets.blackboard.port import Blackboard
from feed_assets.blackboard.port import Entry as Object
from feed_assets.journal.numbered import NumberedEntries
from feed_assets.journal.records import read_all
from feed_assets.journal.segments import new_segment

SEALS_STAY: Final = timedelta(days=7)
"""Longer than any writer appends to a segment."""
_DIGITS: Final = 8
_FIRST: Final = f"/{1:0{_DIGITS}}"


class BlackboardSegments:
    """The segments below this prefix, which ends in `/`. See `Segments`."""

    def __init__(self, blackboard: Blackboard, prefix: str) -> None:
        self._blackboard = blackboard
        self._prefix = prefix
        check_key(f"{prefix}segment")
        self._segment = ""
        self._appended = 0

    def __str__(self) -> str:
        return self._blackboard.uri(self._prefix)

    def claim(self) -> None:
        """See `Segments.claim`. Another writer of this prefix goes on; its next append fails."""
        self._blackboard.page(self._prefix)

    def begin(self) -> str:
        """See `Segments.begin`. Costs no request."""
        self._segment, self._appended = new_segment(), 0
        return self._segment

    def append(self, frames: Sequence[bytes]) -> None:
        """See `Segments.append`. One PUT."""
        self._entries(self._segment).append(self._appended + 1, b"".join(frames))
        self._appended += 1

    def seal(self, segment: str) -> None:
        """See `Segments.seal`. A LIST and a PUT, again if an append comes in between."""
        self._entries(segment).seal()

    def segments(self) -> list[str]:
        """See `Segments.segments`. One listing. Deletes seals that are old enough."""
        found = []
        # Deeper keys are of a writer whose name goes on: `eu/1` for `eu`.
        listed = (each for each in list_all(self._blackboard, self._prefix) if self._path(each).count("/") == 1)
        for segment, group in groupby(listed, key=lambda each: self._path(each).partition("/")[0]):
            objects = list(group)
            if _is_there(objects):
                found.append(segment)
            elif max(each.modified for each in objects) < datetime.now(UTC) - SEALS_STAY:
                self._blackboard.delete(*(each.key for each in objects))
        return found

    def records(self, segment: str) -> Iterator[bytes]:
        """See `Segments.records`."""
        entries = self._entries(segment)
        objects = entries.listed()
        if _is_there(objects):
            for uri, data in entries.read([each for each in objects if each.size]):
                yield from read_all(BytesIO(data), uri)

    def remove(self, segment: str) -> None:
        """See `Segments.remove`."""
        objects = self._entries(segment).listed()
        if _is_there(objects):
            # First the object without which the others do not count: half a segment must not be read.
            self._blackboard.delete(objects[0].key)
        self._blackboard.delete(*(each.key for each in objects if each.size))

    def _entries(self, segment: str) -> NumberedEntries:
        return NumberedEntries(self._blackboard, f"{self._prefix}{segment}/", _DIGITS)

    def _path(self, found: Object) -> str:
        return found.key.removeprefix(self._prefix)


def _is_there(objects: Sequence[Object]) -> bool:
    """Whether these objects are a segment that holds something, and that nobody has begun to remove."""
    return bool(objects) and objects[0].key.endswith(_FIRST) and bool(objects[0].size)
