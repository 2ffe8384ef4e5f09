"""How a candidate waits and takes over, and what a master does where the store is silent, sealed or damaged."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from feed_assets.blackboard.local import LocalBlackboard
from feed_assets.blackboard.memory import MemoryBlackboard
from feed_assets.blackboard.port import Blackboard, UnavailableError
from feed_assets.workflow.entries import MOST_BYTES
from feed_assets.workflow.epochs import Address, Heart, address_of, newest_address, own_address
from feed_assets.workflow.errors import (
    JournalDamagedError,
    NoWorkflowError,
    StoppedError,
    StoreSilentError,
    SupersededError,
    WorkflowError,
    WorkflowNameError,
)
from feed_assets.workflow.places import Place, create_workflow, open_workflow
from feed_assets.workflow.reigns import Reign, take_over
from feed_assets.workflow.snapshots import snapshot_once, truncate
from feed_assets_tests.workflow.states import Mutations


class Time:
    """A clock that advances only while somebody sleeps. `then` is called before each sleep."""

    def __init__(self, then: Callable[[float], None] = lambda _: None) -> None:
        self.now, self._then = 0.0, then

    def clock(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self._then(self.now)
        self.now += seconds


def reigning(place: Place, time: Time | None = None, **options: object) -> tuple[Reign, Mutations]:
    """Take over without heartbeats, on a clock of the test."""
    time = time or Time()
    return take_over(
        place,
        Mutations,
        address="http://here",
        clock=time.clock,
        sleep=time.sleep,
        start_heart=lambda _: None,
        **options,
    )


def write(reign: Reign, state: Mutations, *mutations: bytes) -> None:
    reign.append(state.position + 1, mutations)
    for each in mutations:
        state.replay(each)


@pytest.fixture
def board() -> MemoryBlackboard:
    return MemoryBlackboard()


@pytest.fixture
def place(board: MemoryBlackboard) -> Place:
    return create_workflow(board, "revenue")


def test_all_who_create_a_workflow_have_the_same_token_and_names_are_no_paths(board: MemoryBlackboard) -> None:
    with pytest.raises(NoWorkflowError, match="workflow serve"):
        open_workflow(board, "revenue")
    assert create_workflow(board, "revenue") == create_workflow(board, "revenue") == open_workflow(board, "revenue")
    assert create_workflow(board, "other").token != open_workflow(board, "revenue").token
    for name in ("", "../x", "a/b", "A", "a" * 64, "-a", ".a", "a\n"):
        with pytest.raises(WorkflowNameError):
            create_workflow(board, name)


@pytest.mark.parametrize("content", [b"", b"[]", b'{"format": 1}', b'{"format": 1, "token": "x"}', b'{"format": 2}'])
def test_a_damaged_or_newer_workflow_is_refused(board: MemoryBlackboard, content: bytes) -> None:
    board.put(".workflow/revenue/workflow.json", content)

    with pytest.raises(JournalDamagedError, match=r"workflow\.json"):
        create_workflow(board, "revenue")


@pytest.mark.parametrize("on_disk", [True, False])
def test_a_candidate_waits_as_long_as_the_heart_beats_and_takes_over_after(tmp_path: Path, on_disk: bool) -> None:
    board: Blackboard = LocalBlackboard(tmp_path) if on_disk else MemoryBlackboard()
    place = create_workflow(board, "revenue")
    first, state = reigning(place)
    write(first, state, b"a")

    def beat(now: float) -> None:
        if now < 60:
            first.heart.beat()

    time, said = Time(beat), list[str]()
    second, later = reigning(place, time, said=said.append)

    assert 65 <= time.now < 70
    assert (second.epoch, later.all) == (2, [b"a"])
    assert "Epoch 1 of 'revenue' has a master" in said[0]
    assert "no sign of life" in said[-1]
    with pytest.raises(SupersededError):
        write(first, state, b"b")


def test_a_candidate_does_not_wait_for_a_sealed_epoch_or_a_dead_process(place: Place, board: MemoryBlackboard) -> None:
    first, _ = reigning(place)
    first.resign()
    time = Time()
    reigning(place, time)
    assert time.now == 0

    dead = replace(address_of(place, 2), pid=2**22, started="1")
    board.put(place.epochs.key(2), dead.encode())
    reigning(place, time)
    assert time.now == 0
    assert newest_address(place) == own_address(3, "http://here", address_of(place, 3).nonce)


def test_a_process_of_another_machine_or_with_a_number_used_again_is_told_apart(place: Place) -> None:
    here = own_address(1, "", "")

    assert not here.is_dead()
    assert not replace(here, pid=2**22, machine="another").is_dead()
    assert replace(here, started="1").is_dead()
    assert not Address(1, "", "", "", 2**22).is_dead()
    assert newest_address(place) is None


def test_a_waiting_candidate_can_be_stopped(place: Place) -> None:
    reigning(place)
    stop = threading.Event()

    with pytest.raises(StoppedError):
        reigning(place, Time(lambda _: stop.set()), stop=stop)
    assert newest_address(place).epoch == 1


class Failing(MemoryBlackboard):
    """Fails the next requests of these operations."""

    failing: tuple[str, ...] = ()
    left = 10**9

    def fail(self, *operations: str, times: int = 10**9) -> None:
        self.failing, self.left = operations, times

    def __getattribute__(self, name: str):
        if name in {"page", "read", "create", "replace"} and name in self.failing and self.left:
            self.left -= 1
            raise UnavailableError("The store is away.", transient=name != "create")
        return super().__getattribute__(name)


def test_a_candidate_who_sees_nothing_of_the_store_does_not_take_over() -> None:
    board = Failing()
    place = create_workflow(board, "revenue")
    reigning(place)

    def fail(now: float) -> None:
        board.fail(*(("page",) if 3 < now < 100 else ()))

    time, said = Time(fail), list[str]()
    reigning(place, time, said=said.append)

    assert 105 <= time.now < 110
    assert any("The store is away" in each for each in said)


def test_a_write_is_repeated_until_it_is_decided_and_after_a_minute_the_reign_ends() -> None:
    board = Failing()
    place = create_workflow(board, "revenue")
    undecided = []
    time = Time(lambda _: undecided.append(reign.is_undecided))
    reign, state = reigning(place, time)
    board.fail("create", times=5)
    write(reign, state, b"a")
    assert undecided == [True] * 5
    assert not reign.is_undecided

    board.fail("create")
    began = time.now
    with pytest.raises(StoreSilentError, match=r"The store is away\."):
        write(reign, state, b"b")
    assert 60 <= time.now - began < 63
    board.fail()
    with pytest.raises(StoreSilentError):
        write(reign, state, b"c")
    assert reigning(place, failover_after=0)[1].all == [b"a"]


def test_a_clean_stop_gives_up_soon_if_the_store_is_silent() -> None:
    board, time = Failing(), Time()
    reign, _ = reigning(create_workflow(board, "revenue"), time)
    board.fail("page")
    reign.resign()
    assert time.now < 8
    with pytest.raises(SupersededError, match="resigned"):
        reign.append(1, [b"a"])


def test_mutations_of_more_than_4_mib_are_several_entries(place: Place, board: MemoryBlackboard) -> None:
    reign, state = reigning(place)
    large = [bytes([each]) * (MOST_BYTES // 2) for each in b"abcde"]
    write(reign, state, *large, b"z" * (MOST_BYTES + 1))
    reign.append(state.position + 1, [])

    assert len(place.journal(1).listed()) == 5
    assert reigning(place, failover_after=0)[1].all == state.all
    with pytest.raises(ValueError, match="position 9 does not follow 6"):
        reign.append(9, [b"x"])


def test_epochs_in_which_nobody_served_are_passed_over(place: Place, board: MemoryBlackboard) -> None:
    reign, state = reigning(place)
    write(reign, state, b"a")
    for epoch in (2, 3, 4):
        board.put(place.epochs.key(epoch), own_address(epoch, "", "").encode())

    later, known = reigning(place, failover_after=0)
    write(later, known, b"b")
    last, known = reigning(place, failover_after=0)

    assert (later.epoch, last.epoch, known.all) == (5, 6, [b"a", b"b"])
    assert [len(place.journal(epoch).listed()) for epoch in range(1, 6)] == [3, 1, 1, 1, 3]


def damaged(place: Place, change: Callable[[MemoryBlackboard, str], object]) -> str:
    """What a candidate says after this change of the second of three entries."""
    assert isinstance(place.board, MemoryBlackboard)
    reign, state = reigning(place)
    for each in (b"a", b"b", b"c"):
        write(reign, state, each)
    change(place.board, place.journal(1).key(3))
    with pytest.raises(WorkflowError) as raised:
        reigning(place, failover_after=0)
    return f"{type(raised.value).__name__}: {raised.value}"


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda board, key: board.delete(key), "HoleError: memory:///.workflow/revenue/journal/"),
        (lambda board, key: board.put(key, board.read(key).data[:-1]), "is no entry"),
        (lambda board, key: board.put(key, b""), "is no entry"),
        (lambda board, key: board.put(key, b"seal"), "is no entry"),
        (lambda board, key: board.put(key, board.read(key[:-1] + "2").data), "its number is 2, and 3 is due"),
    ],
)
def test_a_damaged_journal_is_refused_with_the_object_to_restore(place: Place, change, says: str) -> None:
    message = damaged(place, change)

    assert says in message
    assert place.journal(1).key(3) in message
    assert "Restore" in message


def test_a_last_entry_that_became_empty_is_no_seal(place: Place, board: MemoryBlackboard) -> None:
    reign, state = reigning(place)
    write(reign, state, b"a")
    board.put(place.journal(1).key(2), b"")

    with pytest.raises(JournalDamagedError, match=r"002 is empty. Restore"):
        reigning(place, failover_after=0)


def test_an_entry_that_was_replaced_by_a_sound_one_is_noticed_at_the_next(
    place: Place, board: MemoryBlackboard
) -> None:
    other = create_workflow(MemoryBlackboard(board.objects()), "revenue")
    reign, state = reigning(other)
    write(reign, state, b"A")

    def replace_entry(board: MemoryBlackboard, key: str) -> None:
        board.put(place.journal(1).key(2), other.board.read(place.journal(1).key(2)).data)

    assert "checksum of the entry before" in damaged(place, replace_entry)


def test_a_master_whose_number_holds_garbage_ends_loudly(place: Place, board: MemoryBlackboard) -> None:
    reign, state = reigning(place)
    board.put(place.journal(1).key(2), b"garbage")

    with pytest.raises(JournalDamagedError, match="is no entry"):
        write(reign, state, b"a")


def test_a_candidate_that_stood_still_while_a_later_one_deleted_entries_ends_quietly(place: Place) -> None:
    first, state = reigning(place)
    write(first, state, b"a")

    def overtaken(_: Heart) -> None:  # after the second's epoch was created, before it seals
        third, known = reigning(place, failover_after=0)
        for each in (b"b", b"c"):
            write(third, known, each)
            made = snapshot_once(place, Mutations)
            assert made is not None
            truncate(place, made, epoch=third.epoch)

    with pytest.raises(SupersededError):
        take_over(place, Mutations, address="", failover_after=0, start_heart=overtaken)


def test_a_heart_beats_and_tells_of_a_newer_epoch_once(place: Place, board: MemoryBlackboard) -> None:
    told, lost = list[int](), threading.Event()
    heart = Heart(place, 1, every=0.001)
    board.put(place.epochs.key(1), b"")
    heart.start()

    def tell(newer: int) -> None:
        told.append(newer)
        lost.set()

    with heart:
        heart.tell(tell)
        assert not heart.look()
        board.put(place.epochs.key(2), b"")
        assert lost.wait(60)
    assert heart.look()
    heart.tell(tell)
    assert told == [2, 2]
    assert int(board.read(place.heartbeat(1)).data) >= 1


def test_a_heartbeat_whose_answer_was_lost_does_not_end_the_beats(place: Place, board: MemoryBlackboard) -> None:
    heart = Heart(place, 1, every=1)
    heart.beat()
    board.put(place.heartbeat(1), b"landed, and its answer lost")
    heart.beat()
    heart.beat()

    assert board.read(place.heartbeat(1)).data == b"3"
