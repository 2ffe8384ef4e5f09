"""A journal on the blackboard: an object for each append, numbered; an empty object seals the segment.

What was appended survives the machine and its disk. Objects are created conditionally: once a segment is sealed, no
append to it succeeds, neither of a request that storage carries out late nor of another receiver of the same name. So
the seal stays for a week after the segment was removed. A segment without its first object is removed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from io import BytesIO
from itertools import groupby

from feed_assets.blackboard import AlreadyExistsError, Blackboard, check_key, list_all
from feed_assets.blackboard import Entry as Object
from feed_assets.receiving.journal import Entry, JournalError, new_segment, read_all

PREFIX = ".receiving/"
SEALS_STAY = timedelta(days=7)
"""Longer than any receiver appends to a segment (`roll_seconds`)."""

_FIRST = f"/{1:08}"
_AT_ONCE = 8


class BlackboardJournal:
    """The segments of the receiver of this name. See `Journal`."""

    def __init__(self, blackboard: Blackboard, name: str) -> None:
        self._blackboard = blackboard
        self._prefix = f"{PREFIX}{name}/"
        check_key(f"{self._prefix}segment")
        self._segment = ""
        self._appended = 0

    def __str__(self) -> str:
        return self._blackboard.uri(self._prefix)

    def claim(self) -> None:
        """See `Journal.claim`. Another receiver of this name goes on; its next append fails."""
        self._blackboard.page(self._prefix)

    def begin(self) -> str:
        """See `Journal.begin`. Costs no request."""
        self._segment, self._appended = new_segment(), 0
        return self._segment

    def append(self, frames: Sequence[bytes]) -> None:
        """See `Journal.append`. One PUT."""
        key, data = self._key(self._segment, self._appended + 1), b"".join(frames)
        try:
            self._blackboard.create(key, data)
        except AlreadyExistsError:
            # The answer to an attempt that succeeded may have been lost; no other attempt has these bytes.
            if self._blackboard.read(key).data != data:
                raise JournalError(f"{self._blackboard.uri(key)} is of another receiver of this name") from None
        self._appended += 1

    def seal(self, segment: str) -> None:
        """See `Journal.seal`. A LIST and a PUT, again if an append comes in between."""
        while True:
            objects = self._objects(segment)
            if objects and not objects[-1].size:
                return
            last = int(objects[-1].key.rpartition("/")[2]) if objects else 0
            try:
                self._blackboard.create(self._key(segment, last + 1), b"")
            except AlreadyExistsError:
                continue
            return

    def segments(self) -> list[str]:
        """See `Journal.segments`. One listing. Deletes seals that are old enough."""
        found = []
        # Deeper keys are of a receiver whose name goes on: `eu/1` for `eu`.
        listed = (each for each in list_all(self._blackboard, self._prefix) if self._path(each).count("/") == 1)
        for segment, group in groupby(listed, key=lambda each: self._path(each).partition("/")[0]):
            objects = list(group)
            if _is_there(objects):
                found.append(segment)
            elif max(each.modified for each in objects) < datetime.now(UTC) - SEALS_STAY:
                self._blackboard.delete(*(each.key for each in objects))
        return found

    def entries(self, segment: str) -> Iterator[Entry]:
        """See `Journal.entries`."""
        objects = self._objects(segment)
        keys = [each.key for each in objects if each.size] if _is_there(objects) else []
        with ThreadPoolExecutor(_AT_ONCE) as pool:
            for start in range(0, len(keys), _AT_ONCE):
                for content in pool.map(self._blackboard.read, keys[start : start + _AT_ONCE]):
                    yield from read_all(BytesIO(content.data), self._blackboard.uri(content.entry.key))

    def remove(self, segment: str) -> None:
        """See `Journal.remove`."""
        if _is_there(objects := self._objects(segment)):
            # First the object without which the others do not count: half a segment must not land.
            self._blackboard.delete(objects[0].key)
        self._blackboard.delete(*(each.key for each in objects if each.size))

    def _objects(self, segment: str) -> list[Object]:
        return list(list_all(self._blackboard, f"{self._prefix}{segment}/"))

    def _path(self, found: Object) -> str:
        return found.key.removeprefix(self._prefix)

    def _key(self, segment: str, number: int) -> str:
        return f"{self._prefix}{segment}/{number:08}"


def _is_there(objects: Sequence[Object]) -> bool:
    """Whether these objects are a segment that holds something, and that nobody has begun to remove."""
    return bool(objects) and objects[0].key.endswith(_FIRST) and bool(objects[0].size)
