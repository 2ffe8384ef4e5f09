"""A blackboard in a directory of a local disk.

Here: how objects become files: written aside, then put into place in one step. Not here: how
directories are listed in the order of keys (see `directory`), and how no link leads elsewhere (see `folders`).

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
import re
import shutil
import stat
import time
import uuid
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import BinaryIO, Final
from urllib.parse import quote_from_bytes

from feed_assets.blackboard.directory import PRIVATE, Directories
from feed_assets.blackboard.exchanging import exchange, locked
from feed_assets.blackboard.folders import folder, is_link, leading_out, names, remove_empty, sync
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
_UNFINISHED: Final = re.compile("[0-9a-f]{32}")
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
        _require_public(check_prefix(prefix))
        base, start_of, start = os.fsencode(self._root) + b"/", os.fsencode(prefix), os.fsencode(after)
        if start.startswith(start_of):
            start = start[len(start_of) :]
        elif start < start_of:
            start = b""
        else:
            return Page((), (), None)
        walk = self._directories.children if folders else self._directories.keys
        entries: list[Entry] = []
        rolled_up: list[str] = []
        last = ""
        with self._errors(f"list {self.uri(prefix)}"):
            with suppress(*_MISSING), folder(self._root, prefix.removesuffix("/")):
                pass
            for path in walk(base, start_of, start):
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
        _require_public(check_key(key))
        doing = f"copy {self.uri(source)} to {self.uri(key)}"
        with self._errors(doing), ExitStack() as stack:
            parent, name, content, status = self._open(source, stack)
            # The source's writer may not have waited for the disk.
            os.fsync(content.fileno())
            try:
                self._link(parent, name, key)
            except OSError as error:
                # The source may have been deleted since it was opened; its content is still there to copy.
                if error.errno not in _CANNOT_LINK | {errno.ENOENT}:
                    raise
                return self._create(key, content)
            return _entry(key, status)

    def replace(self, key: str, data: bytes, *, tag: str) -> Entry:
        """See `Blackboard.replace`. A file that another program removes or replaces meanwhile is a conflict, too."""
        _require_public(check_key(key))
        changed = ConflictError(f"{self.uri(key)} changed or vanished since it was read. Read it again.")
        above, _, name = key.rpartition("/")
        with self._errors(f"replace {self.uri(key)}"):
            try:
                with folder(self._root, above) as parent, _named(self._root / above):
                    self._leads_to(key, parent, name)
                    old = os.stat(name, dir_fd=parent)
                    # Write and sync before taking the lock: it is held for moments, and no slow step comes between
                    # looking at the old file and putting the new file into its place.
                    with self._written(io.BytesIO(data), newer_than=old.st_mtime_ns) as (private, file, status):
                        with locked(parent, self._root / above):
                            if _tag(os.stat(name, dir_fd=parent)) != tag:
                                raise changed
                            exchange(private, file, parent, name)
                            # Other programs take no lock, so look at the file that was really exchanged.
                            if (replaced := _status(file, private)) is not None and _tag(replaced) != tag:
                                exchange(private, file, parent, name)
                                raise changed
                        sync(parent)
                        return _entry(key, status)
            except _MISSING as error:
                raise changed from error

    def delete(self, *keys: str) -> None:
        """See `Blackboard.delete`. Directories left empty are removed, too; for `a/` also those below `a`.

        Takes every key a listing can have shown, also names that nothing would be created under.
        """
        for key in keys:
            above, name = _listed(key)
            with self._errors(f"delete {self.uri(key)}"):
                with suppress(*_MISSING), folder(self._root, above) as parent:
                    if key.endswith("/"):
                        remove_empty(parent, name)
                    else:
                        self._unlink(parent, above, name)
                self._prune(above)

    def abort_uploads(self, prefix: str, *, before: datetime) -> int:
        """See `Blackboard.abort_uploads`: there are none."""
        del prefix, before
        return 0

    def flush(self, *keys: str) -> None:
        """See `Blackboard.flush`: syncs the files, and the directories that lead to them."""
        directories = {""}
        for key in keys:
            with self._errors(f"sync {self.uri(key)}"), self._opened(key) as (file, _):
                os.fsync(file.fileno())
            directories |= {str(each) for each in Path(key).parents if each.name}
        for directory in sorted(directories) if keys else ():
            with self._errors(f"sync {self.uri(directory)}"), folder(self._root, directory) as descriptor:
                sync(descriptor)

    def tag_of(self, data: bytes) -> str | None:  # noqa: ARG002 - the port's signature
        """None: inode, time and size do not tell the content."""
        return None

    def uri(self, key: str) -> str:
        """`file:///...`, percent-encoded as RFC 8089 asks."""
        return f"{self._uri}{quote_from_bytes(os.fsencode(key))}" if key else self._root.as_uri()

    @contextmanager
    def _opened(self, key: str) -> Iterator[tuple[BinaryIO, os.stat_result]]:
        with ExitStack() as stack:
            _, _, file, status = self._open(key, stack)
            yield file, status

    def _open(self, key: str, stack: ExitStack) -> tuple[int, str, BinaryIO, os.stat_result]:
        """Open an object: its directory, its name there, its file and its status; for a link, of what it leads to."""
        try:
            parent, name = self._located(key, stack)
            # Check before opening: opening a named pipe would wait for its writer.
            if not stat.S_ISREG(os.stat(name, dir_fd=parent, follow_symlinks=False).st_mode):
                raise self._missing(key)
            descriptor = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=parent)
        except _MISSING as error:
            raise self._missing(key) from error
        file = stack.enter_context(os.fdopen(descriptor, "rb"))
        return parent, name, file, os.fstat(descriptor)

    def _located(self, key: str, stack: ExitStack) -> tuple[int, str]:
        _require_public(check_key(key))
        above, _, name = key.rpartition("/")
        parent = stack.enter_context(folder(self._root, above))
        if (target := self._leads_to(key, parent, name)) is None:
            return parent, name
        if target == self._root:
            raise self._missing(key)
        inside = target.relative_to(self._root)
        return stack.enter_context(folder(self._root, "/".join(inside.parts[:-1]))), inside.name

    def _leads_to(self, key: str, parent: int, name: str) -> Path | None:
        """Where the object leads to if it is a link, else None. Raises InvalidKeyError if that is not in the root."""
        if not is_link(parent, name):
            return None
        for leads_to in leading_out(self._root, [key]).values():
            out = f"{key!r} leads out of {self._root} through a symbolic link, to {leads_to}"
            raise InvalidKeyError(f"{out}. Put the files themselves there.")
        return Path(os.path.realpath(self._root / key))

    def _missing(self, key: str) -> NotFoundError:
        return NotFoundError(f"There is no object {self.uri(key)}.")

    def _create(self, key: str, content: BinaryIO) -> Entry:
        _require_public(check_key(key))
        with self._errors(f"create {self.uri(key)}"), self._written(content) as (private, file, status):
            self._link(private, file, key)
            return _entry(key, status)

    def _link(self, source: int, file: str, key: str) -> None:
        """Link the file to this key, too. A link is atomic, and never replaces a file."""
        above, _, name = key.rpartition("/")
        for attempt in range(_LINK_ATTEMPTS):
            try:
                with folder(self._root, above, make=True) as parent, _named(self._root / above):
                    self._leads_to(key, parent, name)
                    try:
                        os.link(file, name, src_dir_fd=source, dst_dir_fd=parent, follow_symlinks=False)
                    except FileExistsError as error:
                        if (there := _status(name, parent)) is not None and stat.S_ISDIR(there.st_mode):
                            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), key) from error
                        raise AlreadyExistsError(f"{self.uri(key)} is there already; it stays as it is.") from error
                    sync(parent)
                    return
            except FileNotFoundError:
                # A delete emptied one of the directories, and removed it before the link was made.
                if attempt + 1 == _LINK_ATTEMPTS or _status(file, source) is None:
                    raise

    @contextmanager
    def _written(self, content: BinaryIO, *, newer_than: int = 0) -> Iterator[tuple[int, str, os.stat_result]]:
        """A directory and the name of a file there with this content, synced to the disk and hidden from listings.

        The file is removed afterwards.
        """
        with folder(self._root, _PRIVATE, make=True) as private:
            temporary = uuid.uuid4().hex
            try:
                with _named(self._root / _PRIVATE), _new_file(private, temporary) as file:
                    self._sweep(private, now=os.fstat(file.fileno()).st_mtime_ns)
                    shutil.copyfileobj(content, file, 1024 * 1024)
                    file.flush()
                    # Tags must differ, but inodes are reused at once and the disk's clock ticks slowly.
                    modified = max(time.time_ns(), newer_than + 1)
                    os.utime(file.fileno(), ns=(modified, modified))
                    os.fsync(file.fileno())
                    status = os.fstat(file.fileno())
                yield private, temporary, status
            finally:
                with suppress(FileNotFoundError):
                    os.unlink(temporary, dir_fd=private)

    def _sweep(self, private: int, *, now: int) -> None:
        """Remove the old files that have names of unfinished files, once. What else is there is somebody's own."""
        if self._swept:
            return
        self._swept = True
        for name in filter(_UNFINISHED.fullmatch, names(private)):
            with suppress(FileNotFoundError, PermissionError):  # PermissionError: the one who may remove it does so
                status = os.stat(name, dir_fd=private, follow_symlinks=False)
                if stat.S_ISREG(status.st_mode) and status.st_mtime_ns + _ABANDONED_NS < now:
                    os.unlink(name, dir_fd=private)

    def _unlink(self, parent: int, above: str, name: str) -> None:
        with _named(self._root / above), locked(parent, self._root / above):
            if stat.S_ISDIR(os.stat(name, dir_fd=parent, follow_symlinks=False).st_mode):
                return
            os.unlink(name, dir_fd=parent)
        sync(parent)

    def _prune(self, path: str) -> None:
        while path:
            above, _, name = path.rpartition("/")
            try:
                with folder(self._root, above) as parent:
                    os.rmdir(name, dir_fd=parent)
            except FileNotFoundError:
                pass
            except OSError:
                # It is not empty, or cannot be removed. No listing shows an empty directory.
                break
            path = above

    @contextmanager
    def _errors(self, doing: str) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise _translated(error, doing) from error


@contextmanager
def _named(path: Path) -> Iterator[None]:
    """Let errors of the disk name the path: those of names in a directory have only the name."""
    try:
        yield
    except OSError as error:
        error.filename = str(path)
        raise


def _new_file(parent: int, name: str) -> BinaryIO:
    return os.fdopen(os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666, dir_fd=parent), "wb")


def _require_public(key: str) -> None:
    if _PRIVATE in key.split("/"):
        raise InvalidKeyError(f"{key!r} cannot be a key: {_PRIVATE!r} is where unfinished files are kept.")


def _listed(key: str) -> tuple[str, str]:
    """The directory and the name of a key that a listing can have shown. Raises InvalidKeyError for others."""
    path = key.removesuffix("/")
    if "\0" in key or not {"", ".", ".."}.isdisjoint(path.split("/")):
        raise InvalidKeyError(f"{key!r} cannot be a key of an object. Use one that a listing shows.")
    above, _, name = path.rpartition("/")
    _require_public(above)
    return above, name


def _status(path: str | bytes, parent: int | None = None) -> os.stat_result | None:
    """The status of the file, or of a link's target if it exists; None if the file vanished since it was listed."""
    try:
        return os.stat(path, dir_fd=parent)
    except OSError:
        try:
            return os.stat(path, dir_fd=parent, follow_symlinks=False)
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
