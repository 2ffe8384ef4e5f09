"""Writers of one directory that are killed, refused by the disk, or many at once."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from feed_assets.blackboard.local import LocalBlackboard
from feed_assets_tests.blackboard.shown import keys, on_disk

DAY = 24 * 60 * 60


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "root"


@pytest.fixture
def blackboard(root: Path) -> LocalBlackboard:
    return LocalBlackboard(root)


def python(program: str, *arguments: str | Path) -> subprocess.Popen[str]:
    """Another process that runs the program, with its output to be read."""
    command = [sys.executable, "-c", program, *map(str, arguments)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


UPLOADS_A_PIPE = """
import sys
from pathlib import Path
from feed_assets.blackboard.local import LocalBlackboard
LocalBlackboard(Path(sys.argv[1])).upload("a/b", Path(sys.argv[2]))
"""

CREATES_WITHOUT_END = """
import itertools, sys
from pathlib import Path
from feed_assets.blackboard.local import LocalBlackboard
blackboard = LocalBlackboard(Path(sys.argv[1]))
for number in itertools.count():
    blackboard.create(f"a/{number}", b"%09d" % number * 500_000)
    print(number, flush=True)
"""


def kill_in_the_middle_of_an_upload(root: Path, pipe: Path) -> None:
    os.mkfifo(pipe)
    writer = python(UPLOADS_A_PIPE, root, pipe)
    with pipe.open("wb", buffering=0) as source:
        # More than a pipe holds: when this returns, the writer has taken most of it and waits for more.
        source.write(b"x" * 1_000_000)
        writer.kill()
        writer.communicate()


def test_a_writer_killed_in_the_middle_of_an_upload_leaves_no_object(
    root: Path, blackboard: LocalBlackboard, tmp_path: Path
):
    kill_in_the_middle_of_an_upload(root, tmp_path / "pipe")
    assert len(list((root / ".blackboard").iterdir())) == 1, "it was killed before or after, not in the middle"
    assert on_disk(root) == []
    assert keys(blackboard) == []
    blackboard.create("a/b", b"after the crash")
    assert blackboard.read("a/b").data == b"after the crash"


@pytest.mark.parametrize("kill_after", range(4))
def test_objects_of_a_writer_killed_at_any_time_are_whole(root: Path, blackboard: LocalBlackboard, kill_after: int):
    writer = python(CREATES_WITHOUT_END, root)
    assert writer.stdout is not None
    for _ in range(kill_after + 1):
        acknowledged = int(writer.stdout.readline())
    writer.kill()
    writer.communicate()
    found = keys(blackboard, "a/")
    assert {f"a/{number}" for number in range(acknowledged + 1)} <= set(found)
    for key in found:
        assert blackboard.read(key).data == b"%09d" % int(key.removeprefix("a/")) * 500_000


def test_what_a_killed_writer_left_is_removed_once_it_is_a_day_old(root: Path, tmp_path: Path):
    kill_in_the_middle_of_an_upload(root, tmp_path / "pipe")
    (left,) = (root / ".blackboard").iterdir()
    LocalBlackboard(root).create("a", b"")
    assert left.exists(), "its writer might still have been at work"
    os.utime(left, (time.time() - 0.9 * DAY,) * 2)
    LocalBlackboard(root).create("b", b"")
    assert left.exists()
    os.utime(left, (time.time() - 1.1 * DAY,) * 2)
    LocalBlackboard(root).create("c", b"")
    assert list((root / ".blackboard").iterdir()) == []


def test_a_write_that_the_disk_refuses_leaves_nothing(root: Path, blackboard: LocalBlackboard):
    refused = """
import resource, signal, sys
from pathlib import Path
from feed_assets.blackboard.local import LocalBlackboard
from feed_assets.blackboard.port import UnavailableError
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))
try:
    LocalBlackboard(Path(sys.argv[1])).create("a/b", b"x" * 1_000_000)
except UnavailableError as error:
    print(error)
"""
    message, _ = python(refused, root).communicate()
    assert "a/b: File too large" in message
    assert on_disk(root) == []
    assert list((root / ".blackboard").iterdir()) == []


COMES_AND_GOES = """
import sys
from pathlib import Path
from feed_assets.blackboard.local import LocalBlackboard
from feed_assets.blackboard.port import AlreadyExistsError, ConflictError
root, name, rounds = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])
blackboard = LocalBlackboard(root)
won = 0
for number in range(rounds):
    blackboard.create(f"p/q/{name}", b"x")
    assert blackboard.read(f"p/q/{name}").data == b"x"
    blackboard.delete(f"p/q/{name}")
    try:
        blackboard.create(f"claims/{number}", name.encode())
        won += 1
    except AlreadyExistsError:
        pass
    while True:
        content = blackboard.read("counter")
        try:
            blackboard.replace("counter", b"%06d" % (int(content.data) + 1), tag=content.entry.tag)
            break
        except ConflictError:
            pass
print(won)
"""


def test_processes_lose_nothing_to_each_other(root: Path, blackboard: LocalBlackboard):
    """Directories that empty while others create in them, claims that one may win, a counter all replace."""
    processes, rounds = 3, 150
    blackboard.create("counter", b"000000")
    running = [python(COMES_AND_GOES, root, str(number), str(rounds)) for number in range(processes)]
    won = [int(process.communicate()[0]) for process in running]
    assert sum(won) == rounds
    assert int(blackboard.read("counter").data) == processes * rounds
    assert keys(blackboard, "p/") == []
    assert len(keys(blackboard, "claims/")) == rounds
