"""Sessions: a repeated call gets its first answer and changes nothing, whoever is master; numbers have a window."""

from __future__ import annotations

import random

import pytest

from feed_assets.workflow.calls import Answer, Insert, Lease, Refused
from feed_assets.workflow.state import WINDOW
from feed_assets_tests.workflow.machines import TOKEN, Client, Master, new


@pytest.fixture
def master() -> Master:
    return Master()


def insert(client: Client, seq: int, payload: object = None) -> Answer:
    call = Insert(token=TOKEN, session=client.session, seq=seq, tasks=(new(payload=payload),))
    return client.master.machine.answer(call, client.master.now)


@pytest.mark.parametrize("replay", [False, True])
def test_a_repeated_call_gets_the_first_answer_also_of_the_next_master(master: Master, replay: bool) -> None:
    worker = master.client()
    assert worker.lease() == ()
    worker.insert(new())
    (task,) = worker.lease()
    worker.commit(task)
    with pytest.raises(Refused, match="not leased"):
        worker.commit(task)
    assert [each.refused for _, each in worker.answers] == ["", "", "", "", "LeaseLost"]

    for _ in range(2):
        before = master.state.dump()
        for call, answer in reversed(worker.answers):
            assert master.machine.answer(call, master.now) == answer
        assert master.state.dump() == before
        master.fail_over(replay=replay)


def test_a_repeat_may_know_a_newer_epoch(master: Master) -> None:
    worker = master.client()
    worker.insert(new())
    call, answer = worker.answers[-1]
    master.fail_over()
    repeated = Insert(token=TOKEN, epoch=2, session=worker.session, seq=call.seq, tasks=call.tasks)  # type: ignore[union-attr]
    assert master.machine.answer(repeated, master.now) == answer


def test_another_call_with_the_same_number_is_a_conflict(master: Master) -> None:
    worker = master.client()
    insert(worker, 1, "a")
    for call in (
        Insert(token=TOKEN, session=worker.session, seq=1, tasks=(new(payload="b"),)),
        Lease(token=TOKEN, session=worker.session, seq=1, types=("split",)),
    ):
        with pytest.raises(Refused, match="Number 1 was that of another call") as error:
            master.machine.answer(call, master.now)
        assert error.value.code == "Conflict"


def test_numbers_arrive_in_any_order_within_the_window(master: Master) -> None:
    worker = master.client()
    numbers = list(range(1, WINDOW + 1))
    random.Random(1).shuffle(numbers)
    ids = {each: insert(worker, each).ids for each in numbers}
    assert len(set(ids.values())) == WINDOW
    assert {each: insert(worker, each).ids for each in numbers} == ids
    with pytest.raises(Refused, match=f"Number {2 * WINDOW + 1} of a call: the highest was {WINDOW}"):
        insert(worker, 2 * WINDOW + 1)
    insert(worker, 2 * WINDOW)
    for forgotten in (1, WINDOW):
        with pytest.raises(Refused, match="older than the last 16") as error:
            insert(worker, forgotten)
        assert error.value.code == "Forgotten"
    insert(worker, WINDOW + 1)


@pytest.mark.parametrize("seq", [0, -1, 10**30])
def test_an_odd_number_is_refused(master: Master, seq: int) -> None:
    with pytest.raises(Refused, match="of a call: the highest was 0") as error:
        insert(master.client(), seq)
    assert error.value.code == "Invalid"


def test_an_idle_session_ends_and_its_next_call_says_so(master: Master) -> None:
    idle, busy = master.client(), master.client()
    master.pass_time(3599)
    insert(busy, 1)
    master.pass_time(1)
    assert set(master.state.sessions) == {busy.session}
    with pytest.raises(Refused, match="begin another one") as error:
        insert(idle, 1)
    assert error.value.code == "SessionLost"
    assert master.machine.has_answer(Lease(token=TOKEN, session=idle.session, seq=1, types=()))
    insert(busy, 2)


def test_a_repeated_call_keeps_its_session_alive(master: Master) -> None:
    worker = master.client()
    insert(worker, 1)
    for _ in range(3):
        master.pass_time(3000)
        insert(worker, 1)
    assert worker.session in master.state.sessions


def test_an_idle_session_keeps_the_lease_of_an_hour_to_its_end(master: Master) -> None:
    worker = master.client()
    worker.insert(new())
    assert worker.lease(seconds=3600)
    master.pass_time(3599.5)
    assert worker.session in master.state.sessions
    master.pass_time(0.5)
    assert worker.session not in master.state.sessions
    assert master.state.count("split", "waiting") == 1


def test_a_session_is_idle_anew_for_the_next_master(master: Master) -> None:
    worker = master.client()
    master.pass_time(3000)
    master.fail_over()
    master.pass_time(3000)
    insert(worker, 1)


def test_what_json_cannot_express_uses_no_number(master: Master) -> None:
    worker = master.client()
    for payload in ("\ud800", {1: "a", "1": "b"}, object()):
        with pytest.raises(Refused, match="is no JSON"):
            insert(worker, 1, payload)
    assert insert(worker, 1, {"big": 2**70, "text": "é\x00\U0001f600"}).ids
