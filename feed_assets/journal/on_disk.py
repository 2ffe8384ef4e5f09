"""Segments in a directory of a local disk, a file each.

Appended records survive the process and the machine (each append waits for the disk), but not the loss of the disk.
"""

from __future__ import annotations

import fcntl
import logging
import os
from collections.abc import Iterator, Sequence
from contextlib import closing, suppress
from pathlib import Path

from feed_assets.journal.records import JournalError, read_all, read_frames
from feed_assets.journal.segments import new_segment

_ENDING = ".segment"
_log = logging.getLogger(__name__)


class DiskSegments:
    """The segments in this directory, which is created if needed. See `Segments`."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._lock: int | None = None
        self._file: int | None = None
        self._segment = ""
        self._durable = 0

    def __str__(self) -> str:
        return str(self._directory)

    def claim(self) -> None:
        """See `Segments.claim`. The directory is free again when the process ends, however it ends."""
        self._directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        _sync(self._directory.parent)
        self._lock = os.open(self._directory / "lock", os.O_CREAT | os.O_RDWR, 0o600)
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise JournalError(
                f"{self._directory} is the journal of another process that runs now; end that process, or name another "
                "directory for this one."
            ) from None

    def begin(self) -> str:
        """See `Segments.begin`."""
        self._segment, self._durable = new_segment(), 0
        # Records are somebody's data: only the owner reads them.
        self._file = os.open(self._path(self._segment), os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_APPEND, 0o600)
        _sync(self._directory)
        return self._segment

    def append(self, frames: Sequence[bytes]) -> None:
        """See `Segments.append`."""
        if self._file is None:
            raise JournalError(f"{self} has no open segment")
        left = memoryview(b"".join(frames))
        size = len(left)
        while left:
            left = left[os.write(self._file, left) :]
        os.fdatasync(self._file)
        self._durable += size

    def seal(self, segment: str) -> None:
        """See `Segments.seal`. A torn end, which nobody acknowledged, is cut off."""
        path = self._path(segment)
        with path.open("r+b") as file:
            length = self._durable
            if segment != self._segment:
                length = max((after for _, after in read_frames(file)), default=0)
                file.seek(length)
                _keep(path.with_suffix(".cut"), file.read())
            file.truncate(length)
            os.fsync(file.fileno())
        if segment == self._segment and self._file is not None:
            os.close(self._file)
            self._file, self._segment = None, ""

    def segments(self) -> list[str]:
        """See `Segments.segments`."""
        return sorted(path.stem for path in self._directory.glob(f"*{_ENDING}"))

    def records(self, segment: str) -> Iterator[bytes]:
        """See `Segments.records`."""
        try:
            file = self._path(segment).open("rb")
        except FileNotFoundError:
            return
        with closing(file):
            yield from read_all(file, str(self._path(segment)))

    def remove(self, segment: str) -> None:
        """See `Segments.remove`."""
        self._path(segment).unlink(missing_ok=True)
        _sync(self._directory)

    def _path(self, segment: str) -> Path:
        return self._directory / f"{segment}{_ENDING}"


def _keep(path: Path, cut: bytes) -> None:
    """Keep what is cut off a segment, for people: it is half of a record, unless the disk has damaged it."""
    if cut:
        _log.warning("%d bytes at the end of a segment are no record, and are kept in %s", len(cut), path)
        with suppress(OSError):
            path.write_bytes(cut)


def _sync(directory: Path) -> None:
    """Let new and removed names in a directory survive a power cut."""
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
