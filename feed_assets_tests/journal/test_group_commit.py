"""Many callers share a write, and each gets its own answer, in threads and in coroutines."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
from collections.abc import Sequence
from concurrent.futures import Future

import pytest

from feed_assets.journal.group_commit import GroupCommit


class Doubling:
    """Answers each number with its double, and refuses odd ones; waits for `go` at each group."""

    def __init__(self) -> None:
        self.go = threading.Semaphore(0)
        self.groups: list[list[int]] = []
        self.rests: list[bool] = []

    def settle(self, items: Sequence[int]) -> Sequence[int | Exception]:
        self.go.acquire()
        self.groups.append(list(items))
        return [ValueError(each) if each % 2 else 2 * each for each in items]

    def rest(self, *, closing: bool) -> float | None:
        self.rests.append(closing)
        return None


def committing(work: Doubling, most: int = 100) -> GroupCommit[int, int]:
    commit: GroupCommit[int, int] = GroupCommit(work, size=lambda _: 1, most=most)
    commit.start()
    return commit


def test_what_comes_while_a_group_is_written_is_the_next_group() -> None:
    work = Doubling()
    commit = committing(work, most=3)
    first = commit.submit(0)
    while not work.rests and commit._queue.qsize():  # until the thread has taken it
        pass
    others = [commit.submit(each) for each in (2, 4, 6, 8)]
    for _ in range(3):
        work.go.release()

    assert [each.result(10) for each in (first, *others)] == [0, 4, 8, 12, 16]
    assert work.groups == [[0], [2, 4, 6], [8]]
    commit.close()
    assert work.rests[-1:] == [True]


def test_each_caller_gets_its_own_error() -> None:
    work = Doubling()
    work.go.release(5)
    commit = committing(work)

    assert commit.submit(2).result(10) == 4
    with pytest.raises(ValueError, match="3"):
        commit.submit(3).result(10)
    commit.close()


def test_a_caller_who_goes_away_takes_nothing_back() -> None:
    work = Doubling()
    commit = committing(work)

    async def ask() -> list[int]:
        cancelled = asyncio.create_task(commit.settled(2))
        kept = [asyncio.create_task(commit.settled(each)) for each in (4, 6)]
        await asyncio.sleep(0)
        cancelled.cancel()
        work.go.release(3)
        return list(await asyncio.gather(*kept))

    assert asyncio.run(ask()) == [8, 12]
    commit.close()
    assert sorted(number for group in work.groups for number in group) == [2, 4, 6]


def test_what_was_submitted_before_the_end_is_settled() -> None:
    work = Doubling()
    commit = committing(work)
    futures: list[Future[int]] = [commit.submit(each) for each in range(0, 40, 2)]
    work.go.release(40)
    commit.close()

    assert [each.result(0) for each in futures] == list(range(0, 80, 4))


def test_a_thread_that_fails_ends_the_process_and_leaves_nobody_waiting() -> None:
    code = """
from feed_assets.journal.group_commit import GroupCommit
class Broken:
    def settle(self, items): raise MemoryError
    def rest(self, *, closing): return None
commit = GroupCommit(Broken(), size=len, most=10)
commit.start()
commit.submit(b"x").result()
"""
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False)

    assert ended.returncode == 70
    assert "The journal cannot be written any more" in ended.stderr
