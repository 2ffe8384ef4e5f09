"""Segments in a directory of a local disk, a file each.

Appended records survive the process and the machine (each append waits for the disk), but not the loss of the disk.
No symbolic link is followed: others may be able to write in the folder above.
"""

from __future__ import annotations

import fcntl
import logging
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
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
        with suppress(FileExistsError):  # of a link that leads nowhere
            self._directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._lock = self._open("lock", os.O_CREAT | os.O_RDWR)
        _sync(self._directory.parent)
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise JournalError(
                f"{self._directory} is the journal of another process that runs now; end it, or give this one a "
                "journal of its own with --journal."
            ) from None

    def begin(self) -> str:
        """See `Segments.begin`."""
        self._segment, self._durable = new_segment(), 0
        self._file = self._open(f"{self._segment}{_ENDING}", os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_APPEND)
        with self._folder() as folder:
            os.fsync(folder)
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
        with os.fdopen(self._open(f"{segment}{_ENDING}", os.O_RDWR), "r+b") as file:
            length = self._durable
            if segment != self._segment:
                length = max((after for _, after in read_frames(file)), default=0)
                file.seek(length)
                self._keep(f"{segment}.cut", file.read())
            file.truncate(length)
            os.fsync(file.fileno())
        if segment == self._segment and self._file is not None:
            os.close(self._file)
            self._file, self._segment = None, ""

    def segments(self) -> list[str]:
        """See `Segments.segments`."""
        try:
            with self._folder() as folder, os.scandir(folder) as found:
                return sorted(each.name.removesuffix(_ENDING) for each in found if each.name.endswith(_ENDING))
        except FileNotFoundError:
            return []

    def records(self, segment: str) -> Iterator[bytes]:
        """See `Segments.records`."""
        try:
            descriptor = self._open(f"{segment}{_ENDING}", os.O_RDONLY)
        except FileNotFoundError:
            return
        with os.fdopen(descriptor, "rb") as file:
            yield from read_all(file, str(self._directory / f"{segment}{_ENDING}"))

    def remove(self, segment: str) -> None:
        """See `Segments.remove`."""
        with self._folder() as folder:
            with suppress(FileNotFoundError):
                os.unlink(f"{segment}{_ENDING}", dir_fd=folder)
            os.fsync(folder)

    @contextmanager
    def _folder(self) -> Iterator[int]:
        """The descriptor of the directory. Raises JournalError if it is a link, as it may lead to other data."""
        try:
            folder = os.open(self._directory, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
        except OSError as error:
            if self._directory.is_symlink():
                raise JournalError(
                    f"{self._directory} is a symbolic link, to {self._directory.readlink()}, and is not used as a "
                    "journal: remove the link, or name the directory itself with --journal."
                ) from error
            raise
        try:
            yield folder
        finally:
            os.close(folder)

    def _open(self, name: str, flags: int) -> int:
        """Open a file of the journal. Events are somebody's data: only the owner reads them."""
        with self._folder() as folder:
            return os.open(name, flags | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600, dir_fd=folder)

    def _keep(self, name: str, cut: bytes) -> None:
        """Keep what is cut off a segment, for people: it is half of a record, unless the disk has damaged it."""
        if cut:
            what = "%d bytes at the end of a segment are no record, and are kept in %s"
            _log.warning(what, len(cut), self._directory / name)
            with suppress(OSError), os.fdopen(self._open(name, os.O_CREAT | os.O_WRONLY | os.O_TRUNC), "wb") as file:
                file.write(cut)


def _sync(directory: Path) -> None:
    """Let new and removed names in a directory survive a power cut."""
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
