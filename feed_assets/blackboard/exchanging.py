"""Replacing a file by another file while programs without locks read and write in the same directory.

Here: the lock under which blackboards take turns in a directory, and the exchange of two files in one step. Not here:
what is in the files (see `local`).
"""

from __future__ import annotations

import ctypes
import errno
import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any, Final

from feed_assets.blackboard.port import UnavailableError

LONGEST_WAIT_SECONDS = 10.0
"""Seconds to wait for a lock. A lock is held for moments, so a longer wait means that its holder hangs."""

_PAUSE_SECONDS: Final = 0.01
_RENAME_EXCHANGE: Final = 2
_CANNOT_EXCHANGE: Final = {errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP}


@contextmanager
def locked(directory: int, path: Path) -> Iterator[None]:
    """Lock the directory with this descriptor: one process at a time replaces or deletes in it.

    Use names relative to the descriptor. If the directory is removed and made again meanwhile, another
    process may lock the new directory, but the old one holds nothing to replace.
    Raises UnavailableError if another process keeps the lock; the message names the `path`.
    """
    descriptor = os.open(".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=directory)
    try:
        _lock(descriptor, path)
        yield
    finally:
        os.close(descriptor)


def exchange(source: int, file: str, directory: int, name: str) -> None:
    """Exchange a file of the directory `source` with the file of this name in the other directory, in one step.

    Raises FileNotFoundError if the directory has no file of this name. On a file system that cannot exchange, it
    renames the file instead. If another program removes the name between check and rename, the name exists again.
    """
    if (renameat2 := _renameat2()) is not None:
        if renameat2(source, os.fsencode(file), directory, os.fsencode(name), _RENAME_EXCHANGE) == 0:
            return
        number = ctypes.get_errno()
        if number not in _CANNOT_EXCHANGE:
            raise OSError(number, os.strerror(number), name)
    os.stat(name, dir_fd=directory)
    os.rename(file, name, src_dir_fd=source, dst_dir_fd=directory)


def _lock(descriptor: int, directory: Path) -> None:
    deadline = time.monotonic() + LONGEST_WAIT_SECONDS
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() > deadline:
                raise UnavailableError(
                    f"Another process has held the lock of {directory} for {LONGEST_WAIT_SECONDS:.0f} seconds, and "
                    f"seems to be stopped. Find it with `fuser {directory}`, let it go on or end it, then try again."
                ) from None
            time.sleep(_PAUSE_SECONDS)
        else:
            return


@cache
def _renameat2() -> Any:
    """The C library's `renameat2`, which Python does not offer; None if the library lacks it."""
    try:
        function = ctypes.CDLL(None, use_errno=True).renameat2
    except (AttributeError, OSError):
        return None
    function.argtypes = [ctypes.c_int, ctypes.c_char_p, ctypes.c_int, ctypes.c_char_p, ctypes.c_uint]
    return function
