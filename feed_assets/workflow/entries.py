"""One entry of a workflow's journal: its bytes, and what they say.

An entry is a frame (`journal.records`) around MessagePack. It names the workflow, its place in the journal, its writer,
and the checksum of the entry before, so that neither a foreign nor a missing entry passes for the right one. Entry 1 of
an epoch is its START: it has no mutations, and names the epoch that it continues. Not here: what a mutation means.
"""

from __future__ import annotations

import zlib
from io import BytesIO
from typing import Final

import msgspec

from feed_assets.journal.records import JournalError, frame, read_all
from feed_assets.workflow.errors import JournalDamagedError, WorkflowError

FORMAT: Final = 1
MOST_BYTES: Final = 4 * 1024 * 1024
"""The most bytes of mutations in an entry, unless a single mutation has more."""


class Entry(msgspec.Struct, frozen=True, array_like=True):
    """What an entry says. `position` is that of its first mutation; for a START, of the next one to come."""

    format: int
    token: str
    epoch: int
    number: int
    position: int
    nonce: str
    before: int
    """The checksum of the entry before; 0 for the first of all."""
    predecessor: tuple[int, int] | None
    """Of a START: the epoch that it continues, and the number of that epoch's seal. (0, 0) for the first of all."""
    mutations: tuple[bytes, ...]


_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(Entry)


def encode(entry: Entry) -> bytes:
    """The bytes of an entry."""
    return frame(_encoder.encode(entry))


def decode(data: bytes, uri: str) -> Entry:
    """The entry of these bytes. Raises JournalDamagedError, WorkflowError if a newer version has written it."""
    try:
        (payload,) = read_all(BytesIO(data), uri)
        entry = _decoder.decode(payload)
    except (JournalError, ValueError, msgspec.MsgspecError) as error:
        raise JournalDamagedError(
            f"{uri} is no entry of a journal ({error}). Restore this object, from a backup or an older version of it."
        ) from error
    if entry.format > FORMAT:
        raise WorkflowError(f"{uri} is of a newer version of feed_assets (format {entry.format}): update this one.")
    return entry


def checksum(data: bytes) -> int:
    """The checksum of an entry's bytes, as the next entry names it."""
    return zlib.crc32(data)
