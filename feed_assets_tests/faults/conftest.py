"""A disk of a few megabytes that a test fills and empties."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

MIB = 2**20


class SmallDisk:
    """A file system in memory with a size of its own. `ballast` is a file that takes space."""

    def __init__(self, path: Path) -> None:
        self.path, self.ballast = path, path / "ballast"

    @property
    def free(self) -> int:
        """Bytes that a file can still take."""
        found = os.statvfs(self.path)
        return found.f_bavail * found.f_frsize

    def fill(self, left: int = 0) -> None:
        """Take all space but these bytes, rounded up to pages, or what is left when others write meanwhile."""
        with self.ballast.open("ab", buffering=0) as file, suppress(OSError):
            file.write(bytes(max(0, self.free - left)))

    def make_room(self) -> None:
        """Free what `fill` took."""
        self.ballast.unlink()


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[SmallDisk]:
    """A disk of 16 MiB. Only root may mount it; `unshare -Urm` makes anybody root of namespaces of his own."""
    path = tmp_path / "disk"
    path.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=16m", "tmpfs", str(path)]
    if os.geteuid() != 0 or subprocess.run(command, capture_output=True, check=False).returncode:
        pytest.skip("This user cannot mount a small disk: run the tests of faults/ under `unshare -Urm`.")
    yield SmallDisk(path)
    subprocess.run(["umount", "--lazy", str(path)], check=True)
