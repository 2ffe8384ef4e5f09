"""A folder in memory, for processes that are killed hundreds of times: a kill is no power cut, so no disk is needed."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

MEMORY = Path("/dev/shm")
ENOUGH = 2**30
"""Free bytes; containers often have less."""


@contextmanager
def folder_in_memory() -> Iterator[Path]:
    """A folder that is gone afterwards; on the disk where memory is no file system, or a small one."""
    has_room = MEMORY.is_dir() and shutil.disk_usage(MEMORY).free > ENOUGH
    with TemporaryDirectory(dir=MEMORY if has_room else None) as folder:
        yield Path(folder)
