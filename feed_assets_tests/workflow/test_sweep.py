"""The sweep deletes files that nobody needs, and never a file that a task names, at whichever moment it runs."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from feed_assets.blackboard.local import LocalBlackboard
from feed_assets.blackboard.memory import MemoryBlackboard
from feed_assets.workflow.places import Place, create_workflow
from feed_assets.workflow.reigns import take_over
from feed_assets.workflow.scratch import scratch_of
from feed_assets.workflow.snapshots import snapshot_once, truncate
from feed_assets.workflow.state import State
from feed_assets.workflow.sweep import sweep
from feed_assets_tests.harness import Interposed
from feed_assets_tests.workflow.machines import Master, new

HOUR = timedelta(hours=1)
TYPES = ("split", "total")


class Storage:
    """A master whose journal is on storage, and workers that write files there. The clock is the test's."""

    def __init__(self, seed: int = 1) -> None:
        self.now = datetime(2024, 5, 20, tzinfo=UTC)
        self.board = MemoryBlackboard(clock=lambda: self.now)
        self.place = create_workflow(self.board, "revenue")
        self.reign, _ = take_over(self.place, State.load, address="", failover_after=0, start_heart=lambda _: None)
        self.master = Master(seed=seed)
        self.stored = 0
        self.dice = random.Random(seed)
        self.worker = self.master.client("worker")
        self.store()

    def store(self) -> None:
        """Let the journal on storage have what the master has decided."""
        if more := self.master.journal[self.stored :]:
            self.reign.append(self.stored + 1, more)
            self.stored = len(self.master.journal)

    def write(self, task_id: int) -> str:
        task = self.master.state.tasks[task_id]
        attempt = f"{task.unit}-{task.attempt}-{self.dice.randrange(16**12):x}"
        key = f"{scratch_of('revenue')}{task.type}/{attempt}/{self.dice.randrange(2)}/part"
        self.board.create(key, b"rows")
        return key

    def act(self) -> None:
        """Do something of what workers and people do."""
        chance = self.dice.random()
        leased = [each.id for each in self.master.state.tasks.values() if each.holder]
        if chance < 0.3:
            self.worker.insert(new("split", self.dice.random()))
        elif chance < 0.5:
            self.worker.lease(*TYPES, seconds=3600.0)
        elif chance < 0.7 and leased:
            self.write(self.dice.choice(leased))
        elif chance < 0.9 and leased:
            chosen = self.dice.choice(leased)
            key = self.write(chosen)
            named = key if self.dice.random() < 0.5 else key.removesuffix("part")
            files = (named, *self.master.state.tasks[chosen].files)
            made = (new("total", self.dice.random(), files=files),) if self.dice.random() < 0.7 else ()
            self.worker.commit(chosen, produce=made)
        elif leased:
            self.worker.fail(self.dice.choice(leased))
        self.now += self.dice.choice([timedelta(0), HOUR / 2, 5 * HOUR])
        self.store()

    def files(self) -> set[str]:
        return {each for each in self.board.objects() if each.startswith(scratch_of("revenue"))}

    def needed(self) -> set[str]:
        """The files that tasks name, or whose unit is not done."""
        tasks = self.master.state.tasks.values()
        names = tuple(key for each in tasks for key in each.files)
        units = {each.unit for each in tasks}
        return {
            key
            for key in self.files()
            if key.startswith(names or ("-",)) or int(key.split("/")[4].split("-")[0]) in units
        }

    def interrupted(self, before: Callable[[str, str], None]) -> Place:
        """The same place, with something done before each request."""
        return Place(Interposed(self.board, before), self.place.name, self.place.token)  # type: ignore[arg-type]


@pytest.mark.parametrize("seed", range(40))
def test_no_file_that_a_task_needs_goes_and_the_others_do_when_they_are_old(seed: int) -> None:
    storage = Storage(seed)

    one_at_a_time = threading.Lock()  # the journal is read in threads

    def meanwhile(_: str, __: str) -> None:
        with one_at_a_time:
            if storage.dice.random() < 0.5:
                storage.act()

    for _ in range(12):
        for _ in range(8):
            storage.act()
        if storage.dice.random() < 0.3 and (made := snapshot_once(storage.place, State.load)):
            truncate(storage.place, made, epoch=storage.reign.epoch)
        begun, before = storage.now, storage.files()
        gone = {each.key: each.modified for each in sweep(storage.interrupted(meanwhile), now=storage.now)}
        missing = before - storage.files()
        assert missing == gone.keys() & before
        assert all(modified < begun - 24 * HOUR for modified in gone.values())
        names = tuple(key for each in storage.master.state.tasks.values() for key in each.files)
        assert not [key for key in names if not any(there.startswith(key) for there in storage.files())]

    storage.now += 25 * HOUR
    sweep(storage.place, now=storage.now)
    assert storage.files() == storage.needed()


def test_a_file_that_is_committed_while_the_sweep_begins_stays() -> None:
    storage = Storage()
    storage.worker.insert(new())
    (task,) = storage.worker.lease(*TYPES)
    storage.store()
    kept: list[str] = []

    def committed_before_the_listing(_: str, prefix: str) -> None:
        if prefix.endswith("scratch/") and not kept:
            kept.append(storage.write(task))
            storage.now += HOUR
            storage.worker.commit(task, produce=(new("total", files=(kept[0],)),))
            storage.store()

    place = storage.interrupted(committed_before_the_listing)
    assert sweep(place, now=storage.now + HOUR, orphan_after=timedelta(0)) == []
    assert storage.files() == set(kept)


def test_young_files_and_files_of_others_stay_and_a_dry_run_deletes_nothing() -> None:
    storage = Storage()
    storage.worker.insert(new())
    (task,) = storage.worker.lease(*TYPES)
    storage.store()
    old = storage.write(task)
    foreign = f"{scratch_of('revenue')}notes.txt"
    storage.board.create(foreign, b"somebody's")
    storage.now += 25 * HOUR
    young = storage.write(task)
    assert sweep(storage.place, now=storage.now) == []  # its unit is not done

    storage.worker.commit(task)
    storage.store()
    assert [each.key for each in sweep(storage.place, now=storage.now, dry_run=True)] == [old]
    assert storage.files() == {old, foreign, young}
    sweep(storage.place, now=storage.now)
    assert storage.files() == {foreign, young}


def test_a_disk_is_swept_as_well(tmp_path: Path) -> None:
    board = LocalBlackboard(tmp_path)
    place = create_workflow(board, "revenue")
    take_over(place, State.load, address="", failover_after=0, start_heart=lambda _: None)
    key = f"{scratch_of('revenue')}split/7-0-abc/part"
    board.create(key, b"rows")

    assert sweep(place, now=datetime.now(UTC)) == []
    assert [each.key for each in sweep(place, now=datetime.now(UTC) + 25 * HOUR)] == [key]
    assert not (tmp_path / key).exists()
