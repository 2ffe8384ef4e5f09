"""A process is killed before any of its accesses: the next attempt publishes, and nothing is published twice."""

from __future__ import annotations

import os
import signal
import tempfile
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import event

from feed_assets.blackboard.local import LocalBlackboard
from feed_assets.file_feed.claims import claim
from feed_assets.file_feed.errors import StartTakenError
from feed_assets.file_feed.feed import Feed
from feed_assets.file_feed.quarantine import publish_both
from feed_assets.file_feed.reading import is_valid, list_updates
from feed_assets.file_feed.record import Facts, FeedInput
from feed_assets.file_feed.staging import stage, staged_files
from feed_assets.file_feed.start_objects import START
from feed_assets.starts.attempt import LEASE, Attempt, State
from feed_assets.starts.attempts import Attempts, KnownRun, Wanted
from feed_assets.state.address import sqlite_url
from feed_assets.state.store import Store
from feed_assets_tests.starts.requesting import requested

NOW = datetime(2019, 11, 28, 16, tzinfo=UTC)
FLOW, SLOT, LOCATION = "clean_ads", "2019-11-27", "clean-ads/v1.0"
READ = (FeedInput("ads/v1.0", SLOT, "20191128.120000"),)


class Stepping(LocalBlackboard):
    """Calls `step` before each request."""

    step: Callable[[], None] = staticmethod(lambda: None)

    def __getattribute__(self, name: str) -> Any:
        found = super().__getattribute__(name)
        if name in {"page", "read", "create", "replace", "delete", "upload"}:
            super().__getattribute__("step")()
        return found


def installation(folder: Path, now: datetime, step: Callable[[], None]) -> tuple[Attempts, Stepping]:
    """The attempts and the blackboard of a process; `step` is called before each change, commit and request."""
    store = Store(sqlite_url(folder / "state.db"))

    def before(_: object, __: object, statement: str, *___: object) -> None:
        if not statement.startswith(("SELECT", "BEGIN")):  # as good as before the next change
            step()

    event.listen(store._engine, "before_cursor_execute", before)
    event.listen(store._engine, "commit", lambda _: step())
    board = Stepping(folder / "feeds")
    board.step = step
    return Attempts(store, "file:///feeds", lambda: now, lambda: now), board


def whole_start(folder: Path, now: datetime, step: Callable[[], None] = lambda: None) -> list[State]:
    """A tick of the gate and the run that it asks for, in one process; the states of the slot's attempts."""
    attempts, board = installation(folder, now, step)
    attempts.end_lost(attempts.known(lambda _: KnownRun.NONE))
    for asked in requested(attempts, Wanted(FLOW, SLOT, "inputs", most=10)):
        if isinstance(asked, Attempt):
            with attempts.start([asked.key], run=f"run {asked.number}", root=f"run {asked.number}") as running:
                feed = Feed(board, LOCATION)
                claimed = claim(feed, SLOT, now=now, owner=asked.key)
                board.create(f"{claimed.prefix}part-0", asked.key.encode())
                made = stage(claimed, staged_files(claimed, 1), Facts(inputs=READ, details={START: ""}), now=now)
                with suppress(StartTakenError):
                    publish_both(made, now=now)
                running.end(FLOW, SLOT, State.PUBLISHED)
    return [each.state for each in attempts.of(FLOW, SLOT)]


def killed_before(number: int, folder: Path) -> bool:
    """Do it in a process that kills itself before its access of this number; False if it has ended before that."""
    child = os.fork()
    if child == 0:
        made = 0

        def step() -> None:
            nonlocal made
            made += 1
            if made == number:
                os.kill(os.getpid(), signal.SIGKILL)

        try:
            whole_start(folder, NOW, step)
        finally:
            os._exit(0)
    _, status = os.waitpid(child, 0)
    return os.WIFSIGNALED(status)


@pytest.fixture
def folders() -> Iterator[Path]:
    """A folder in memory, if there is one: nothing here needs to survive a power cut."""
    memory = Path("/dev/shm")
    with tempfile.TemporaryDirectory(dir=memory if memory.is_dir() else None) as made:
        yield Path(made)


def test_a_process_that_is_killed_between_any_two_accesses_leaves_one_update_to_publish(folders: Path) -> None:
    number, ended_by_another = 0, 0
    while True:
        number += 1
        folder = folders / str(number)
        (folder / "feeds").mkdir(parents=True)
        with Store(sqlite_url(folder / "state.db")).writing():
            pass  # the tables: the accesses that are counted are those of a start
        killed = killed_before(number, folder)
        whole_start(folder, NOW + LEASE)  # misses it
        states = whole_start(folder, NOW + LEASE + timedelta(hours=1))  # after the pause

        feed = Feed(LocalBlackboard(folder / "feeds"), LOCATION)
        valid = [each for each in list_updates(feed, SLOT) if is_valid(feed, each)]
        assert (len(valid), states[-1]) == (1, State.PUBLISHED), f"killed before access {number}: {states}"
        ended_by_another += len(states) == 2 and states[0] is State.UNKNOWN
        if not killed:
            break
    assert number > 30
    assert ended_by_another > 10


@pytest.mark.parametrize("moment", [LEASE - timedelta(seconds=1), LEASE])
def test_a_killed_run_is_missed_when_its_lease_ends(tmp_path: Path, moment: timedelta) -> None:
    attempts, _ = installation(tmp_path, NOW, lambda: None)
    (asked,) = requested(attempts, Wanted(FLOW, SLOT, "inputs"))
    assert isinstance(asked, Attempt)
    child = os.fork()
    if child == 0:
        with attempts.start([asked.key], run="run", root="run"):
            os.kill(os.getpid(), signal.SIGKILL)
    os.waitpid(child, 0)

    later = replace(attempts, clock=lambda: NOW + moment)
    ended = later.end_lost(later.known(lambda _: KnownRun.NONE))
    assert [each.state for each in ended] == ([State.UNKNOWN] if moment == LEASE else [])
