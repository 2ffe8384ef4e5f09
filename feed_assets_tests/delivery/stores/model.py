"""What a store must do, written for the tests: one dictionary, and versions that are compared as tuples."""

from __future__ import annotations

from typing import NamedTuple

from feed_assets.delivery.stores.port import Change, Outcome
from feed_assets.delivery.versions import Version

NOW = 1000.0
"""When lookups of the tests look."""
ENDED, ENDS_LATER = 900.0, 4e9
"""When values end that have ended long ago, and that end after every test."""


class Row(NamedTuple):
    """A row of a delivery, as a change of its key."""

    key: str
    version: Version
    deletes: bool
    expires: float | None

    @property
    def value(self) -> bytes | None:
        """A version has always the same value."""
        return None if self.deletes else repr(self.version).encode()

    @property
    def change(self) -> Change:
        """The change that a consumer makes of it."""
        return Change(self.key, self.version.packed(), self.value, self.expires)

    @property
    def shown(self) -> bytes | None:
        """What a lookup at NOW shows, if no other row of the key is newer."""
        return None if self.expires is not None and self.expires < NOW else self.value


def order(version: Version) -> tuple[bytes, int, int]:
    """What versions compare by: partitions as bytes."""
    return version.partition.encode(), version.edition, version.ordinal


class Model:
    """The newest row of each key since the store forgot its tombstones and ended values."""

    def __init__(self) -> None:
        self._newest: dict[str, Row] = {}

    def apply(self, row: Row) -> Outcome:
        """The outcome of a row."""
        stored = self._newest.get(row.key)
        if stored is None or order(stored.version) <= order(row.version):
            self._newest[row.key] = row
            return "applied"
        return "superseded"

    def forget(self) -> int:
        """Time passes, and the retention of the stream with it. Returns how many tombstones and values are gone."""
        gone = [key for key, row in self._newest.items() if row.shown is None]
        for key in gone:
            del self._newest[key]
        return len(gone)

    def shown(self) -> dict[str, tuple[bytes, Version]]:
        """What lookups show."""
        return {key: (row.shown, row.version) for key, row in self._newest.items() if row.shown is not None}
