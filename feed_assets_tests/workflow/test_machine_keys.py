"""Keys: at most one waiting task of a group has a key, and none is leased while another one with it is."""

from __future__ import annotations

import pytest

from feed_assets.workflow.calls import Insert, Refused
from feed_assets_tests.workflow.machines import Client, Master, new


@pytest.fixture
def master() -> Master:
    return Master()


@pytest.fixture
def worker(master: Master) -> Client:
    return master.client()


def test_a_second_insert_returns_the_first(master: Master) -> None:
    first = master.person.call(Insert, tasks=(new(key="k"), new("total", key="k")))
    again = master.person.call(Insert, tasks=(new(key="k"), new()))
    assert again.ids[0] == first.ids[0]
    assert again.there == first.ids[:1]
    assert len(master.state.tasks) == 3 + 2


def test_a_second_insert_raises_the_priority_and_names_the_new_id(master: Master) -> None:
    (first,) = master.person.insert(new(key="k"))
    answer = master.person.call(Insert, tasks=(new(key="k"), new(key="k", priority=3), new(key="k", priority=2)))
    (task,) = master.units("split").values()
    assert (task.unit, task.priority) == (first, 3)
    assert set(answer.ids) <= {first, task.id}
    assert answer.ids[1:] == (task.id, task.id)


def test_ids_of_one_call_name_tasks_that_are_there(master: Master) -> None:
    answer = master.person.call(Insert, tasks=(new(key="k"), new(key="k", priority=3)))
    (task,) = master.units("split").values()
    assert answer.ids == (task.id, task.id)
    assert (task.unit, task.priority, answer.there) == (task.id, 3, (task.id,))


def test_another_payload_of_a_key_is_refused_waiting_or_leased(master: Master, worker: Client) -> None:
    (unit,) = master.person.insert(new(payload=1, key="k"))
    for _ in range(2):
        with pytest.raises(Refused, match=f"The key k of split is that of unit {unit}, which has another payload"):
            master.person.insert(new(payload=2, key="k"))
        worker.lease()


def test_while_a_key_is_leased_a_second_task_waits_and_is_not_leased(master: Master, worker: Client) -> None:
    master.person.insert(new(key="k"))
    (first,) = worker.lease()
    (second,) = master.person.insert(new(key="k"))
    assert worker.lease() == ()
    (first,) = worker.renew(first).ids
    master.fail_over()
    assert worker.lease() == ()
    worker.commit(first)
    assert master.state.tasks[worker.lease()[0]].unit == second


def test_a_task_that_comes_back_is_absorbed_by_the_one_that_waits(master: Master, worker: Client) -> None:
    master.person.insert(new(key="k", priority=4))
    (first,) = worker.lease()
    (second,) = master.person.insert(new(key="k", delay=100))
    worker.fail(first, after=5)
    (task,) = master.units("split").values()
    assert (task.unit, task.priority, task.attempt, task.delay, task.reasons) == (second, 4, 1, 5, ("it broke",))
    assert worker.lease() == ()
    master.pass_time(5)
    assert worker.lease()


def test_a_lost_lease_of_a_key_is_absorbed(master: Master, worker: Client) -> None:
    master.person.insert(new(key="k"))
    worker.lease()
    (second,) = master.person.insert(new(key="k"))
    master.pass_time(60)
    (task,) = master.units("split").values()
    assert (task.unit, task.attempt) == (second, 1)
    assert worker.lease()


def test_an_absorbing_task_does_not_begin_its_delay_anew(master: Master, worker: Client) -> None:
    master.person.insert(new(key="k", delay=100))
    master.pass_time(60)
    master.person.insert(new(key="k", delay=100, priority=9))
    master.pass_time(39)
    assert worker.lease() == ()
    master.pass_time(1)
    assert worker.lease()


def test_a_commit_may_produce_the_key_that_it_consumes(master: Master, worker: Client) -> None:
    master.person.insert(new(payload=1, key="k"))
    (first,) = worker.lease()
    (second,) = worker.commit(first, produce=(new(payload=2, key="k"),)).ids
    assert worker.lease() == (second + 1,)


def test_a_dead_task_keeps_no_key_and_a_retry_joins_the_one_that_waits(master: Master, worker: Client) -> None:
    master.person.configure("split", attempts=1)
    (first,) = master.person.insert(new(key="k"))
    worker.fail(*worker.lease())
    assert master.state.count("split", "dead") == 1
    (second,) = master.person.insert(new(key="k"))
    assert second != first
    assert master.person.order("retry", first).ids == (second,)
    assert list(master.units("split")) == [second]
