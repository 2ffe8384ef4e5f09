"""Facts about base slots, as others report them. Not here: what follows from them (`completeness`, `slot_states`)."""

from __future__ import annotations

from typing import NamedTuple

from feed_assets.datasets.slots import Slot


class Published(NamedTuple):
    """Which update of a feed's partition is in force; None: no valid one.

    `digest` stands for the content: an update with the digest of the one before is no new revision. Empty: unknown.
    """

    slot: Slot
    update: str | None
    digest: str = ""


class Listed(NamedTuple):
    """What a listing of a base slot shows: records (None: unknown), the number of files, a digest of the content."""

    slot: Slot
    records: int | None
    files: int
    content: str
