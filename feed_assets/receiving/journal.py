"""The journal: accepted requests in segments, until they have landed.

Here: an entry, its frame, and the port of a medium. Not here: the media (`disk_journal`, `blackboard_journal`), and who
writes and reads (`committing`, `landing_segments`).

A frame is a mark, the length and a CRC-32 of its payload, and the payload: a header of JSON, and a record a line. A
frame that is cut off or damaged ends its segment: it was never acknowledged.
"""

from __future__ import annotations

import os
import struct
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import BinaryIO, Final, Protocol
from uuid import uuid4

import msgspec

from feed_assets.blackboard import BlackboardError
from feed_assets.errors import FeedAssetsError

_FRAME: Final = struct.Struct("<4sII")
_MARK: Final = b"fa01"
"""The beginning of a frame: zeros, which a disk may leave after a power cut, are no frame."""
_BEGUN: Final = "%Y%m%dT%H%M%S%f"


class JournalError(FeedAssetsError):
    """The journal cannot be used; the message says what, where and what to do."""


MEDIUM_ERRORS: Final = (OSError, BlackboardError, JournalError)
"""What a journal raises if its medium fails."""


class Header(msgspec.Struct, frozen=True):
    """A request: its source, how many records it has that are usable, and why the others are not, by their index.

    `key` identifies the request if its client can repeat it; else it is empty. `content` is a digest of its body then.
    """

    source: str
    request_id: str
    accepted: int
    rejected: tuple[tuple[int, str], ...] = ()
    key: str = ""
    content: str = ""
    at: datetime = datetime.min.replace(tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Entry:
    """A request with its records, each in a line of its own, with its line feed."""

    header: Header
    records: bytes


encode_header = msgspec.json.Encoder().encode
decode_header = msgspec.json.Decoder(Header).decode
"""A header as JSON and back, for the journal and for the answers that the store keeps."""


def frame(entry: Entry) -> bytes:
    """The entry as the journal holds it."""
    payload = b"\n".join((encode_header(entry.header), entry.records))
    return _FRAME.pack(_MARK, len(payload), _checksum(payload)) + payload


def read_frames(file: BinaryIO) -> Iterator[tuple[Entry, int]]:
    """The entries up to the first frame that is cut off or damaged, each with the position after it."""
    position = 0
    while len(start := file.read(_FRAME.size)) == _FRAME.size:
        mark, length, checksum = _FRAME.unpack(start)
        payload = file.read(length) if mark == _MARK else b""
        if mark != _MARK or len(payload) < length or _checksum(payload) != checksum:
            return
        position += _FRAME.size + length
        header, _, records = payload.partition(b"\n")
        yield Entry(decode_header(header), records), position


def _checksum(payload: bytes) -> int:
    # The length comes in: the checksum of nothing is 0, so a mark followed by zeros would be a valid frame.
    return zlib.crc32(payload, len(payload) + 1)


def read_all(file: BinaryIO, name: str) -> Iterator[Entry]:
    """The entries of a file that nobody writes any more. Raises JournalError if a byte is no part of them."""
    after = 0
    for entry, after in read_frames(file):  # noqa: B007 - needed after the loop
        yield entry
    if file.seek(0, os.SEEK_END) != after:
        raise JournalError(f"{name} is damaged at byte {after:,}; restore it, or move it away to do without its events")


def new_segment() -> str:
    """The name of a new segment, unlike that of any other; names sort by time."""
    return f"{datetime.now(UTC):{_BEGUN}}-{uuid4().hex[:16]}"


def age(segment: str) -> float:
    """Seconds since a segment of this name was begun, with its first entry; 0 if the name is not of `new_segment`."""
    try:
        begun = datetime.strptime(segment.partition("-")[0], _BEGUN).replace(tzinfo=UTC)
    except ValueError:
        return 0.0
    return max(0.0, (datetime.now(UTC) - begun).total_seconds())


class Journal(Protocol):
    """Where segments are. A process writes one at a time. Methods raise OSError, BlackboardError or JournalError."""

    def claim(self) -> None:
        """Become the only writer, as far as the medium can tell. Raises JournalError."""
        ...

    def begin(self) -> str:
        """Start a segment, for `append`, and return its name."""
        ...

    def append(self, frames: Sequence[bytes]) -> None:
        """Write frames to the segment that was begun last. They are durable when the call returns.

        After an error, seal the segment: that decides whether they are in it.
        """
        ...

    def seal(self, segment: str) -> None:
        """Fix the content of a segment, also of one that a killed process has begun; can be repeated."""
        ...

    def segments(self) -> list[str]:
        """All segments, oldest first."""
        ...

    def entries(self, segment: str) -> Iterator[Entry]:
        """The entries of a sealed segment, in order; none if it does not exist. Raises JournalError if damaged."""
        ...

    def remove(self, segment: str) -> None:
        """Remove a sealed segment; can be repeated."""
        ...
