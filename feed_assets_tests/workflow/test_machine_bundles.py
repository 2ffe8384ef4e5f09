"""Bundles: tasks that one worker leases and commits together, once all of them are there."""

from __future__ import annotations

import pytest

from feed_assets.workflow.calls import Refused
from feed_assets_tests.workflow.machines import Client, Master, new

MEMBER = new("total", bundle=("day", 3))


@pytest.fixture
def master() -> Master:
    return Master()


@pytest.fixture
def worker(master: Master) -> Client:
    return master.client()


def whole(master: Master) -> tuple[int, ...]:
    return master.person.insert(MEMBER, MEMBER, MEMBER)


def test_a_bundle_is_leased_when_all_are_there_and_committed_whole_w5(master: Master, worker: Client) -> None:
    master.person.insert(MEMBER, MEMBER)
    assert worker.lease("total") == ()
    assert master.state.gathering["total"] == 2
    master.person.insert(MEMBER)
    ids = worker.lease("total", most=1)
    assert len(ids) == 3
    assert master.state.gathering["total"] == 0
    with pytest.raises(Refused, match="committed together") as error:
        worker.commit(*ids[:2])
    assert error.value.ids == ids[2:]
    worker.commit(*ids)
    assert master.units("total") == {}


def test_a_bundle_is_not_split_by_the_most_of_a_lease(master: Master, worker: Client) -> None:
    master.person.insert(new("total"))
    whole(master)
    assert [len(worker.lease("total", most=3)) for _ in range(3)] == [1, 3, 0]


@pytest.mark.parametrize(
    ("task", "words"),
    [
        (new("total", bundle=("day", 4)), "The bundle day has 3 tasks, not 4."),
        (new("split", group="total", bundle=("day", 3)), "The bundle day has tasks of total, not of split."),
    ],
)
def test_a_member_of_another_size_or_type_is_refused(master: Master, task: object, words: str) -> None:
    master.person.insert(MEMBER)
    for tasks in ((task,), (MEMBER, task)):
        with pytest.raises(Refused) as error:
            master.person.insert(*tasks)  # type: ignore[arg-type]
        assert (error.value.code, str(error.value)) == ("Conflict", words)
    assert master.state.count("total", "waiting") == 1


def test_the_name_of_a_bundle_is_used_once_while_anything_of_its_origins_is_left(
    master: Master, worker: Client
) -> None:
    def refused() -> None:
        with pytest.raises(Refused, match="has all of its tasks already"):
            master.person.insert(MEMBER)

    master.person.insert(new(), new())
    one, two = worker.lease(most=2)
    worker.commit(one, produce=(MEMBER, MEMBER))
    worker.commit(two, produce=(MEMBER, new()))
    refused()
    ids = worker.lease("total")
    refused()
    (result,) = worker.commit(*ids, produce=(new(),)).ids
    refused()
    master.fail_over()
    refused()
    tasks = worker.lease(most=2)
    worker.commit(*[each for each in tasks if master.state.tasks[each].unit == result])
    refused()
    worker.commit(*[each for each in tasks if each in master.state.tasks])
    assert master.state.closed == {}
    master.person.insert(MEMBER)


def test_a_bundle_that_loses_its_lease_comes_back_once(master: Master, worker: Client) -> None:
    whole(master)
    ids = worker.lease("total")
    master.pass_time(60)
    with pytest.raises(Refused, match="not leased"):
        worker.commit(*ids)
    master.pass_time(2)
    assert len(worker.lease("total", most=10)) == 3
    assert worker.lease("total") == ()


def test_a_bundle_waits_for_the_member_that_starts_last(master: Master, worker: Client) -> None:
    whole(master)
    one, two, three = worker.lease("total")
    worker.release(one, three)
    worker.fail(two, after=10)
    master.pass_time(9)
    assert worker.lease("total") == ()
    master.pass_time(1)
    assert len(worker.lease("total")) == 3


@pytest.mark.parametrize(("order", "empty"), [("retry", False), ("drop", True)])
def test_a_dead_member_stops_its_bundle_until_a_person_acts(
    master: Master, worker: Client, order: str, empty: bool
) -> None:
    master.person.configure("total", attempts=1)
    units = whole(master)
    one, two, three = worker.lease("total")
    worker.fail(two)
    worker.release(one, three)
    assert worker.lease("total") == ()
    assert master.state.count("total", "dead") == 1
    assert master.state.gathering["total"] == 2
    master.fail_over()
    master.person.order(order, units[1])
    ids = worker.lease("total")
    assert [master.state.tasks[each].empty for each in sorted(ids, key=lambda each: master.state.tasks[each].unit)] == [
        False, empty, False
    ]  # fmt: skip
    worker.commit(*ids)


def test_members_that_wait_for_others_fill_no_group(master: Master, worker: Client) -> None:
    master.person.configure("total", most=2)
    master.person.insert(*[new()] * 5)
    for each in range(5):
        (task,) = worker.lease()  # would end at the third, if members counted
        worker.commit(task, produce=(new("total", bundle=("day", 5)),))
        assert master.machine.is_full("total") is (each == 4)
    assert len(worker.lease("total")) == 5


def test_a_thousand_members_are_one_bundle(master: Master, worker: Client) -> None:
    for _ in range(2):
        master.person.insert(*[new("total", bundle=("big", 1000))] * 500)
    ids = worker.lease("total")
    assert len(ids) == 1000
    worker.commit(*ids)
