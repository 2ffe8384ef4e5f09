"""What the machine answers to each call: leases, commits, configurations, orders, and refusals that change no task."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from feed_assets.workflow import machine as machines
from feed_assets.workflow.calls import Command, Commit, Configure, Hello, Insert, Lease, Refused
from feed_assets.workflow.tasks import MOST_TASKS
from feed_assets_tests.workflow.machines import TOKEN, Client, Master, new


@pytest.fixture
def master() -> Master:
    return Master()


def refused(code: str, call: Callable[..., Any], *args: Any, **fields: Any) -> Refused:
    """The refusal of a call, which has changed no task."""
    master: Master = call.__self__.master  # type: ignore[attr-defined] # a client's method
    before = dict(master.state.tasks)
    with pytest.raises(Refused) as found:
        call(*args, **fields)
    assert found.value.code == code, str(found.value)
    assert master.state.tasks == before
    return found.value


def leased(master: Master, *tasks: Any) -> tuple[Client, tuple[int, ...]]:
    master.person.insert(*(tasks or (new(),)))
    worker = master.client()
    return worker, worker.lease(most=10)


# --- leases and commits -----------------------------------------------------------------------------------------------


def test_stages_of_any_depth_consume_and_produce_in_one_mutation_w5_w7() -> None:
    master = Master(types=("a", "b", "c"))
    master.person.insert(new("a", {"day": 1}))
    worker = master.client()
    positions = []
    for kind, following in (("a", "b"), ("b", "c"), ("c", None)):
        (task,) = worker.lease(kind)
        assert master.state.tasks[task].payload == b'{"day":1}'
        worker.commit(task, produce=(new(following, {"day": 1}),) if following else ())
        positions.append(master.state.position)

    assert [each - positions[0] for each in positions] == [0, 2, 4]
    assert master.state.counts == {}
    assert master.state.edges == {("a", "b"), ("b", "c")}


def test_an_idle_worker_takes_other_types_in_its_order_of_wish_w6(master: Master) -> None:
    master.person.insert(new("split"), new("total"))
    worker = master.client()
    kinds = [master.state.tasks[worker.lease("total", "split")[0]].type for _ in range(2)]
    assert kinds == ["total", "split"]
    assert worker.call(Lease, types=("total", "split")).reason == "total: nothing waits; split: nothing waits"


def test_each_change_of_a_lease_is_a_new_id_and_the_unit_stays_w10(master: Master) -> None:
    (unit,) = master.person.insert(new())
    worker = master.client()
    ids = [unit, *worker.lease(seconds=30)]
    ids += worker.renew(ids[-1], progress=0.5, checkpoint="half").ids
    task = master.state.tasks[ids[-1]]
    assert (task.unit, task.progress, task.checkpoint, task.seconds) == (unit, 0.5, "half", 60)
    worker.release(ids[-1])
    ids += worker.lease()
    assert master.state.tasks[ids[-1]].checkpoint == "half"
    assert len(set(ids)) == 4
    assert [each for each in ids if each in master.state.tasks] == ids[-1:]


def test_a_commit_needs_a_lease_of_its_session_by_the_present_id_w8(master: Master) -> None:
    worker, (task,) = leased(master)
    error = refused("LeaseLost", master.client().commit, task)
    assert error.ids == (task,)
    assert str(error) == "These tasks are not leased to this session any more, or have new ids."
    (renewed,) = worker.renew(task).ids
    refused("LeaseLost", worker.commit, task)
    worker.commit(renewed)
    refused("LeaseLost", worker.commit, renewed)


def test_an_orphan_cannot_commit_after_its_lease_has_ended_w4_w8(master: Master) -> None:
    worker, (task,) = leased(master)
    master.pass_time(61)
    refused("LeaseLost", worker.commit, task)
    master.pass_time(3)
    other = master.client()
    (again,) = other.lease()
    refused("LeaseLost", worker.commit, task)
    refused("LeaseLost", worker.commit, again)
    other.commit(again)


def test_the_lease_ends_before_a_call_that_comes_at_its_end_is_answered(master: Master) -> None:
    worker, (task,) = leased(master)
    master.now += 60
    with pytest.raises(Refused, match="not leased to this session any more"):
        worker.commit(task)
    assert master.state.count("split", "waiting") == 1


def test_a_renewal_names_what_is_lost_and_renews_the_rest(master: Master) -> None:
    worker, (one, two) = leased(master, new(), new())
    worker.commit(one)
    answer = worker.renew(one, two)
    assert answer.lost == (one,)
    assert len(answer.ids) == 1
    assert master.state.tasks[answer.ids[0]].holder == worker.session


def test_a_renewal_counts_from_now(master: Master) -> None:
    worker, (task,) = leased(master)
    master.pass_time(59)
    (task,) = worker.renew(task, seconds=10).ids
    master.pass_time(9)
    (task,) = worker.renew(task, seconds=60).ids
    master.pass_time(59)
    worker.commit(task)


def test_a_failover_gives_each_lease_its_full_length_again(master: Master) -> None:
    worker, (task,) = leased(master)
    master.pass_time(59)
    master.fail_over()
    master.pass_time(59)
    worker.commit(task)


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"types": ()}, "Invalid"), ({"most": 0}, "Invalid"), ({"most": 101}, "Invalid"), ({"seconds": 4.9}, "Invalid"),
        ({"seconds": 3601}, "Invalid"), ({"seconds": float("nan")}, "Invalid"), ({"types": ("x",) * 101}, "TooLarge"),
        ({"types": ("x" * 300,)}, "TooLarge"),
    ],
)  # fmt: skip
def test_a_lease_outside_its_limits_is_refused_with_them(master: Master, fields: dict[str, Any], code: str) -> None:
    master.person.insert(new())
    error = refused(code, master.person.call, Lease, **{"types": ("split",), **fields})
    assert "100" in str(error)


def test_a_commit_names_each_of_its_tasks_once(master: Master) -> None:
    worker, (task,) = leased(master)
    for consume in ((), (task, task)):
        error = refused("Invalid", worker.commit, *consume)
        assert str(error) == "A commit consumes one task or more, each once."


@pytest.mark.parametrize("task_id", [0, -1, 2**63, 2**70])
def test_an_id_that_no_task_can_have_is_refused(master: Master, task_id: int) -> None:
    for call in (master.person.commit, master.person.renew, master.person.release, master.person.fail):
        refused("Invalid", call, task_id)


def test_a_call_names_at_most_a_thousand_ids(master: Master) -> None:
    error = refused("TooLarge", master.person.renew, *range(1, MOST_TASKS + 2))
    assert str(error) == "1,001 ids in a call, at most 1,000."


def test_a_refused_production_leaves_the_lease(master: Master) -> None:
    worker, (task,) = leased(master)
    error = refused("Invalid", worker.commit, task, produce=(new("total"), new("nothing")))
    assert str(error) == "Task 2 of 2: no stage is called nothing: there are split, total."
    worker.commit(task, produce=(new("total"),))


@pytest.mark.parametrize("after", [-1, 601, float("nan"), float("inf")])
def test_a_pause_outside_its_limits_is_refused(master: Master, after: float) -> None:
    worker, (task,) = leased(master)
    refused("Invalid", worker.release, task, after=after)
    refused("Invalid", worker.fail, task, after=after)


def test_a_checkpoint_has_a_limit(master: Master) -> None:
    worker, (task,) = leased(master)
    for call in (worker.renew, worker.release, worker.fail):
        error = refused("TooLarge", call, task, checkpoint="ä" * 513)
        assert str(error) == "A checkpoint has at most 1,024 bytes."


def test_only_the_number_of_a_unit_names_it_not_an_id_of_a_later_version(master: Master) -> None:
    (unit,) = master.person.insert(new())
    (task,) = master.client().lease()
    assert master.state.version_of(unit) == master.state.tasks[task]
    assert master.state.version_of(task) is None


# --- configurations ---------------------------------------------------------------------------------------------------


def test_a_configuration_changed_in_flight_stops_the_commit_and_leaves_the_lease_w11(master: Master) -> None:
    worker, (task,) = leased(master)
    old = {"split": master.state.configurations["split"].id}
    changed = master.person.configure("split", version="2")
    error = refused("ConfigurationChanged", worker.commit, task, configurations=old)
    assert error.ids == (changed,)
    assert str(error) == f"The configuration of split is task {changed} now: do it again."
    refused("ConfigurationChanged", worker.commit, task, configurations={})
    refused("LeaseLost", worker.commit, 999, configurations=old)  # the lease is looked at first
    worker.commit(task, configurations={"split": changed})


def test_the_change_of_another_configuration_stops_no_commit_w11(master: Master) -> None:
    worker, (task,) = leased(master)
    old = {kind: each.id for kind, each in master.state.configurations.items()}
    master.person.configure("total", version="2")
    worker.commit(task, configurations=old, produce=(new("total"),))


def test_a_worker_with_another_configuration_leases_nothing_and_says_so(master: Master) -> None:
    master.person.configure("split", digest="abc")
    master.person.insert(new())
    worker = master.client()
    answer = worker.call(Lease, types=("split",), digests={"split": "old"})
    assert (answer.ids, answer.reason) == ((), "split: its configuration is another one than this worker's")
    assert not master.machine.can_lease(worker.answers[-1][0])  # type: ignore[arg-type] # a lease
    assert worker.lease(digests={"split": "abc"})


def test_a_configuration_replaces_the_present_one_only(master: Master) -> None:
    present = master.state.configurations["split"]
    call = master.person.call
    error = refused("Conflict", call, Configure, type="split", payload={"v": 2}, replaces=0)
    assert (error.ids, str(error)) == (
        (present.id,),
        f"The configuration of split is task {present.id} now: look again.",
    )
    same = call(Configure, type="split", payload={}, replaces=present.id)
    assert same.ids == same.there == (present.id,)


@pytest.mark.parametrize(
    ("kind", "payload", "code", "words"),
    [
        ("split", {"most": "many"}, "Invalid", "most"),
        ("split", {"most": 0}, "Invalid", "most"),
        ("split", {"attempts": 0}, "Invalid", "attempts"),
        ("split", {"digest": 5}, "Invalid", "digest"),
        ("split", {"x": "y" * 4096}, "TooLarge", "at most 4,096"),
        ("../x", {}, "Invalid", "'../x'"),
        ("", {}, "Invalid", "''"),
    ],
)
def test_a_configuration_that_cannot_be_is_refused(
    master: Master, kind: str, payload: dict[str, Any], code: str, words: str
) -> None:
    assert words in str(refused(code, master.person.configure, kind, **payload))


# --- orders of people -------------------------------------------------------------------------------------------------


def test_a_paused_group_gives_no_leases_and_its_commits_go_on(master: Master) -> None:
    worker, (task,) = leased(master)
    master.person.insert(new())
    master.person.order("pause", "split")
    assert worker.call(Lease, types=("split",)).reason == "split: paused"
    assert not master.machine.can_lease(worker.answers[-1][0])  # type: ignore[arg-type]
    worker.commit(task)
    master.fail_over()
    assert worker.lease() == ()
    master.person.order("resume", "split")
    assert worker.lease()


def test_an_interdicted_group_gives_no_leases_and_takes_no_commits(master: Master) -> None:
    worker, (task,) = leased(master)
    master.person.order("interdict", "all")
    master.fail_over(replay=True)
    error = refused("Interdicted", worker.commit, task)
    assert (str(error), error.retry_after) == ("split: a person has forbidden commits.", 30)
    assert worker.call(Lease, types=("split",)).reason == "split: nothing waits"
    (task,) = worker.renew(task).ids
    master.person.order("lift", "all")
    worker.commit(task)


@pytest.mark.parametrize(
    ("order", "target", "code", "words"),
    [
        ("pause", "nothing", "NotFound", "No group is called nothing: there are split, total."),
        ("resume", "split", "Conflict", "There is no pause of split to end."),
        ("lift", "split", "Conflict", "There is no interdict of split to end."),
        ("retry", "999", "NotFound", "There is no unit 999: it is done, or never was."),
        ("drop", "1", "NotFound", "There is no unit 1: it is done, or never was."),
        ("drop", "9" * 100, "NotFound", "it is done, or never was."),
        ("retry", "x" * 201, "TooLarge", "at most 200"),
    ],
)
def test_an_order_that_cannot_be_is_refused(master: Master, order: str, target: str, code: str, words: str) -> None:
    assert words in str(refused(code, master.person.order, order, target))


def test_an_order_has_an_author_and_a_reason(master: Master) -> None:
    refused("Invalid", master.person.call, Command, order="pause", target="all", by="", reason="x")
    refused("Invalid", master.person.call, Command, order="pause", target="all", by="ada", reason="")
    master.person.order("pause", "all")
    assert master.state.controls["pause:all"].payload == b'{"by":"ada","reason":"a test"}'


def test_a_leased_unit_can_be_neither_dropped_nor_retried(master: Master) -> None:
    _, (task,) = leased(master)
    unit = master.state.tasks[task].unit
    for order in ("drop", "retry"):
        assert refused("Conflict", master.person.order, order, unit).ids == (task,)


# --- limits -----------------------------------------------------------------------------------------------------------


def test_a_full_group_takes_no_inserts_and_all_commits(master: Master) -> None:
    master.person.configure("total", most=2)
    worker, (task,) = leased(master)
    master.person.insert(new("total"), new("total"))
    error = refused("Full", master.person.insert, new("total"))
    assert (str(error), error.retry_after) == ("2 tasks of total wait already.", 10)
    worker.commit(task, produce=(new("total"),))
    assert master.state.count("total", "waiting") == 3


def test_a_full_group_stops_the_leases_of_those_that_feed_it(master: Master) -> None:
    master.person.configure("total", most=1)
    worker, (task,) = leased(master)
    worker.commit(task, produce=(new("total"),))
    master.person.insert(new())
    assert worker.call(Lease, types=("split",)).reason == "split: downstream full: total"
    master.fail_over()
    assert worker.lease() == ()
    worker.commit(*worker.lease("total"))
    assert worker.lease()


def test_full_groups_that_feed_each_other_do_not_wait_for_each_other(master: Master) -> None:
    for kind in ("split", "total"):
        master.person.configure(kind, most=1)
    worker, (task,) = leased(master)
    worker.commit(task, produce=(new("total"),))
    worker.commit(*worker.lease("total"), produce=(new("split"),))
    worker.commit(*worker.lease("split"), produce=(new("total"),))
    master.person.insert(new())
    assert master.machine.is_full("split")
    assert master.machine.is_full("total")
    assert worker.lease("split")


def test_an_insert_that_only_brings_a_task_forward_makes_no_group_feed_another(master: Master) -> None:
    master.person.insert(new(key="k"))
    master.person.insert(new(key="k", priority=5), new("total"))
    assert master.state.edges == set()


def test_a_workflow_has_a_most_of_tasks_and_sessions(master: Master, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machines, "MOST_OF_ALL", 5)
    monkeypatch.setattr(machines, "MOST_SESSIONS", 2)
    master.person.insert(new(), new())
    error = refused("Full", master.person.insert, new())
    assert (str(error), error.retry_after) == ("The workflow has 4 tasks.", 60)
    master.client()
    with pytest.raises(Refused, match="There are 2 sessions"):
        master.client()


def test_a_call_inserts_one_to_a_thousand_tasks(master: Master) -> None:
    refused("Invalid", master.person.insert)
    assert "1,001" in str(refused("TooLarge", master.person.insert, *[new()] * 1001))
    assert len(master.person.insert(*[new()] * 1000)) == 1000


# --- another master ---------------------------------------------------------------------------------------------------


def test_a_call_for_another_workflow_or_of_a_later_epoch_is_refused_always_w12(master: Master) -> None:
    before = master.state.dump()
    calls: list[Any] = [
        Hello(token="other"),
        Insert(token="other", session=master.person.session, seq=1, tasks=(new(),)),
        Commit(token="other", session="none", seq=-5, consume=(), configurations={}),
    ]
    for call in calls:
        with pytest.raises(Refused, match="the master of another workflow") as found:
            master.machine.answer(call, 0)
        assert found.value.code == "WrongMaster"
    with pytest.raises(Refused, match="Epoch 2 has begun, and this is epoch 1") as found:
        master.machine.answer(Hello(token=TOKEN, epoch=2), 0)
    assert found.value.code == "NotMaster"
    assert master.state.dump() == before
