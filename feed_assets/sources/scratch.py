"""Directories for partners' files on this machine's disk while they land.

Here: making them, removing those that killed processes left, and how many files land together. Not here: what is in
them.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

TOGETHER = 16
"""Up to this many files share a Spark job. The plan of a job, and what a crash costs, grow with them."""

SCRATCH_BYTES = 1024**3
"""Fewer files share a job if their copies on this disk reach this size."""

_YOUNG = 60.0
"""Seconds in which a scratch directory may not have its lock yet."""


@contextmanager
def scratch_directory(prefix: str) -> Iterator[Path]:
    """A temporary directory whose name starts with `prefix`.

    Removes those with this prefix that killed processes left: their locks are free.
    """
    for old in Path(tempfile.gettempdir()).glob(f"{prefix}*"):
        with suppress(OSError):  # another user's, or removed meanwhile
            if time.time() - old.stat().st_mtime > _YOUNG:
                with _locked(old):
                    shutil.rmtree(old, ignore_errors=True)
    with tempfile.TemporaryDirectory(prefix=prefix) as name, _locked(Path(name)):
        yield Path(name)


@contextmanager
def _locked(directory: Path) -> Iterator[None]:
    """Hold the lock of a directory. Raises OSError if another process holds it."""
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    finally:
        os.close(descriptor)
