"""A base that the users of a group share: what Spark wrote for one of them, another can change; or nobody can see it.

Root acts as two other users. For others, those tests are skipped; the modes of Spark's files are looked at by anybody.
"""

from __future__ import annotations

import os
import pickle
import shutil
import stat
import subprocess
import sys
import tempfile
import traceback
from collections.abc import Callable, Iterator
from datetime import timedelta
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from feed_assets.blackboard.local import LocalBlackboard
from feed_assets.blackboard.port import InvalidKeyError, UnavailableError
from feed_assets.file_feed import (
    Feed,
    Policy,
    carry_out,
    invalidate,
    latest,
    plan,
    publish_files,
    read_record,
    records,
    verify,
)
from feed_assets_tests.faults import spark_writer
from feed_assets_tests.faults.spark_writer import DAY, LOCATION, NOW
from feed_assets_tests.waiting import HANGS

pytestmark = pytest.mark.slow

ANN, BEN, GROUP = 54_321, 54_322, 54_320


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder that every user can reach: pytest's own are for one user."""
    folder = Path(tempfile.mkdtemp())
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(folder)


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Callable[[int, int], Path]:
    """Gives the base that a program with this umask and so many executors has written; it is written once."""

    @cache
    def write(mask: int, executors: int) -> Path:
        base = tmp_path_factory.mktemp("base")
        base.chmod(0o2775)
        command = [sys.executable, "-m", spark_writer.__name__, str(base), str(executors)]
        done = subprocess.run(command, umask=mask, capture_output=True, text=True, check=False, timeout=HANGS)
        assert done.returncode == 0, done.stderr
        return base

    return write


def modes(base: Path) -> dict[str, str]:
    """The mode of each file and folder, by its path, with the setgid bit of folders."""
    return {str(each.relative_to(base)): f"{stat.S_IMODE(each.stat().st_mode):o}" for each in base.rglob("*")}


@pytest.mark.parametrize(("mask", "executors"), [(0o002, 0), (0o077, 0), (0o002, 1)], ids=["002", "077", "executors"])
def test_what_spark_writes_has_the_modes_that_the_umask_gives_to_the_files_of_its_program(written, mask, executors):
    base = written(mask, executors)

    found = modes(base)
    assert len([path for path in found if path.endswith((".parquet", ".json"))]) > 4
    directory, file = f"{0o2777 & ~mask:o}", f"{0o666 & ~mask:o}"
    wrong = {path: mode for path, mode in found.items() if mode != (directory if (base / path).is_dir() else file)}
    assert wrong == {}
    assert verify(Feed(LocalBlackboard(base), LOCATION), now=NOW) == []


def as_user(user: int, act: Callable[[], Any], mask: int = 0o002) -> Any:
    """What a function returns or raises if a user of the group calls it, in a process of its own."""
    reading, writing = os.pipe()
    if (child := os.fork()) == 0:
        try:
            os.setgroups([])
            os.setgid(GROUP)
            os.setuid(user)
            os.umask(mask)
            try:
                answer = act()
            except Exception as error:  # noqa: BLE001 - the test's process raises it
                answer = error
            os.write(writing, pickle.dumps(answer))
        except BaseException:  # noqa: BLE001 - as above
            traceback.print_exc()
        finally:
            os._exit(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as answered:
        answer = pickle.load(answered)
    os.waitpid(child, 0)
    if isinstance(answer, Exception):
        raise answer
    return answer


@pytest.fixture
def shared(folder: Path) -> Path:
    """The base of a group, as the guide says: `chmod g+ws`."""
    if os.geteuid() != 0:
        pytest.skip("Only root can act as other users: run the tests of faults/ as root.")
    base = folder / "base"
    base.mkdir()
    os.chown(base, ANN, GROUP)
    base.chmod(0o2775)
    return base


@pytest.fixture
def part(folder: Path) -> Path:
    part = folder / "part-0.json"
    part.write_text('{"id": 1}\n')
    return part


def feed_in(base: Path) -> Feed:
    return Feed(LocalBlackboard(base), LOCATION)


def test_one_user_publishes_invalidates_and_removes_where_spark_wrote_for_another(shared, part, written):
    shutil.copytree(written(0o002, 0), shared, dirs_exist_ok=True)
    for path in (shared, *shared.rglob("*")):
        os.chown(path, ANN, GROUP)
    later = NOW + timedelta(hours=1)
    (first,) = (record.update for record in records(feed_in(shared), DAY))

    def publishes() -> str:
        return publish_files(feed_in(shared), DAY, [part], now=later, owner="ben").name

    second = as_user(BEN, publishes)
    as_user(BEN, lambda: invalidate(feed_in(shared), DAY, second, reason="wrong", author="ben", now=later))
    assert latest(feed_in(shared), DAY, now=later).name == first
    as_user(BEN, lambda: invalidate(feed_in(shared), DAY, first, reason="wrong", author="ben", now=later))
    assert latest(feed_in(shared), DAY, now=later) is None
    as_user(ANN, publishes)
    much_later = later + timedelta(days=100)

    def removes() -> list[bool]:
        feed, policy = feed_in(shared), Policy(1, timedelta(days=1), timedelta(days=1))
        return [each.removed for each in carry_out(feed, plan(feed, policy, now=much_later), now=much_later)]

    assert as_user(BEN, removes) == [True, True]
    assert verify(feed_in(shared), now=much_later) == []


@pytest.mark.parametrize("unwritable", ["the update", "the records"])
def test_what_a_user_may_not_change_stays_as_its_record_says(shared, part, unwritable):
    name = as_user(ANN, lambda: publish_files(feed_in(shared), DAY, [part], now=NOW, owner="ann").name)
    root = shared / LOCATION
    (root / DAY / name if unwritable == "the update" else root / ".feed/records" / DAY).chmod(0o755)

    with pytest.raises(UnavailableError, match=r"Permission denied .*Give the user who runs this access"):
        as_user(BEN, lambda: invalidate(feed_in(shared), DAY, name, reason="wrong", author="ben", now=NOW))

    record, update = read_record(feed_in(shared), DAY, name), latest(feed_in(shared), DAY, now=NOW)
    assert record is not None
    assert record.state == "published"
    if unwritable == "the update":
        assert update is not None
        assert verify(feed_in(shared), now=NOW) == []
    else:
        (finding,) = verify(feed_in(shared), now=NOW)
        assert (update, finding.kind) == (None, "invalidated")
        as_user(ANN, lambda: invalidate(feed_in(shared), DAY, name, reason="wrong", author="ann", now=NOW))
        assert verify(feed_in(shared), now=NOW) == []


def test_a_link_that_one_user_puts_into_the_base_costs_another_none_of_his_files(shared, part, folder):
    own = folder / "ann"
    own.mkdir(mode=0o700)
    (own / ("0" * 32)).write_bytes(b"her own")
    os.utime(own / ("0" * 32), (0, 0))
    os.chown(own, ANN, GROUP)
    os.chown(own / ("0" * 32), ANN, GROUP)

    def publishes() -> str:
        return publish_files(feed_in(shared), DAY, [part], now=NOW, owner="somebody").name

    as_user(ANN, publishes)

    def attacks() -> None:
        (shared / ".blackboard").rename(shared / "aside")
        (shared / ".blackboard").symlink_to(own)

    as_user(BEN, attacks)
    with pytest.raises(InvalidKeyError, match=rf"\.blackboard is a symbolic link, to {own}.*Remove the link"):
        as_user(ANN, publishes)
    assert (own / ("0" * 32)).read_bytes() == b"her own"
    (shared / ".blackboard").unlink()
    as_user(ANN, publishes)
