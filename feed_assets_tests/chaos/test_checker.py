"""The checker: it finds what nobody may see and what was lost, and accuses no correct writer.

The acts are those of a run, in one process and in memory. Here, other programs change the store under the workers.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from feed_assets.blackboard.listing import list_all
from feed_assets.blackboard.memory import MemoryBlackboard
from feed_assets.blackboard.port import Content, NotFoundError
from feed_assets_tests.chaos import acts
from feed_assets_tests.chaos.acts import LOCATION, PARTITIONS, Act, Worker
from feed_assets_tests.chaos.checker import Final, check
from feed_assets_tests.chaos.history import Event, History, read
from feed_assets_tests.chaos.killing import KillingBlackboard


class Chosen(random.Random):
    """Chooses this number of files, and the first of everything else."""

    files = 0

    def choice(self, seq: Any) -> Any:
        return self.files if self.files in seq else seq[0]


class Place:
    """A feed in memory, and workers that act on its first partition."""

    def __init__(self, folder: Path) -> None:
        self.board = MemoryBlackboard()
        self.folder = folder
        self._numbers = count()

    def worker(self, files: int = 0) -> Worker:
        name = f"worker-{next(self._numbers)}"
        history = History(self.folder, name)
        chosen = Chosen(0)
        chosen.files = files
        return Worker(
            KillingBlackboard(self.board, history, None, one_by_one=False), history, chosen, self.folder, name
        )

    def act(self, *of: Act, files: int = 0) -> None:
        """Acts, each of a new worker."""
        for act in of:
            act(self.worker(files))

    @property
    def update(self) -> str:
        """The prefix of the only update."""
        (claim,) = (key for key in self.board.objects() if key.startswith(f"{LOCATION}/.feed/claims/"))
        return f"{claim.replace('.feed/claims/', '')}/"

    def violations(self, events: list[Event] | None = None, **end: Any) -> list[str]:
        """Every violation, at the end of a run at which storage is as it is now, with these exceptions."""
        landings = {each.digest: each.partitions for each in map(acts.landing_of, range(200))}
        objects = {key: data for key, data in self.board.objects().items() if "/.feed/" not in key}
        final = Final(LOCATION, PARTITIONS, 2, objects, (), {}, acts.landed_hours(self.board), landings)
        kept = [key for partition in PARTITIONS for key in _manifests(final, partition)[-final.keep :]]
        found = check(read(self.folder) if events is None else events, replace(final, **{"left": kept, **end}))
        return [f"{each.guarantee}: {each.how}" for each in found]


def _manifests(final: Final, partition: str) -> list[str]:
    return [f"{LOCATION}/{partition}/{name}/_SUCCESS" for name in sorted(final.valid(partition))]


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


def watch(worker: Worker) -> None:
    acts.tick(worker, worker.folder / "watched.json", timedelta(0))


READS = (acts.read_latest, acts.read_plainly, acts.read_history, acts.read_pinned, watch)
invalidate_plainly = partial(acts.invalidate_latest, plainly=True)
invalidate = partial(acts.invalidate_latest, plainly=False)


def stage(worker: Worker) -> None:
    acts.stage_update(worker, *acts.new_attempt(worker, "publish"))


def die_after_the_manifest(worker: Worker) -> None:
    partition, parts = acts.new_attempt(worker, "publish")
    staged = acts.stage_update(worker, partition, parts)
    worker.board.create(f"{staged.claim.prefix}_SUCCESS", b"%d" % len(parts))


@pytest.mark.parametrize("files", [0, 3])
def test_correct_workers_break_nothing(place: Place, files: int):
    place.act(*READS, acts.reject_audited, *READS, acts.publish_audited, *READS, files=files)
    place.act(acts.publish_local_files, *READS, invalidate, *READS, invalidate_plainly, *READS, files=files)
    place.act(die_after_the_manifest, *READS, acts.land_file, acts.read_raw, acts.remove_old, files=files)
    assert place.violations() == []


def rejected(place: Place, files: int) -> None:
    place.act(acts.reject_audited, files=files)
    place.board.put(f"{place.update}_SUCCESS", b"%d" % files)


def staged(place: Place, files: int) -> None:
    place.act(stage, files=files)
    place.board.put(f"{place.update}_SUCCESS", b"%d" % files)


def invalidated(place: Place, files: int) -> None:
    place.act(acts.publish_audited, invalidate_plainly, files=files)
    place.board.delete(f"{place.update}invalidated")


@pytest.mark.parametrize("made", [rejected, staged, invalidated])
@pytest.mark.parametrize("files", [0, 3])
def test_each_who_sees_an_update_that_is_not_in_force_is_found(
    place: Place, made: Callable[[Place, int], None], files: int
):
    made(place, files)
    place.act(*READS)
    found = place.violations()
    assert len(found) == len(READS) + 1, found  # the last is about the storage
    assert all(each.startswith("staged: ") and made.__name__ in each for each in found)


def test_an_update_without_files_is_torn_if_its_writer_has_files(place: Place):
    place.act(stage, files=3)
    place.board.delete(*(key for key in place.board.objects() if key.startswith(place.update)))
    place.board.put(f"{place.update}_SUCCESS", b"0")
    place.act(*READS)
    found = place.violations()
    assert len(found) == len(READS) + 1, found
    assert all(each.startswith("whole: ") and "torn" in each for each in found)


def test_nobody_is_accused_if_one_of_two_writers_of_a_name_may_have_published_it(place: Place):
    """A writer that stood still may claim the name of a removed update."""
    place.act(acts.publish_audited, acts.read_latest)
    name = place.update.split("/")[-2]
    place.act(acts.reject_audited)
    events = read(place.folder)
    for event in events:
        if event["event"] == "claiming":
            event["name"] = name
    assert place.violations(events) == []


@pytest.mark.parametrize("files", [0, 3])
def test_what_a_reader_saw_of_a_publisher_that_died_may_not_vanish(place: Place, files: int):
    place.act(die_after_the_manifest, acts.read_latest, files=files)
    assert place.violations() == []
    place.board.delete(f"{place.update}_SUCCESS")
    place.act(acts.read_plainly)
    assert [each.partition(":")[0] for each in place.violations()] == ["lost", "lost"]


def test_a_landing_that_was_seen_may_not_vanish(place: Place):
    place.act(acts.land_file, acts.read_raw)
    events = [each for each in read(place.folder) if each["worker"] != "worker-0"]
    assert place.violations(events) == []
    place.board.delete(*place.board.objects())
    (found,) = place.violations(events)
    assert found.startswith("landed: ")


def remove(worker: Worker) -> None:
    """Remove everything in the feed, also what is in force."""
    worker.history.begin("remove")
    keys = [entry.key for entry in list_all(worker.board, "")]
    manifests = [key.split("/")[-3:-1] for key in keys if key.endswith("/_SUCCESS")]
    worker.history.note("planned", updates=[[*place, True] for place in manifests])
    worker.board.delete(*keys)
    worker.end(removed=len(manifests))


def test_retention_may_not_remove_what_is_in_force(place: Place):
    place.act(acts.publish_audited, remove)
    (found,) = place.violations()
    assert found.startswith("retention: ")
    assert "with 0 newer updates" in found


def test_a_pinned_update_may_not_lose_files(place: Place):
    class Loses(MemoryBlackboard):
        def read(self, key: str, *, limit: int | None = None) -> Content:
            if "/part-" in key:
                raise NotFoundError(key)
            return super().read(key, limit=limit)

    place.board = Loses()
    place.act(acts.publish_audited, acts.read_pinned, files=3)
    (found,) = place.violations()
    assert found.startswith("retention: ")
    assert found.endswith("lost files while it was pinned")


def test_a_watcher_may_not_miss_an_update(place: Place):
    place.act(watch, acts.publish_audited)
    found = place.violations(watchers={place.folder.name: {}})
    assert [each.partition(" ")[0] for each in found] == ["watched:", "watched:"]
    place.act(watch)
    assert place.violations(watchers={place.folder.name: {PARTITIONS[0]: place.update.split("/")[-2]}}) == []


def test_an_update_that_the_report_of_an_invalidation_names_as_in_force_is_reported(place: Place):
    place.act(watch, acts.publish_audited)
    name, watcher = place.update.split("/")[-2], place.folder.name
    known = {watcher: {PARTITIONS[0]: name}}
    tick = place.worker().history
    tick.begin("watch", watcher=watcher)
    report = partial(tick.note, "reported", watcher=watcher, change="invalidated", partition=PARTITIONS[0], attempts=[])
    report(name=f"{name}9", in_force=None)
    assert place.violations(watchers=known) == [f"watched: {watcher} never reported {PARTITIONS[0]}/{name}"]
    report(name=f"{name}9", in_force=name)
    assert place.violations(watchers=known) == []


def test_nothing_may_be_left_and_what_is_kept_may_not_go(place: Place):
    place.act(acts.publish_audited)
    assert place.violations(left=[f"{place.update}_SUCCESS", "stray"]) == ["left: stray is left"]
    (found,) = place.violations(left=[])
    assert found.startswith("left: ")
    assert found.endswith("should have been kept")


@pytest.mark.parametrize("event", ["crashed", "hung", "slow", "exited"])
def test_nobody_may_fail_or_hang(place: Place, event: str):
    place.worker().history.note(event, details="these")
    assert place.violations() == [f"answered: worker-0 {event}: {{'details': 'these'}}"]


@pytest.mark.parametrize(
    ("kind", "error", "found"), [("read", "FeedError", 1), ("read", "UnavailableError", 0), ("pin", "FeedError", 0)]
)
def test_a_reader_may_fail_only_if_storage_is_not_available(place: Place, kind: str, error: str, found: int):
    worker = place.worker()
    worker.history.begin(kind, partition=PARTITIONS[0])
    worker.history.note("failed", error=error, message="")
    assert place.violations() == [f"answered: worker-0 {kind} failed: {error}"] * found
