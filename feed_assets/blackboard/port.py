"""The storage port: what every blackboard can do, whichever store is behind it.

Here: the operations, the values they return and the errors they raise. Not here: any one store
(see `local`, `memory`, `s3`), and anything that knows what a feed or an update is.

The port is what S3 offers and no more, so that nothing above it can come to depend on a file
system: listings ascend by the bytes of the whole key and can start after any string, an object
is created only where there is none, replaced only while it is the one that was read, and there
are no directories and no renames.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Protocol

PAGE_SIZE = 1000
"""Entries and folders a page holds at most; the page size of S3."""


class BlackboardError(Exception):
    """Storage did not do what it was asked; the message says what, where and what to do."""


class NotFoundError(BlackboardError):
    """There is no object under this key."""


class AlreadyExistsError(BlackboardError):
    """An object is there already, and creating never overwrites."""


class ConflictError(BlackboardError):
    """The object changed or vanished since it was read, so it was not replaced."""


class InvalidKeyError(BlackboardError, ValueError):
    """The key is not a safe relative path: empty, absolute, with `.`/`..` segments or control characters."""


class UnavailableError(BlackboardError):
    """The store cannot be reached or refused the request; whether a write landed is not known."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One object: its key relative to the blackboard's root, its bytes, and a tag that differs between two contents.

    `tag` is the ETag on S3, and inode, time and size on a disk: equal tags mean unchanged content.
    """

    key: str
    size: int
    tag: str
    modified: datetime


@dataclass(frozen=True, slots=True)
class Content:
    """An object's bytes together with the entry they were read under."""

    entry: Entry
    data: bytes


@dataclass(frozen=True, slots=True)
class Page:
    """One page of a listing, in ascending order of keys.

    `folders` (each ending in `/`) is filled only where folders were asked for. `next_after` is
    what to pass as `after` for the next page, None where the listing has ended.
    """

    entries: tuple[Entry, ...]
    folders: tuple[str, ...]
    next_after: str | None


class Blackboard(Protocol):
    """A bucket, a directory, or a dictionary in memory; keys are relative to its root."""

    def page(self, prefix: str, *, after: str = "", folders: bool = False) -> Page:
        """One request: at most PAGE_SIZE objects whose keys start with `prefix` and are greater than `after`.

        `prefix` is "" or ends in `/`. With `folders`, keys are rolled up at the next `/`, as one
        folder each (compared with `after` as the folder's own name including its slash).
        A missing prefix is an empty page.
        """
        ...

    def read(self, key: str, *, limit: int | None = None) -> Content:
        """The object's bytes, at most the first `limit`. Raises NotFoundError."""
        ...

    def create(self, key: str, data: bytes) -> Entry:
        """Create the object, whole or not at all. Raises AlreadyExistsError."""
        ...

    def replace(self, key: str, data: bytes, *, tag: str) -> Entry:
        """Replace the object whose tag is `tag`, atomically. Raises ConflictError."""
        ...

    def upload(self, key: str, source: Path) -> Entry:
        """Create the object from a local file of any size. Raises AlreadyExistsError."""
        ...

    def copy(self, source: str, key: str) -> Entry:
        """Create the object from another one of this blackboard. Raises NotFoundError, AlreadyExistsError."""
        ...

    def delete(self, *keys: str) -> None:
        """Delete these objects, in any order; returns once all are gone. One request for each PAGE_SIZE of them.

        What is not there counts as gone. A key that ends in `/` is that of a directory marker.
        """
        ...

    def flush(self, *keys: str) -> None:
        """Return once these objects would outlive a power cut, whichever program wrote them. Raises NotFoundError.

        No request where a store answers no write before that.
        """
        ...

    def tag_of(self, data: bytes) -> str | None:
        """The tag an object with this content would have, or None where tags do not tell the content."""
        ...

    def uri(self, key: str) -> str:
        """Where the object is for other programs: `file:///...` or `s3://bucket/...`."""
        ...
