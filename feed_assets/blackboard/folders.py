"""The folders below a root on a disk, opened one in the other, so that no symbolic link leads elsewhere.

Here: descriptors of folders, and making and removing folders through them. Not here: files (see `local`). Whoever may
write in a folder can put a link into the place of another folder. Between a check of the path and its use there is time
for that. So nothing uses a path below the root: each folder is opened by its name in the folder above, and not if it is
a link. The root itself may be reached over links.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from itertools import takewhile
from pathlib import Path
from typing import Final

from feed_assets.blackboard.port import InvalidKeyError

_LINK: Final = {errno.ENOTDIR, errno.ELOOP}
# Only Linux can open a folder that may be passed through, and not be read.
_PASSING: Final = getattr(os, "O_PATH", os.O_RDONLY) | os.O_DIRECTORY | os.O_CLOEXEC


@contextmanager
def folder(root: Path, path: str, *, make: bool = False) -> Iterator[int]:
    """The descriptor of the folder at a path below the root, "" for the root; for names relative to it, not to read it.

    `make` makes missing folders, and syncs their names. Raises InvalidKeyError if one of the folders is a link,
    NotADirectoryError if one is a file, FileNotFoundError.
    """
    if make:
        _make_root(root)
    here = os.open(root, _PASSING)
    try:
        at = root
        for name in path.split("/") if path else ():
            at /= name
            try:
                below = _below(here, name, make=make)
            except OSError as error:
                if error.errno in _LINK:
                    _refuse_link(here, at)
                error.filename = str(at)
                raise
            os.close(here)
            here = below
        yield here
    finally:
        os.close(here)


def is_link(parent: int, name: str) -> bool:
    """Whether this name in the folder is a symbolic link."""
    with suppress(FileNotFoundError):
        return stat.S_ISLNK(os.stat(name, dir_fd=parent, follow_symlinks=False).st_mode)
    return False


def leading_out(root: Path, keys: Iterable[str]) -> dict[str, str]:
    """Those of these files below the root that a link leads out of it, or to a folder of another name: to which path.

    It looks at paths, so it tells what holds now. Each folder is looked at once.
    """
    found: dict[str, str] = {}
    folders: dict[str, str] = {}
    for key in keys:
        path = root / key
        if (above := str(path.parent)) not in folders:
            folders[above] = os.path.realpath(above)
        if folders[above] != above or path.is_symlink():
            leads_to = Path(os.path.realpath(path))
            if folders[above] != above or not leads_to.is_relative_to(root):
                found[key] = str(leads_to)
    return found


def sync(parent: int) -> None:
    """Return when the names in the folder would survive a power cut."""
    descriptor = os.open(".", os.O_RDONLY | os.O_CLOEXEC, dir_fd=parent)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def names(parent: int) -> list[str]:
    """The names in the folder."""
    descriptor = os.open(".", os.O_RDONLY | os.O_CLOEXEC, dir_fd=parent)
    try:
        with os.scandir(descriptor) as found:
            return [entry.name for entry in found]
    finally:
        os.close(descriptor)


def remove_empty(parent: int, name: str) -> None:
    """Remove a folder and those below it, as far as they hold no file."""
    try:
        descriptor = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=parent)
        try:
            with os.scandir(descriptor) as found:
                below = [entry.name for entry in found if entry.is_dir(follow_symlinks=False)]
            for each in below:
                remove_empty(descriptor, each)
        finally:
            os.close(descriptor)
        os.rmdir(name, dir_fd=parent)
    except OSError:
        # Missing, a link, not empty, or not removable. No listing shows an empty directory.
        return


def _below(parent: int, name: str, *, make: bool) -> int:
    try:
        return os.open(name, _PASSING | os.O_NOFOLLOW, dir_fd=parent)
    except FileNotFoundError:
        if not make:
            raise
    with suppress(FileExistsError):
        os.mkdir(name, dir_fd=parent)
        sync(parent)
    # If it was removed since: whoever makes folders tries again.
    return os.open(name, _PASSING | os.O_NOFOLLOW, dir_fd=parent)


def _make_root(root: Path) -> None:
    made = list(takewhile(lambda each: not each.exists(), (root, *root.parents)))
    if made:
        root.mkdir(parents=True, exist_ok=True)
    for each in made:
        with folder(each.parent, "") as above:
            sync(above)


def _refuse_link(parent: int, path: Path) -> None:
    with suppress(OSError):  # a file, or removed meanwhile
        leads_to = os.readlink(path.name, dir_fd=parent)
        raise InvalidKeyError(
            f"{path} is a symbolic link, to {leads_to}, and no folder of a blackboard may be one. "
            "Remove the link, and put the files themselves there."
        )
