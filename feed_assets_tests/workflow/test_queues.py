"""Which task is next: age and priority, delays, retries and their budget."""

from __future__ import annotations

import pytest

from feed_assets.workflow.calls import Lease, Refused
from feed_assets.workflow.queues import BUDGET_SECONDS, RETRIES_AT_LEAST, Deadlines, RetryBudget
from feed_assets_tests.workflow.machines import Client, Master, new


@pytest.fixture
def master() -> Master:
    return Master()


@pytest.fixture
def worker(master: Master) -> Client:
    return master.client()


def test_a_step_of_priority_counts_ten_minutes_so_nothing_starves(master: Master, worker: Client) -> None:
    (old,) = master.person.insert(new())
    master.pass_time(599)
    (newer,) = master.person.insert(new(priority=1))
    master.pass_time(2)
    (newest,) = master.person.insert(new(priority=1))
    (last,) = master.person.insert(new())
    units = [master.state.tasks[worker.lease()[0]].unit for _ in range(4)]
    assert units == [newer, old, newest, last]


def test_groups_of_a_type_share_one_order(master: Master, worker: Client) -> None:
    ids = master.person.insert(new(group="b"), new(group="a"), new(group="b"))
    assert [master.state.tasks[each].unit for each in worker.lease(most=3)] == list(ids)


def test_a_delay_counts_on_the_clock_of_the_master_and_anew_after_a_failover(master: Master, worker: Client) -> None:
    master.person.insert(new(delay=100))
    master.wall += 10_000
    assert worker.lease() == ()
    master.pass_time(99)
    master.fail_over()
    master.pass_time(99)
    assert worker.lease() == ()
    master.pass_time(1)
    assert worker.lease()


def test_a_released_task_starts_again_after_its_pause_and_counts_no_attempt(master: Master, worker: Client) -> None:
    master.person.insert(new())
    worker.release(*worker.lease(), after=20)
    master.pass_time(19)
    assert worker.lease() == ()
    master.pass_time(1)
    assert master.state.tasks[worker.lease()[0]].attempt == 0


def test_retries_come_later_each_time_with_jitter_and_end_in_death(master: Master, worker: Client) -> None:
    (unit,) = master.person.insert(new())
    delays = []
    for attempt in range(1, 6):
        worker.fail(*worker.lease(), reason=f"reason {attempt}")
        task = master.state.version_of(unit)
        assert task is not None
        assert task.attempt == attempt
        delays.append(task.delay)
        master.pass_time(600)
    assert task.dead
    assert task.reasons == tuple(f"reason {each}" for each in range(1, 6))
    assert all(0 < each <= 2**attempt for attempt, each in enumerate(delays[:-1], 1))
    assert worker.lease() == ()
    assert master.units("split") == {unit: task}

    master.person.order("retry", unit)
    (again,) = worker.lease()
    assert (master.state.tasks[again].attempt, master.state.tasks[again].reasons) == (0, ())


def test_tasks_that_fail_together_do_not_come_back_together(master: Master, worker: Client) -> None:
    master.person.insert(*[new()] * 50)
    worker.fail(*worker.lease(most=50))
    assert len({each.delay for each in master.units("split").values()}) == 50


def test_a_lost_lease_counts_an_attempt_with_its_reason(master: Master, worker: Client) -> None:
    (unit,) = master.person.insert(new())
    worker.lease(seconds=30)
    master.pass_time(30)
    task = master.state.version_of(unit)
    assert task is not None
    assert (task.attempt, task.reasons) == (1, ("its lease of 30 s was not renewed",))


def test_the_configuration_says_how_often_a_task_is_tried(master: Master, worker: Client) -> None:
    master.person.configure("split", attempts=7)
    (unit,) = master.person.insert(new())
    for _ in range(7):
        assert master.state.count("split", "dead") == 0
        worker.fail(*worker.lease(), after=0)
    task = master.state.version_of(unit)
    assert task is not None
    assert len(task.reasons) == 7


def test_a_dropped_task_is_gone(master: Master, worker: Client) -> None:
    (unit,) = master.person.insert(new())
    master.person.order("drop", unit)
    assert worker.lease() == ()
    with pytest.raises(Refused, match="it is done, or never was"):
        master.person.order("drop", unit)


def test_retries_are_at_most_a_tenth_of_the_first_tries_w26(master: Master, worker: Client) -> None:
    """All tasks fail at first: amplification is 1.1, and nothing is dropped."""
    master.person.insert(*[new()] * 1000)
    tasks = [each for _ in range(10) for each in worker.lease(most=100)]
    for start in range(0, 1000, 100):
        worker.fail(*tasks[start : start + 100], after=0)
    leases = 1000
    while ids := worker.lease(most=100):
        leases += len(ids)
        worker.commit(*ids)
    assert leases == 1100
    assert worker.call(Lease, types=("split",)).reason == "split: its retries of the last minutes are used up"
    assert not master.machine.can_lease(worker.answers[-1][0])  # type: ignore[arg-type] # a lease
    assert master.state.count("split", "waiting") == 900

    (first_try,) = master.person.insert(new())
    assert [master.state.tasks[each].unit for each in worker.lease(most=5)] == [first_try]

    master.pass_time(601)
    assert len(worker.lease(most=100)) == 10, "a quiet type has ten retries in ten minutes"


def test_a_budget_forgets_leases_after_ten_minutes() -> None:
    budget = RetryBudget()
    for second in range(1200):
        budget.note(second, is_retry=False)
        if second % 10 == 0 and budget.left(second) > 0:
            budget.note(second, is_retry=True)
    assert budget.left(1199) == 0
    assert (budget._first_tries, budget._retries) == (600, 60)
    assert budget.left(1800) == 10
    assert len(budget._seconds) == 0


def test_deadlines_that_are_taken_back_need_no_memory() -> None:
    deadlines = Deadlines()
    for each in range(100_000):
        deadlines.set(each, 3600)
        assert deadlines.take_back(each)
    assert len(deadlines._heap) <= 1_001
    deadlines.set(1, 5)
    assert (deadlines.due(4), deadlines.due(5), deadlines.due(9)) == ([], [1], [])


def test_the_oldest_task_that_could_start_is_known_by_group(master: Master, worker: Client) -> None:
    begin = master.wall
    master.person.insert(new(), new("total", bundle=("b", 2)))
    master.pass_time(50)
    master.person.insert(new(priority=9))
    assert master.machine.queues.oldest() == {"split": begin}
    worker.lease(most=2)
    assert master.machine.queues.oldest() == {}


def test_a_wait_ends_only_for_a_task_that_can_be_leased(master: Master, worker: Client) -> None:
    call = Lease(token="the token", session=worker.session, seq=99, types=("total", "split"))
    assert not master.machine.can_lease(call)
    master.person.insert(new(delay=5))
    assert not master.machine.can_lease(call)
    master.pass_time(5)
    assert master.machine.can_lease(call)
    worker.lease()
    assert not master.machine.can_lease(call)


def test_a_group_of_which_only_retries_wait_says_when_these_are_used_up(master: Master, worker: Client) -> None:
    def fail_once() -> None:
        master.person.insert(new())
        worker.fail(*worker.lease(), after=0.0)

    for _ in range(RETRIES_AT_LEAST):
        fail_once()
        assert master.machine.spent_groups() == set()
        worker.commit(*worker.lease())
    fail_once()

    assert worker.lease() == ()
    assert master.machine.spent_groups() == {"split"}
    master.person.insert(new())
    assert master.machine.spent_groups() == set()  # a first try may be leased
    worker.commit(*worker.lease())
    assert master.machine.spent_groups() == {"split"}
    master.pass_time(BUDGET_SECONDS)
    assert master.machine.spent_groups() == set()
    assert len(worker.lease()) == 1
