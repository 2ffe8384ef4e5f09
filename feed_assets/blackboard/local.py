"""A blackboard in a directory of a local disk.

Here: how objects become files: written aside, then put into place in one step. Not here: how
directories are listed in the order of keys (see `directory`).

A write is on the disk when the call returns. So after a power cut, no object names an earlier object that
is lost. Other programs may read and write in the same directory. Readers may see half of a file that such
a program writes in place, but never half of a file written here.

A disk has limits that S3 does not have: no object lies below another (`a` and `a/b`), a name
between two `/` has at most 255 bytes, and the root is on one file system. If several machines
mount it, its locks must work, and the clocks must agree to a second.
"""

from __future__ import annotations

import errno
import hashlib
import io
import os
import shutil
import stat
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from itertools import takewhile
from pathlib import Path
from typing import BinaryIO, Final
from urllib.parse import quote_from_bytes

from feed_assets.blackboard.directory import PRIVATE, Directories
from feed_assets.blackboard.exchanging import exchange, locked
from feed_assets.blackboard.keys import check_key, check_prefix
from feed_assets.blackboard.port import (
    PAGE_SIZE,
    AlreadyExistsError,
    BlackboardError,
    ConflictError,
    Content,
    Entry,
    InvalidKeyError,
    NotFoundError,
    Page,
    UnavailableError,
)

_PRIVATE: Final = os.fsdecode(PRIVATE)
_ABANDONED_NS: Final = 24 * 60 * 60 * 10**9
_LINK_ATTEMPTS: Final = 100
_MISSING: Final = (FileNotFoundError, NotADirectoryError)
_CANNOT_LINK: Final = {errno.EXDEV, errno.EPERM, errno.EMLINK, errno.EOPNOTSUPP}
_NO_PATH: Final = {errno.ELOOP, errno.ENAMETOOLONG}
_PASSING: Final = {
    *(errno.EAGAIN, errno.EBUSY, errno.EINTR, errno.EIO, errno.EMFILE, errno.ENFILE, errno.ESTALE, errno.ETIMEDOUT)
}
_ADVICE: Final = {
    errno.EACCES: "Give the user who runs this access to it.",
    errno.EPERM: "Give the user who runs this access to it.",
    errno.ENOSPC: "Make room on the disk, then try again.",
    errno.EDQUOT: "Make room in the quota, then try again.",
    errno.EROFS: "Mount the disk for writing.",
    errno.EXDEV: "Keep all of a blackboard on one file system.",
}


class LocalBlackboard:
    """The files below the directory `root`, which is made with the first object.

    Safe to share between threads and between processes. Unfinished files are in
    `<root>/.blackboard/`. The first write of a later blackboard removes files that killed writers left
    there more than a day ago.
    """

    def __init__(self, root: Path) -> None:
        there = True
        try:
            self._root = root.resolve()
            self._root.stat()  # Python 3.13 resolves a link that leads to itself
        except (FileNotFoundError, NotADirectoryError):
            there = False
        except (OSError, RuntimeError) as error:  # until Python 3.12, such a link is a RuntimeError
            if isinstance(error, OSError) and error.errno not in _NO_PATH:
                raise
            raise UnavailableError(
                f"{root} cannot be a directory to keep objects in: {error}.", transient=False
            ) from error
        if there and not self._root.is_dir():
            raise UnavailableError(f"{self._root} is a file. Name a directory to keep objects in.", transient=False)
        self._uri = self._root.as_uri().rstrip("/") + "/"
        self._directories = Directories()
        self._swept = False

    def __repr__(self) -> str:
        return f"LocalBlackboard({str(self._root)!r})"

    def page(self, prefix: str, *, after: str = "", folders: bool = False) -> Page:
        """See `Blackboard.page`. A directory is a folder if it holds an object at any depth."""
        self._path(check_prefix(prefix))
        base, folder, start = os.fsencode(self._root) + b"/", os.fsencode(prefix), os.fsencode(after)
        if start.startswith(folder):
            start = start[len(folder) :]
        elif start < folder:
            start = b""
        else:
            return Page((), (), None)
        walk = self._directories.children if folders else self._directories.keys
        entries: list[Entry] = []
        rolled_up: list[str] = []
        last = ""
        with self._errors(f"list {self.uri(prefix)}"):
            for path in walk(base, folder, start):
                key, is_folder = os.fsdecode(path), path.endswith(b"/")
                status = None if is_folder else _status(base + path)
                if status is None and not is_folder:
                    continue
                if len(entries) + len(rolled_up) == PAGE_SIZE:
                    return Page(tuple(entries), tuple(rolled_up), last)
                if status is None:
                    rolled_up.append(key)
                else:
                    entries.append(_entry(key, status))
                last = key
        return Page(tuple(entries), tuple(rolled_up), None)

    def read(self, key: str, *, limit: int | None = None) -> Content:
        """See `Blackboard.read`."""
        with self._errors(f"read {self.uri(key)}"), self._opened(key) as (file, status):
            return Content(_entry(key, status), file.read(-1 if limit is None else limit))

    def download(self, key: str, target: Path) -> Entry:
        """See `Blackboard.download`."""
        opened = self._opened(key)
        with self._errors(f"read {self.uri(key)}"), opened as (file, status), target.open("xb") as copy:
            shutil.copyfileobj(file, copy)
            if _tag(os.fstat(file.fileno())) != _tag(status):
                raise ConflictError(f"{self.uri(key)} changed while it was read. Read it again.")
        return _entry(key, status)

    def create(self, key: str, data: bytes) -> Entry:
        """See `Blackboard.create`."""
        return self._create(key, io.BytesIO(data))

    def upload(self, key: str, source: Path) -> Entry:
        """See `Blackboard.upload`. Raises FileNotFoundError if the source does not exist."""
        with source.open("rb") as content:
            return self._create(key, content)

    def copy(self, source: str, key: str) -> Entry:
        """See `Blackboard.copy`. If the disk supports hard links, both keys then name one file."""
        target = self._path(check_key(key))
        with (
            self._errors(f"copy {self.uri(source)} to {self.uri(key)}"),
            self._opened(source) as (content, status),
        ):
            # The source's writer may not have waited for the disk.
            os.fsync(content.fileno())
            try:
                self._link(Path(os.path.realpath(self._path(source))), target, key)
            except OSError as error:
                # The source may have been deleted since it was opened; its content is still there to copy.
                if error.errno not in _CANNOT_LINK | {errno.ENOENT}:
                    raise
                return self._create(key, content)
            return _entry(key, status)

    def replace(self, key: str, data: bytes, *, tag: str) -> Entry:
        """See `Blackboard.replace`. A file that another program removes or replaces meanwhile is a conflict, too."""
        path = self._path(check_key(key))
        changed = ConflictError(f"{self.uri(key)} changed or vanished since it was read. Read it again.")
        with self._errors(f"replace {self.uri(key)}"):
            try:
                old = path.stat()
                # Write and sync before taking the lock: it is held for moments, and no slow step comes between
                # looking at the old file and putting the new file into its place.
                with self._written(io.BytesIO(data), newer_than=old.st_mtime_ns) as (file, status):
                    with locked(path.parent) as parent:
                        if _tag(os.stat(path.name, dir_fd=parent)) != tag:
                            raise changed
                        exchange(file, path.name, parent)
                        # Other programs take no lock, so look at the file that was really exchanged.
                        if file.exists() and _tag(file.stat()) != tag:
                            exchange(file, path.name, parent)
                            raise changed
                    _flush(path.parent)
                    return _entry(key, status)
            except _MISSING as error:
                raise changed from error

    def delete(self, *keys: str) -> None:
        """See `Blackboard.delete`. Directories left empty are removed, too; for `a/` also those below `a`.

        Takes every key a listing can have shown, also names that nothing would be created under.
        """
        for key in keys:
            path = self._listed(key)
            with self._errors(f"delete {self.uri(key)}"):
                if key.endswith("/"):
                    _remove_empty(path)
                else:
                    _unlink(path)
                self._prune(path)

    def abort_uploads(self, prefix: str, *, before: datetime) -> int:
        """See `Blackboard.abort_uploads`: there are none."""
        del prefix, before
        return 0

    def flush(self, *keys: str) -> None:
        """See `Blackboard.flush`: syncs the files, and the directories that lead to them."""
        directories = set()
        for key in keys:
            with self._errors(f"sync {self.uri(key)}"), self._opened(key) as (file, _):
                os.fsync(file.fileno())
            path = self._root / key
            directories |= {parent for parent in path.parents if parent.is_relative_to(self._root)}
        for directory in sorted(directories):
            with self._errors(f"sync {directory}"):
                _flush(directory)

    def tag_of(self, data: bytes) -> str | None:  # noqa: ARG002 - the port's signature
        """None: inode, time and size do not tell the content."""
        return None

    def uri(self, key: str) -> str:
        """`file:///...`, percent-encoded as RFC 8089 asks."""
        return f"{self._uri}{quote_from_bytes(os.fsencode(key))}" if key else self._root.as_uri()

    def _path(self, key: str) -> Path:
        """The path of the object; raises InvalidKeyError if a symbolic link leads out of the root."""
        if _PRIVATE in key.split("/"):
            raise InvalidKeyError(f"{key!r} cannot be a key: {_PRIVATE!r} is where unfinished files are kept.")
        path = self._root / key
        leads_to = Path(os.path.realpath(path))
        if not leads_to.is_relative_to(self._root):
            raise InvalidKeyError(
                f"{key!r} leads out of {self._root} through a symbolic link, to {leads_to}. "
                "Put the files themselves there."
            )
        return path

    def _listed(self, key: str) -> Path:
        segments = key.removesuffix("/").split("/")
        if "\0" in key or not {"", ".", ".."}.isdisjoint(segments):
            raise InvalidKeyError(f"{key!r} cannot be a key of an object. Use one that a listing shows.")
        # The last name may be a link out of the root: what is deleted is the link.
        return self._path("/".join(segments[:-1])) / segments[-1]

    @contextmanager
    def _opened(self, key: str) -> Iterator[tuple[BinaryIO, os.stat_result]]:
        path = self._path(check_key(key))
        try:
            # Check before opening: opening a named pipe would wait for its writer.
            found = stat.S_ISREG(path.stat().st_mode)
            file = path.open("rb") if found else None
        except _MISSING:
            file = None
        if file is None:
            raise NotFoundError(f"There is no object {self.uri(key)}.")
        with file:
            yield file, os.fstat(file.fileno())

    def _create(self, key: str, content: BinaryIO) -> Entry:
        path = self._path(check_key(key))
        with self._errors(f"create {self.uri(key)}"), self._written(content) as (file, status):
            self._link(file, path, key)
            return _entry(key, status)

    def _link(self, file: Path, path: Path, key: str) -> None:
        """Link the file to this path, too. A link is atomic, and never replaces a file."""
        made = list(takewhile(lambda each: not each.exists(), path.parents))
        for attempt in range(_LINK_ATTEMPTS):
            try:
                _make_directory(path.parent)
                path.hardlink_to(file)
            except FileExistsError as error:
                if path.is_dir():
                    raise _not_both(path) from error
                raise AlreadyExistsError(f"{self.uri(key)} is there already; it stays as it is.") from error
            except FileNotFoundError:
                # A delete emptied one of the directories, and removed it before the link was made.
                if attempt + 1 == _LINK_ATTEMPTS or not file.exists():
                    raise
            else:
                break
        for directory in (path.parent, *(each.parent for each in made)):
            _flush(directory)

    @contextmanager
    def _written(self, content: BinaryIO, *, newer_than: int = 0) -> Iterator[tuple[Path, os.stat_result]]:
        """A file with this content, synced to the disk and hidden from listings; it is removed afterwards."""
        private = self._root / _PRIVATE
        private.mkdir(parents=True, exist_ok=True)
        temporary = private / uuid.uuid4().hex
        try:
            with temporary.open("xb") as file:
                self._sweep(private, now=os.fstat(file.fileno()).st_mtime_ns)
                shutil.copyfileobj(content, file, 1024 * 1024)
                file.flush()
                # Tags must differ, but inodes are reused at once and the disk's clock ticks slowly.
                modified = max(time.time_ns(), newer_than + 1)
                os.utime(file.fileno(), ns=(modified, modified))
                os.fsync(file.fileno())
                status = os.fstat(file.fileno())
            yield temporary, status
        finally:
            temporary.unlink(missing_ok=True)

    def _sweep(self, private: Path, *, now: int) -> None:
        if not self._swept:
            self._swept = True
            for left in private.iterdir():
                status = _status(os.fsencode(left))
                if status is not None and status.st_mtime_ns + _ABANDONED_NS < now:
                    left.unlink(missing_ok=True)

    def _prune(self, path: Path) -> None:
        for directory in path.parents:
            if directory == self._root:
                break
            try:
                directory.rmdir()
            except FileNotFoundError:
                continue
            except OSError:
                # It is not empty, or cannot be removed. No listing shows an empty directory.
                break

    @contextmanager
    def _errors(self, doing: str) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise _translated(error, doing) from error


def _make_directory(path: Path) -> None:
    try:
        path.mkdir(parents=True, exist_ok=True)
    except FileExistsError as error:
        if path.exists() and not path.is_dir():
            raise _not_both(path) from error
        # It existed when it was to be made, and was removed before it could be inspected.
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(path)) from error


def _not_both(path: Path) -> NotADirectoryError:
    return NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), str(path))


def _flush(directory: Path) -> None:
    try:
        descriptor = os.open(directory, os.O_RDONLY)
    except FileNotFoundError:
        # Everything in it has been deleted again.
        return
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _unlink(path: Path) -> None:
    try:
        with locked(path.parent) as parent:
            if stat.S_ISDIR(os.stat(path.name, dir_fd=parent, follow_symlinks=False).st_mode):
                return
            os.unlink(path.name, dir_fd=parent)
        _flush(path.parent)
    except _MISSING:
        pass


def _remove_empty(directory: Path) -> None:
    """Remove a directory and those below it, as far as they hold no file."""
    try:
        with os.scandir(directory) as found:
            below = [Path(entry) for entry in found if entry.is_dir(follow_symlinks=False)]
        for each in below:
            _remove_empty(each)
        directory.rmdir()
    except OSError:
        # Missing, not empty, or not removable. No listing shows an empty directory.
        return


def _status(path: bytes) -> os.stat_result | None:
    """The status of the file, or of a link's target if it exists; None if the file vanished since it was listed."""
    try:
        return os.stat(path)  # noqa: PTH116 - once for each object of a listing: pathlib costs more than the call
    except OSError:
        try:
            return os.stat(path, follow_symlinks=False)  # noqa: PTH116 - see above
        except FileNotFoundError:
            return None


def _entry(key: str, status: os.stat_result) -> Entry:
    modified = datetime.fromtimestamp(status.st_mtime, tz=UTC)
    return Entry(key, status.st_size, _tag(status), modified)


def _tag(status: os.stat_result) -> str:
    return f"{status.st_ino:x}-{status.st_mtime_ns:x}-{status.st_size:x}"


def digest_of(path: Path, root: Path) -> tuple[str, str] | None:
    """The tag and the SHA-256 of a file below `root`; None if it is gone, unreadable, or changes meanwhile."""
    try:
        if not Path(os.path.realpath(path)).is_relative_to(os.path.realpath(root)) or not path.is_file():
            return None
        with path.open("rb") as file:
            tag = _tag(os.fstat(file.fileno()))
            digest = hashlib.file_digest(file, "sha256").hexdigest()
            return (tag, digest) if _tag(os.fstat(file.fileno())) == tag else None
    except OSError:
        return None


def _translated(error: OSError, doing: str) -> BlackboardError:
    reason = f"Could not {doing}: {error.strerror}"
    if isinstance(error, NotADirectoryError):
        return InvalidKeyError(f"{reason}. On a disk an object cannot have others below it: use another key.")
    if error.errno == errno.ENAMETOOLONG:
        return InvalidKeyError(f"{reason}. Use shorter names between the slashes.")
    where = f" ({os.fsdecode(error.filename)})" if isinstance(error.filename, str | bytes) else ""
    advice = _ADVICE.get(error.errno or 0, "Look at the disk, then try again.")
    return UnavailableError(f"{reason}{where}. {advice}", transient=error.errno in _PASSING)
