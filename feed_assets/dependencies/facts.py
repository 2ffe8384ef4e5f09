"""Facts about base slots, as others report them, and the answers to reports.

Not here: what follows from facts (`completeness`, `slot_states`, `parts`).
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from enum import StrEnum
from typing import NamedTuple

from feed_assets.datasets.slots import Slot
from feed_assets.dependencies.quality.marks import Profile


class Read(NamedTuple):
    """A slot that an update was computed from: by the update that was read, or else by the `revision`.

    With neither, the present revision counts: whoever read an older one is behind, and will be computed again.
    """

    slot: Slot
    update: str | None = None
    revision: int = 0


class Published(NamedTuple):
    """Which update of a feed's partition is in force; None: no valid one.

    `digest` stands for the content: an update with the digest of the one before is no new revision. Empty: unknown.
    `read` is what `run` computed the update from, and `profile` describes its rows, as far as they are known.
    """

    slot: Slot
    update: str | None
    digest: str = ""
    read: tuple[Read, ...] = ()
    run: str = ""
    profile: Profile | None = None


class Listed(NamedTuple):
    """What a listing of a base slot shows: records (None: unknown), the number of files, a digest of the content.

    For a counted slot without parts, `records` is the number of records that are accounted for: landed, quarantined, or
    dropped as duplicates.
    """

    slot: Slot
    records: int | None
    files: int
    content: str


class Part(NamedTuple):
    """An object that an ingestion job has put, which no other part of its dataset and member has as its `id`.

    `records` has, for the start of each base slot, how many records are accounted for: landed, quarantined, or dropped
    as duplicates. `ranges` are the positions of the source that it covers, half-open, with or without records. They
    belong to a `stream`, such as a topic's partition; empty: the member's own. Another `generation`, such as another
    topic id, starts new positions. `writer` and `epoch` say who reports: the highest epoch may.
    """

    dataset: str
    member: str
    id: str
    object: str
    stream: str = ""
    ranges: tuple[tuple[int, int], ...] = ()
    records: Mapping[int, int] = {}
    generation: str = ""
    writer: str = ""
    epoch: int = 0


class Number(NamedTuple):
    """How many records a witness has counted at the source for a base slot, and whether that is final.

    A higher `version` replaces a lower one, in whatever order they come.
    """

    witness: str
    slot: Slot
    records: int
    final: bool = True
    version: int = 0


class Ends(NamedTuple):
    """The end positions of all streams of a member, `taken` after a base slot's end and its grace.

    `begins` are the first positions that the source still has, if it drops old ones. Streams are named as in parts:
    `stream`, or `stream@generation`.
    """

    slot: Slot
    ends: Mapping[str, int]
    taken: datetime
    begins: Mapping[str, int] = {}


class Status(StrEnum):
    """What became of a report: it changed something, it was known already, or it was not taken."""

    ACCEPTED = "accepted"
    KNOWN = "known"
    REFUSED = "refused"


class Outcome(NamedTuple):
    """The answer to one item of a batch. `message` says why it was refused, and what to do."""

    status: Status
    message: str = ""


class Waiver(NamedTuple):
    """A person's word that slots need not be complete; `over` once it was taken back. Slots stand for base sets."""

    id: str
    slots: tuple[Slot, ...]
    reason: str
    by: str
    at: int
    over: bool = False
