"""A blackboard in this process's memory, for tests and for trials without a store.

Here: the behaviour of the other stores, from a dictionary. For tests: `put` acts as another program, `objects` returns
the whole content. The order of concurrent writes is up to the callers.
"""

from __future__ import annotations

import hashlib
import threading
from bisect import bisect_left, bisect_right, insort
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from itertools import count
from pathlib import Path

from feed_assets.blackboard.keys import check_key, check_prefix
from feed_assets.blackboard.port import (
    PAGE_SIZE,
    AlreadyExistsError,
    ConflictError,
    Content,
    Entry,
    NotFoundError,
    Page,
)

_TAGS = count(1)
"""Shared by all blackboards of the process, as they have the same URIs: no two writes share a tag."""

_FIRST_SECOND = datetime(2000, 1, 1, tzinfo=UTC)


class MemoryBlackboard:
    """A dictionary that behaves like a store; every operation is atomic, also between threads.

    `objects` is the initial content. With `content_tags` an object's tag is the MD5 of its content, as on S3; without,
    each write gives a new tag independent of the content, as on a disk. `clock` dates the writes. If it is None, the
    writes are one second apart, from the year 2000 on, so that a test sees the same times on every run.
    """

    def __init__(
        self,
        objects: Mapping[str, bytes] | None = None,
        *,
        content_tags: bool = True,
        clock: Callable[[], datetime] | None = None,
    ) -> None:
        self._lock = threading.Lock()
        self._content_tags = content_tags
        self._clock = clock
        self._writes = 0
        self._stored: dict[str, Content] = {}
        self._keys: list[str] = []
        for key, data in (objects or {}).items():
            self.put(key, data)

    def objects(self) -> dict[str, bytes]:
        """All objects: key -> content."""
        with self._lock:
            return {key: self._stored[key].data for key in self._keys}

    def put(self, key: str, data: bytes) -> Entry:
        """Write an object as a program without the port would: under any key, over an existing object."""
        with self._lock:
            return self._put(key, data)

    def page(self, prefix: str, *, after: str = "", folders: bool = False) -> Page:
        """See `Blackboard.page`."""
        check_prefix(prefix)
        with self._lock:
            entries: list[Entry] = []
            rolled_up: list[str] = []
            last = ""
            at = max(bisect_right(self._keys, after), bisect_left(self._keys, prefix))
            while at < len(self._keys) and self._keys[at].startswith(prefix):
                key = self._keys[at]
                cut = key.find("/", len(prefix)) + 1 if folders else 0
                if cut and key[:cut] <= after:
                    at = self._past(key[:cut])
                    continue
                if len(entries) + len(rolled_up) == PAGE_SIZE:
                    return Page(tuple(entries), tuple(rolled_up), last)
                if cut:
                    last = key[:cut]
                    rolled_up.append(last)
                    at = self._past(last)
                else:
                    last = key
                    entries.append(self._stored[key].entry)
                    at += 1
            return Page(tuple(entries), tuple(rolled_up), None)

    def read(self, key: str, *, limit: int | None = None) -> Content:
        """See `Blackboard.read`."""
        check_key(key)
        with self._lock:
            stored = self._found(key)
            return Content(stored.entry, stored.data[:limit])

    def create(self, key: str, data: bytes) -> Entry:
        """See `Blackboard.create`."""
        check_key(key)
        with self._lock:
            return self._create(key, data)

    def replace(self, key: str, data: bytes, *, tag: str) -> Entry:
        """See `Blackboard.replace`."""
        check_key(key)
        with self._lock:
            if key not in self._stored or self._stored[key].entry.tag != tag:
                raise ConflictError(f"{self.uri(key)} changed since it was read: read it again.")
            return self._put(key, data)

    def download(self, key: str, target: Path) -> Entry:
        """See `Blackboard.download`."""
        content = self.read(key)
        target.write_bytes(content.data)
        return content.entry

    def upload(self, key: str, source: Path) -> Entry:
        """See `Blackboard.upload`."""
        return self.create(key, source.read_bytes())

    def copy(self, source: str, key: str) -> Entry:
        """See `Blackboard.copy`."""
        check_key(source)
        check_key(key)
        with self._lock:
            return self._create(key, self._found(source).data)

    def delete(self, *keys: str) -> None:
        """See `Blackboard.delete`; also takes the odd keys that `put` does."""
        with self._lock:
            for key in keys:
                if self._stored.pop(key, None) is not None:
                    del self._keys[bisect_left(self._keys, key)]

    def abort_uploads(self, prefix: str, *, before: datetime) -> int:
        """See `Blackboard.abort_uploads`: there are none."""
        del prefix, before
        return 0

    def flush(self, *keys: str) -> None:
        """Nothing: see `Blackboard.flush`."""

    def tag_of(self, data: bytes) -> str | None:
        """See `Blackboard.tag_of`."""
        return hashlib.md5(data, usedforsecurity=False).hexdigest() if self._content_tags else None

    def uri(self, key: str) -> str:
        """`memory:///<key>`; no other program can open it."""
        return f"memory:///{key}"

    def _past(self, folder: str) -> int:
        return bisect_left(self._keys, folder[:-1] + chr(ord("/") + 1))

    def _found(self, key: str) -> Content:
        if key not in self._stored:
            raise NotFoundError(f"There is no object {self.uri(key)}.")
        return self._stored[key]

    def _create(self, key: str, data: bytes) -> Entry:
        if key in self._stored:
            raise AlreadyExistsError(f"{self.uri(key)} is there already and was not overwritten.")
        return self._put(key, data)

    def _put(self, key: str, data: bytes) -> Entry:
        self._writes += 1
        modified = self._clock() if self._clock else _FIRST_SECOND + timedelta(seconds=self._writes)
        tag = self.tag_of(data) or str(next(_TAGS))
        if key not in self._stored:
            insort(self._keys, key)
        self._stored[key] = Content(Entry(key, len(data), tag, modified), data)
        return self._stored[key].entry
