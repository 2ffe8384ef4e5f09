"""Snapshots: the same whatever the cut, verified, passed over where damaged; and what may be deleted."""

from __future__ import annotations

import random
import subprocess
import sys
from pathlib import Path

import pytest

from feed_assets.blackboard.local import LocalBlackboard
from feed_assets.blackboard.memory import MemoryBlackboard
from feed_assets.workflow import snapshots
from feed_assets.workflow.errors import JournalDamagedError, SupersededError
from feed_assets.workflow.places import Place, create_workflow
from feed_assets.workflow.reigns import Reign, take_over
from feed_assets.workflow.snapshots import Made, listed, read_snapshot, snapshot_once, truncate
from feed_assets_tests.blackboard.recording import RecordingBlackboard
from feed_assets_tests.workflow.states import Mutations


@pytest.fixture
def board() -> MemoryBlackboard:
    return MemoryBlackboard()


@pytest.fixture
def place(board: MemoryBlackboard) -> Place:
    return create_workflow(board, "revenue")


def reigning(place: Place) -> tuple[Reign, Mutations]:
    return take_over(place, Mutations, address="", failover_after=0, start_heart=lambda _: None)


def write(reign: Reign, state: Mutations, *mutations: bytes) -> None:
    reign.append(state.position + 1, mutations)
    for each in mutations:
        state.replay(each)


def made(place: Place) -> Made:
    found = snapshot_once(place, Mutations)
    assert found is not None
    return found


def journal(place: Place, epoch: int) -> list[int]:
    return [place.journal(epoch).number(each) for each in place.journal(epoch).listed()]


@pytest.mark.parametrize("seed", range(20))
def test_w2_a_snapshot_and_the_entries_since_give_the_same_state_whatever_the_cut(
    place: Place, board: MemoryBlackboard, seed: int
) -> None:
    chance = random.Random(seed)
    cut = create_workflow(MemoryBlackboard(board.objects()), "revenue")
    whole_reign, whole = reigning(place)
    reign, state = reigning(cut)
    for number in range(40):
        mutations = [b"%d-%d" % (number, each) for each in range(chance.randrange(1, 4))]
        write(whole_reign, whole, *mutations)
        write(reign, state, *mutations)
        if chance.random() < 0.2 and (new := snapshot_once(cut, Mutations)) and chance.random() < 0.8:
            truncate(cut, new, epoch=reign.epoch)
        if chance.random() < 0.1:
            reign, state = reigning(cut)

    assert reigning(cut)[1].all == whole.all == state.all
    write(whole_reign, whole, b"last")
    write(*reigning(cut), b"last")
    assert made(place).newest.digest == made(cut).newest.digest


def test_there_is_no_snapshot_without_changes(place: Place) -> None:
    assert snapshot_once(place, Mutations) is None
    reign, state = reigning(place)
    assert snapshot_once(place, Mutations) is None
    write(reign, state, b"a")
    assert made(place).before is None
    assert snapshot_once(place, Mutations) is None
    reign.resign()
    reigning(place)
    assert snapshot_once(place, Mutations) is None
    assert listed(place) == [(1, 2)]


def test_a_damaged_snapshot_is_passed_over_and_the_one_before_serves(place: Place, board: MemoryBlackboard) -> None:
    reign, state = reigning(place)
    for each in (b"a", b"b", b"c", b"d"):
        write(reign, state, each)
        truncate(place, made(place), epoch=1)
    newest = place.snapshot(*listed(place)[-1])
    for change in (board.read(newest).data[:-1] + b"?", board.read(newest).data[:-1], b""):
        board.put(newest, change)
        said = list[str]()
        _, known = take_over(
            place, Mutations, address="", failover_after=0, start_heart=lambda _: None, said=said.append
        )
        assert known.all == [b"a", b"b", b"c", b"d"]
        assert newest in said[-1]
        assert "The snapshot before it is used" in said[-1]
    with pytest.raises(JournalDamagedError, match="delete or restore"):
        read_snapshot(place, *listed(place)[-1])


def test_two_processes_may_make_the_same_snapshot_and_another_one_is_loud(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    reign, state = reigning(place)
    write(reign, state, b"a")
    monkeypatch.setattr(snapshots, "listed", lambda _: [])
    assert made(place) == made(place)

    monkeypatch.setattr(Mutations, "dump", lambda _: b'["other"]')
    with pytest.raises(JournalDamagedError, match="is another state than its journal gives"):
        made(place)


def test_what_two_snapshots_cover_is_deleted_and_seals_epochs_and_the_newest_entry_stay(
    place: Place, board: MemoryBlackboard
) -> None:
    first, state = reigning(place)
    first.heart.beat()
    write(first, state, b"a")
    write(first, state, b"b")
    assert truncate(place, made(place), epoch=1) == 0
    second, state = reigning(place)
    second.heart.beat()
    write(second, state, b"c")

    assert truncate(place, made(place), epoch=2) == 4
    assert (journal(place, 1), journal(place, 2)) == ([4], [1, 2])
    write(second, state, b"d")
    board.put(place.journal(1).key(2), b"seal of a candidate that was late")
    assert truncate(place, made(place), epoch=2) == 3
    assert (journal(place, 1), journal(place, 2)) == ([2, 4], [3])
    assert listed(place) == [(2, 2), (2, 3)]
    assert len(place.epochs.listed()) == 2
    assert [each.key for each in board.page(place.heartbeats).entries] == [place.heartbeat(2)]
    assert reigning(place)[1].all == [b"a", b"b", b"c", b"d"]


def test_nothing_is_deleted_once_there_is_a_newer_epoch(place: Place, board: MemoryBlackboard) -> None:
    reign, state = reigning(place)
    write(reign, state, b"a")
    made(place)
    write(reign, state, b"b")
    second = made(place)
    board.put(place.epochs.key(2), b"")
    before = board.objects()

    with pytest.raises(SupersededError, match="Epoch 2 of the workflow 'revenue' is newer than epoch 1"):
        truncate(place, second, epoch=1)
    assert board.objects() == before


def test_the_look_at_the_epochs_is_the_last_request_before_the_deletion(board: MemoryBlackboard) -> None:
    recording = RecordingBlackboard(board)
    place = create_workflow(recording, "revenue")
    reign, state = reigning(place)
    write(reign, state, b"a")
    made(place)
    write(reign, state, b"b")
    second = made(place)

    truncate(place, second, epoch=1)

    assert "epochs/" in str(recording.requests[-2])
    assert "delete" in str(recording.requests[-1]).lower()


def test_a_process_of_its_own_makes_a_snapshot_and_truncates(tmp_path: Path) -> None:
    place = create_workflow(LocalBlackboard(tmp_path), "revenue")
    reign, state = reigning(place)

    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "feed_assets.workflow.snapshots", *arguments]
        return subprocess.run(command, capture_output=True, text=True, check=False)

    loader = "feed_assets_tests.workflow.states:Mutations"
    for each in (b"a", b"b"):
        write(reign, state, each)
        assert run(str(tmp_path), "revenue", "1", loader).returncode == 0
    assert (listed(place), journal(place, 1)) == ([(1, 2), (1, 3)], [3])

    missing = run(str(tmp_path), "other", "1", loader)
    assert (missing.returncode, missing.stdout) == (1, "")
    assert missing.stderr.startswith("There is no workflow 'other' at file:///")
    assert run(str(tmp_path)).returncode == 2
