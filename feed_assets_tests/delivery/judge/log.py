"""The log: each record that the judge has stored, in the order of arrival, in one file that only grows.

Here: the format, the writer that the judge uses, and `Log`, the reader of tests. Not here: what is stored, and why.
A test may read while the judge writes, and after it was killed.

The file is MAGIC and entries. An entry is HEADER, the partition key and the data. There are two kinds: RECORD, and NOTE
whose data is JSON: a stream was created or deleted, a shard was opened or closed. A sequence number contains the offset
of its record in the file, so it grows, is unique, and leads to the record.
"""

from __future__ import annotations

import json
import mmap
import os
import struct
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import msgspec

MAGIC: Final = b"judge\x00\x00\x01"
HEADER: Final = struct.Struct("<BBHIIHd")
"""Kind, flags, number of the stream, number of the shard, bytes of data, bytes of key, seconds since 1970."""
RECORD: Final = 1
NOTE: Final = 2
UNANSWERED: Final = 1
"""The flag of a record that the judge stored, and then did not acknowledge."""
_SHARD_DIGITS: Final = 12


def sequence_prefix(created_milliseconds: int, stream: int) -> str:
    """The first 24 of the 56 digits of all sequence numbers of a stream."""
    return f"49{created_milliseconds:013d}{stream:09d}"


def sequence_number(prefix: str, offset: int, shard: int) -> str:
    """56 decimal digits, as AWS's numbers have today."""
    return f"{prefix}{offset:020d}{shard:012d}"


class Stored(msgspec.Struct, frozen=True, gc=False):
    """A stored record."""

    stream: str
    shard: str
    arrived: float
    """Seconds since 1970 by the judge's clock."""
    key: str
    data: bytes
    answered: bool
    """False if the judge stored the record and on purpose did not acknowledge it. See also `Account.gone`."""
    prefix: str
    offset: int

    @property
    def sequence(self) -> str:
        """The sequence number."""
        return sequence_number(self.prefix, self.offset, int(self.shard[-_SHARD_DIGITS:]))


class LogWriter:
    """Appends to the log. What `append` was given can be read at once, by this process and others."""

    def __init__(self, path: Path) -> None:
        self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o644)
        os.write(self._file, MAGIC)
        self.end = len(MAGIC)

    def append(self, parts: Sequence[bytes]) -> None:
        """Write whole entries."""
        content = memoryview(b"".join(parts))
        while content:
            written = os.pwrite(self._file, content, self.end)
            self.end += written
            content = content[written:]

    def note(self, stream: int, shard: int, now: float, /, **facts: Any) -> int:
        """Write down what happened to a stream or a shard. Returns the entry's offset."""
        data = json.dumps(facts).encode()
        offset = self.end
        self.append([HEADER.pack(NOTE, 0, stream, shard, len(data), 0, now), data])
        return offset

    def read(self, offset: int, size: int) -> tuple[float, bytes, bytes]:
        """Arrival, key and data of the record there; `size` is that of key and data."""
        content = os.pread(self._file, HEADER.size + size, offset)
        header = HEADER.unpack_from(content)
        keyed = HEADER.size + header[5]
        return header[6], content[HEADER.size : keyed], content[keyed:]

    def arrival(self, offset: int) -> float:
        """When the record there arrived, in seconds."""
        return float(HEADER.unpack(os.pread(self._file, HEADER.size, offset))[6])


class Log:
    """The log of a judge, for tests."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __iter__(self) -> Iterator[Stored]:
        """All records that have been stored until now. An entry that a kill has torn ends the log."""
        names: dict[int, tuple[str, str]] = {}
        for offset, header, key, data in self._entries():
            kind, flags, stream, shard, _, _, arrived = header
            if kind == RECORD:
                name, prefix = names[stream]
                shard_id = f"shardId-{shard:012d}"
                yield Stored(name, shard_id, arrived, key.decode(), data, not flags & UNANSWERED, prefix, offset)
            elif (note := json.loads(data))["what"] == "stream created":
                names[stream] = (note["stream"], note["prefix"])

    def of(self, stream: str) -> Iterator[Stored]:
        """The records of a stream."""
        return (stored for stored in self if stored.stream == stream)

    def notes(self) -> list[dict[str, Any]]:
        """What happened to streams and shards, each with `what` and `at` in seconds."""
        return [json.loads(data) | {"at": header[6]} for _, header, _, data in self._entries() if header[0] == NOTE]

    def _entries(self) -> Iterator[tuple[int, tuple[Any, ...], bytes, bytes]]:
        with self.path.open("rb") as file:
            size = os.fstat(file.fileno()).st_size
            if size <= len(MAGIC):
                return
            with mmap.mmap(file.fileno(), size, access=mmap.ACCESS_READ) as content:
                offset = len(MAGIC)
                while offset + HEADER.size <= size:
                    header = HEADER.unpack_from(content, offset)
                    keyed = offset + HEADER.size + header[5]
                    end = keyed + header[4]
                    if end > size:
                        return
                    yield offset, header, content[offset + HEADER.size : keyed], content[keyed:end]
                    offset = end
