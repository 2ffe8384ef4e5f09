"""What a key-value store does: a put or a delete takes effect if its version is newer. Not here: any store."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Literal, NamedTuple, Protocol

Outcome = Literal["applied", "superseded"]
"""`applied`: the store has this version, now or since before. `superseded`: it has a newer one."""


class Change(NamedTuple):
    """A new value of a key; None deletes. `version` are bytes that compare as versions do.

    `expires` is when the value ends, in seconds since 1970; None: never.
    """

    key: str
    version: bytes
    value: bytes | None
    expires: float | None = None


class Value(NamedTuple):
    """The value of a key, and its version."""

    data: bytes
    version: bytes


class Store(AbstractContextManager["Store"], Protocol):
    """Spaces of keys. Threads may share it. The block closes it. All methods raise StoreUnusableError.

    A delete leaves a tombstone: the version without a value. So an older put that comes late brings nothing back.
    """

    @property
    def title(self) -> str:
        """The store, for messages; without a password."""
        ...

    def claim(self, space: str, owner: str) -> None:
        """Make `owner` the only writer of the space: versions of two do not compare. Raises SpaceTakenError."""
        ...

    def apply(self, space: str, changes: Sequence[Change]) -> Sequence[Outcome]:
        """Apply each change if the space has no version of its key, or an older one; returns the outcome of each.

        Later changes of one call to the same key see the earlier ones. After an error, any of them may be applied:
        applying them again does no harm.
        """
        ...

    def get_many(self, space: str, keys: Sequence[str], *, now: float) -> Mapping[str, Value]:
        """The values of those keys that have one that does not end before `now`."""
        ...

    def sweep(self, *, before: float) -> int:
        """Forget the tombstones, and the versions of values that have ended, which are older than this time.

        They are needed as long as older records can come. Returns how many.
        """
        ...
