"""A blackboard with more objects than fit in memory: their keys and contents follow from a number.

Here: listing and reading them, and writes on top. Not here: what the objects mean. It is for benchmarks: a page costs
what its own objects cost, however many there are.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import lru_cache
from itertools import islice, pairwise
from pathlib import Path

from feed_assets.blackboard.memory import MemoryBlackboard
from feed_assets.blackboard.port import (
    PAGE_SIZE,
    AlreadyExistsError,
    ConflictError,
    Content,
    Entry,
    NotFoundError,
    Page,
)

MODIFIED = datetime(2000, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Objects:
    """So many objects: the key and the content of each number from 0. Keys ascend with the number."""

    count: int
    key: Callable[[int], str]
    data: Callable[[int], bytes]

    def before(self, key: str) -> int:
        """How many have a smaller key."""
        return bisect_left(range(self.count), key, key=self.key)

    def up_to(self, key: str) -> int:
        """How many have this key or a smaller one."""
        return bisect_right(range(self.count), key, key=self.key)

    def number(self, key: str) -> int | None:
        """The number of the object with this key, None without such an object."""
        at = self.before(key)
        return at if at < self.count and self.key(at) == key else None


class ComputedBlackboard:
    """These objects, all keys of one group before those of the next, and whatever is written over them.

    Tags are the MD5 of the content, as on S3. All computed objects have the same time.
    """

    def __init__(self, groups: Sequence[Objects]) -> None:
        self._groups = groups
        self._written = MemoryBlackboard()
        self._replaced: set[str] = set()
        """Computed objects that were deleted or replaced."""
        for one, other in pairwise(groups):
            assert one.key(one.count - 1) < other.key(0)

    def page(self, prefix: str, *, after: str = "", folders: bool = False) -> Page:
        """See `Blackboard.page`."""
        written = self._written.page(prefix, after=after, folders=folders)
        found: dict[str, Entry | None] = dict(islice(self._listed(prefix, after, folders=folders), PAGE_SIZE + 1))
        found |= {entry.key: entry for entry in written.entries} | dict.fromkeys(written.folders)
        names = sorted(found)
        more = len(names) > PAGE_SIZE or written.next_after is not None
        names = names[:PAGE_SIZE]
        entries = tuple(entry for name in names if (entry := found[name]) is not None)
        return Page(entries, tuple(name for name in names if found[name] is None), names[-1] if more else None)

    def read(self, key: str, *, limit: int | None = None) -> Content:
        """See `Blackboard.read`."""
        for group in self._groups:
            if key not in self._replaced and (number := group.number(key)) is not None:
                return Content(_entry(group, number), group.data(number)[:limit])
        return self._written.read(key, limit=limit)

    def create(self, key: str, data: bytes) -> Entry:
        """See `Blackboard.create`."""
        try:
            self.read(key)
        except NotFoundError:
            return self._written.create(key, data)
        raise AlreadyExistsError(key)

    def replace(self, key: str, data: bytes, *, tag: str) -> Entry:
        """See `Blackboard.replace`."""
        try:
            current = self.read(key).entry
        except NotFoundError:
            raise ConflictError(key) from None
        if current.tag != tag:
            raise ConflictError(key)
        return self.put(key, data)

    def put(self, key: str, data: bytes) -> Entry:
        """Write as another program does, over what is there."""
        self._replaced.add(key)
        return self._written.put(key, data)

    def upload(self, key: str, source: Path) -> Entry:
        """See `Blackboard.upload`."""
        return self.create(key, source.read_bytes())

    def copy(self, source: str, key: str) -> Entry:
        """See `Blackboard.copy`."""
        return self.create(key, self.read(source).data)

    def delete(self, *keys: str) -> None:
        """See `Blackboard.delete`."""
        self._replaced.update(keys)
        self._written.delete(*keys)

    def flush(self, *keys: str) -> None:
        """Nothing: see `Blackboard.flush`."""

    def tag_of(self, data: bytes) -> str | None:
        """See `Blackboard.tag_of`."""
        return self._written.tag_of(data)

    def uri(self, key: str) -> str:
        """See `Blackboard.uri`."""
        return self._written.uri(key)

    def _listed(self, prefix: str, after: str, *, folders: bool) -> Iterator[tuple[str, Entry | None]]:
        """The computed objects of a page and of the pages after it; folders have no entry."""
        for group in self._groups:
            at = max(group.up_to(after), group.before(prefix)) if after or prefix else 0
            end = group.before(_past(prefix)) if prefix else group.count
            while at < end:
                key = group.key(at)
                cut = key.find("/", len(prefix)) + 1 if folders else 0
                if key in self._replaced:
                    at += 1
                elif cut:
                    if key[:cut] > after:
                        yield key[:cut], None
                    at = group.before(_past(key[:cut]))
                else:
                    yield key, _entry(group, at, key)
                    at += 1


def _entry(group: Objects, number: int, key: str = "") -> Entry:
    data = group.data(number)
    return Entry(key or group.key(number), len(data), _tag(data), MODIFIED)


def _past(folder: str) -> str:
    """The first string after all keys of a folder."""
    return folder[:-1] + chr(ord("/") + 1)


@lru_cache(maxsize=1000)
def _tag(data: bytes) -> str:
    return MemoryBlackboard().tag_of(data) or ""
