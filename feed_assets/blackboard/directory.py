"""The directories of a local disk, listed in the order of a store, and remembered if that is safe.

Here: the names in one directory, sorted, and the walk over a tree that starts in its middle. Not
here: what an object is, its size or content, and anything that writes (see `local`).

Names and keys are bytes in this module. Keys are ordered by their bytes, names on a disk need not be
Unicode, and a name that is skipped is never decoded.
"""

from __future__ import annotations

import os
import threading
import time
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from typing import Final

PRIVATE: Final = b".blackboard"
"""Directories of this name hold unfinished files. No listing shows them."""

_LONGEST_TICK_NS: Final = 2_100_000_000
_WORTH_KEEPING: Final = 100
_MOST_NAMES_KEPT: Final = 1_000_000

_Stamp = tuple[int, int, int, int]


class Directories:
    """The directories of one tree, each read when it is needed. Safe to share between threads.

    A large directory that did not change is read once: its sorted names are kept under its
    modification time. That time alone is not enough: a disk's clock ticks every few milliseconds (at
    worst every two seconds). A name that is added in the tick of the listing does not change the time,
    and would be missed for ever. So names are kept only if the modification time is older than the
    longest tick when reading begins: then any later change gets another time. (Git calls an index
    entry racy for the same reason.) The time of the last change of status is compared, too, because
    programs that copy trees set modification times back, and the inode, because a directory can be
    removed and made again.
    """

    def __init__(self) -> None:
        self._kept: dict[bytes, tuple[_Stamp, Sequence[bytes]]] = {}
        self._names_kept = 0
        self._lock = threading.Lock()

    def names(self, path: bytes) -> Sequence[bytes]:
        """The names in the directory, those of directories with a `/` behind them, sorted by their bytes.

        A missing directory has none. A symbolic link counts as a file, also if it leads to a directory. So
        no object is listed under two keys, and every walk ends.
        """
        try:
            status = os.stat(path)  # noqa: PTH116 - pathlib has no bytes, and costs more than the call
            stamp = (status.st_dev, status.st_ino, status.st_mtime_ns, status.st_ctime_ns)
            kept = self._kept.get(path)
            if kept is not None and kept[0] == stamp:
                return kept[1]
            started = time.time_ns()
            with os.scandir(path) as found:
                names = sorted(
                    entry.name + b"/" if entry.is_dir(follow_symlinks=False) else entry.name
                    for entry in found
                    if entry.name != PRIVATE
                )
        except (FileNotFoundError, NotADirectoryError):
            return ()
        if len(names) >= _WORTH_KEEPING and status.st_mtime_ns + _LONGEST_TICK_NS < started:
            self._keep(path, stamp, names)
        return names

    def keys(self, base: bytes, folder: bytes, after: bytes) -> Iterator[bytes]:
        """The files below `base + folder`, as paths from `base`, in the order of whole paths.

        Only those whose path from the folder is greater than `after`. A directory is read when the walk
        reaches it. A directory without a greater path is never read. `folder` is empty or ends in `/`.
        """
        first, slash, rest = after.partition(b"/")
        names = self.names(base + folder)
        # Only one directory can hold keys on both sides of `after`: the one that `after` leads into.
        start = bisect_left(names, first + slash) if slash else bisect_right(names, first)
        for name in names[start:]:
            if name.endswith(b"/"):
                yield from self.keys(base, folder + name, rest if name == first + slash else b"")
            else:
                yield folder + name

    def children(self, base: bytes, folder: bytes, after: bytes) -> Iterator[bytes]:
        """The entries directly in `base + folder` that are greater than `after`, in the order of `keys`.

        Files, and directories that hold a file at any depth: a store of keys has no empty directory.
        """
        names = self.names(base + folder)
        for name in names[bisect_right(names, after) :]:
            if not name.endswith(b"/") or _holds_a_file(base + folder + name):
                yield folder + name

    def _keep(self, path: bytes, stamp: _Stamp, names: Sequence[bytes]) -> None:
        with self._lock:
            if self._names_kept + len(names) > _MOST_NAMES_KEPT:
                self._kept.clear()
                self._names_kept = 0
            replaced = self._kept.get(path)
            self._names_kept += len(names) - (len(replaced[1]) if replaced else 0)
            self._kept[path] = (stamp, names)


def _holds_a_file(path: bytes) -> bool:
    try:
        with os.scandir(path) as found:
            return any(
                not entry.is_dir(follow_symlinks=False) or (entry.name != PRIVATE and _holds_a_file(entry.path))
                for entry in found
            )
    except (FileNotFoundError, NotADirectoryError):
        return False
