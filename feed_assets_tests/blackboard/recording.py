"""A blackboard that keeps account of the requests made to another.

Here: what was asked, in which order. It is for tests that hold an operation to its budget, and for
seeing what an operation costs. Not here: what a store does, or how long it takes.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from feed_assets.blackboard.port import PAGE_SIZE, Blackboard, Content, Entry, Page


@dataclass(frozen=True, slots=True)
class Request:
    """One request: the name of the port's operation, and the key (or prefix) it was about."""

    operation: str
    key: str


class RecordingBlackboard:
    """Passes everything on to `inner`; a request counts also where it fails.

    `delete` counts once for each PAGE_SIZE keys, under the first of them; `deleted` has all keys. `copy` counts under
    the key it creates. `tag_of` and `uri` are no requests, nor is `flush`, which has an account of its own: `flushed`,
    the keys in their order.
    """

    def __init__(self, inner: Blackboard) -> None:
        self._inner = inner
        self._requests: list[Request] = []
        self.flushed: list[str] = []
        self.deleted: list[str] = []

    @property
    def requests(self) -> tuple[Request, ...]:
        """All requests since the start, or since they were last forgotten, in their order."""
        return tuple(self._requests)

    def counts(self) -> Counter[str]:
        """How many requests of each operation there were."""
        return Counter(request.operation for request in self._requests)

    def forget(self) -> None:
        """Start a new account."""
        self._requests.clear()
        self.deleted.clear()

    def page(self, prefix: str, *, after: str = "", folders: bool = False) -> Page:
        """See `Blackboard.page`."""
        self._requests.append(Request("page", prefix))
        return self._inner.page(prefix, after=after, folders=folders)

    def read(self, key: str, *, limit: int | None = None) -> Content:
        """See `Blackboard.read`."""
        self._requests.append(Request("read", key))
        return self._inner.read(key, limit=limit)

    def download(self, key: str, target: Path) -> Entry:
        """See `Blackboard.download`."""
        self._requests.append(Request("read", key))
        return self._inner.download(key, target)

    def create(self, key: str, data: bytes) -> Entry:
        """See `Blackboard.create`."""
        self._requests.append(Request("create", key))
        return self._inner.create(key, data)

    def replace(self, key: str, data: bytes, *, tag: str) -> Entry:
        """See `Blackboard.replace`."""
        self._requests.append(Request("replace", key))
        return self._inner.replace(key, data, tag=tag)

    def upload(self, key: str, source: Path) -> Entry:
        """See `Blackboard.upload`."""
        self._requests.append(Request("upload", key))
        return self._inner.upload(key, source)

    def copy(self, source: str, key: str) -> Entry:
        """See `Blackboard.copy`."""
        self._requests.append(Request("copy", key))
        return self._inner.copy(source, key)

    def delete(self, *keys: str) -> None:
        """See `Blackboard.delete`."""
        self._requests.extend(Request("delete", key) for key in keys[::PAGE_SIZE])
        self.deleted.extend(keys)
        self._inner.delete(*keys)

    def abort_uploads(self, prefix: str, *, before: datetime) -> int:
        """See `Blackboard.abort_uploads`."""
        return self._inner.abort_uploads(prefix, before=before)

    def flush(self, *keys: str) -> None:
        """See `Blackboard.flush`."""
        self.flushed.extend(keys)
        self._inner.flush(*keys)

    def tag_of(self, data: bytes) -> str | None:
        """See `Blackboard.tag_of`."""
        return self._inner.tag_of(data)

    def uri(self, key: str) -> str:
        """See `Blackboard.uri`."""
        return self._inner.uri(key)
