"""The storage port: what every blackboard can do, whichever store is behind it.

Here: the operations, their values and their errors. Not here: single stores (see `local`, `memory`, `s3`), feeds and
updates. The port is what S3 offers and no more, so that no caller depends on a file system: listings ascend by the
bytes of the key and can start after any string; an object is created only if there is none, and replaced only if it
is still the one that was read; there are no directories and no renames.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Protocol

from feed_assets.errors import FeedAssetsError

PAGE_SIZE = 1000
"""The most entries and folders of a page; the page size of S3."""


class BlackboardError(FeedAssetsError):
    """A storage operation failed. The message says what, where and what to do."""


class NotFoundError(BlackboardError):
    """There is no object under this key."""


class AlreadyExistsError(BlackboardError):
    """The object exists already; creating never overwrites."""


class ConflictError(BlackboardError):
    """The object changed or vanished since it was read, so it was not replaced."""


class InvalidKeyError(BlackboardError, ValueError):
    """The key is not a safe relative path: empty, absolute, with `.`/`..` segments or control characters."""


class UnavailableError(BlackboardError):
    """The store cannot be reached or refused the request; a write may or may not have landed.

    If `transient`, the same request can succeed later without anybody's help.
    """

    def __init__(self, message: str, *, transient: bool = True) -> None:
        super().__init__(message)
        self.transient = transient


@dataclass(frozen=True, slots=True)
class Entry:
    """An object: its key relative to the blackboard's root, its bytes, and a tag that changes with its content.

    `tag` is the ETag on S3, and inode, time and size on a disk: equal tags mean unchanged content.
    """

    key: str
    size: int
    tag: str
    modified: datetime


@dataclass(frozen=True, slots=True)
class Content:
    """An object's bytes, and its entry when they were read."""

    entry: Entry
    data: bytes


@dataclass(frozen=True, slots=True)
class Page:
    """One page of a listing, in ascending order of keys.

    `folders` (each ending in `/`) is empty unless folders were requested. `next_after` is the `after` of the next page,
    None after the last page.
    """

    entries: tuple[Entry, ...]
    folders: tuple[str, ...]
    next_after: str | None


class Blackboard(Protocol):
    """A bucket, a directory, or a dictionary in memory; keys are relative to its root."""

    def page(self, prefix: str, *, after: str = "", folders: bool = False) -> Page:
        """One request: at most PAGE_SIZE objects whose keys start with `prefix` and are greater than `after`.

        `prefix` is "" or ends in `/`. With `folders`, keys are rolled up at the next `/` into one folder each, which is
        compared with `after` by its name with the slash. A missing prefix is an empty page.
        """
        ...

    def read(self, key: str, *, limit: int | None = None) -> Content:
        """The object's bytes, at most the first `limit`. Raises NotFoundError."""
        ...

    def download(self, key: str, target: Path) -> Entry:
        """Copy the object, of any size, into a new local file. Raises NotFoundError, ConflictError if it changes."""
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
        """Delete these objects, in any order; returns when all are gone. One request for each PAGE_SIZE of them.

        Missing objects count as deleted. A key that ends in `/` is a directory marker's.
        """
        ...

    def abort_uploads(self, prefix: str, *, before: datetime) -> int:
        """Remove the parts of unfinished uploads below `prefix` that began before then; returns the number of uploads.

        No request on a store without uploads in parts.
        """
        ...

    def flush(self, *keys: str) -> None:
        """Return when these objects would survive a power cut, whichever program wrote them. Raises NotFoundError.

        No request on a store that acknowledges no write before that.
        """
        ...

    def tag_of(self, data: bytes) -> str | None:
        """The tag of an object with this content; None if this store's tags do not tell the content."""
        ...

    def uri(self, key: str) -> str:
        """The object's URI for other programs: `file:///...` or `s3://bucket/...`."""
        ...
