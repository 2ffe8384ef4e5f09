"""Records with checksums: what a journal's bytes are made of.

A frame is a mark, the length and a CRC-32 of its payload, and the payload. A frame that is cut off or damaged ends the
records: nobody was told that it is durable. Not here: where the bytes are (`on_disk`, `on_blackboard`).
"""

from __future__ import annotations

import os
import struct
import zlib
from collections.abc import Iterator
from typing import BinaryIO, Final

from feed_assets.errors import FeedAssetsError

_FRAME: Final = struct.Struct("<4sII")
_MARK: Final = b"fa01"
"""The beginning of a frame: zeros, which a disk may leave after a power cut, are no frame."""


class JournalError(FeedAssetsError):
    """The journal cannot be used; the message says what, where and what to do."""


def frame(payload: bytes) -> bytes:
    """The payload as a journal holds it."""
    return _FRAME.pack(_MARK, len(payload), _checksum(payload)) + payload


def read_frames(file: BinaryIO) -> Iterator[tuple[bytes, int]]:
    """The payloads up to the first frame that is cut off or damaged, each with the position after it."""
    position = 0
    while len(start := file.read(_FRAME.size)) == _FRAME.size:
        mark, length, checksum = _FRAME.unpack(start)
        payload = file.read(length) if mark == _MARK else b""
        if mark != _MARK or len(payload) < length or _checksum(payload) != checksum:
            return
        position += _FRAME.size + length
        yield payload, position


def read_all(file: BinaryIO, name: str) -> Iterator[bytes]:
    """The payloads of a file that nobody writes any more. Raises JournalError if a byte is no part of them."""
    after = 0
    for payload, after in read_frames(file):  # noqa: B007 - needed after the loop
        yield payload
    if file.seek(0, os.SEEK_END) != after:
        raise JournalError(f"{name} is damaged at byte {after:,}; restore it, or move it away and lose its records")


def _checksum(payload: bytes) -> int:
    # The length comes in: the checksum of nothing is 0, so a mark followed by zeros would be a valid frame.
    return zlib.crc32(payload, len(payload) + 1)
