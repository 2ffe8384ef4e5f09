"""Every order of events of two workers and a person: each unit's effect is there once, and no client is told otherwise.

The machine itself answers each call, as a new master that has loaded the state. Workers have two attempts at once, lose
answers and send again, and commit after their leases have ended. Each rule that is switched off gives a counterexample.
"""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Iterator
from functools import lru_cache
from typing import Any, NamedTuple

import msgspec
import pytest

from feed_assets.workflow.calls import Answer, AnyCall, Commit, Configure, Insert, Lease, Renew
from feed_assets.workflow.changes import Change
from feed_assets.workflow.machine import Machine
from feed_assets.workflow.state import Mutation, State
from feed_assets.workflow.tasks import NewTask, Task

WORKERS = ("a", "b")
PERSON = "person"


class Attempt(NamedTuple):
    """A worker's work under a lease. `is_over` is known to the test only: the lease has ended."""

    id: int
    unit: int
    configuration: int
    is_over: bool = False


class Pending(NamedTuple):
    seq: int
    attempt: Attempt | None = None
    renews: bool = False


class Worker(NamedTuple):
    seq: int = 0
    attempts: tuple[Attempt, ...] = ()
    pending: tuple[Pending, ...] = ()
    told: tuple[int, ...] = ()
    """The units that it was told to have committed."""


class World(NamedTuple):
    core: bytes
    workers: tuple[Worker, ...]


class NoDelay(random.Random):
    def uniform(self, a: float, b: float) -> float:  # noqa: ARG002 - as `random` has it
        return a


class Model:
    """All worlds that follow from `units` units, so many calls of each worker, and ids below `most_id`."""

    def __init__(self, machine: type[Machine], *, units: int, calls: int, expiries: int, renews: bool) -> None:
        self.kind, self.calls, self.renews = machine, calls, renews
        state = State()
        for name in (*WORKERS, PERSON):
            state.apply(Mutation(session=name))
        first = self.machine(state)
        for seq, kind in enumerate(("work", "done"), 1):
            first.answer(Configure(token="", session=PERSON, seq=seq, type=kind, payload={}), 0)
        first.answer(Insert(token="", session=PERSON, seq=3, tasks=(NewTask("work"),) * units), 0)
        self.expiries = expiries
        self.units = sorted(each.unit for each in state.tasks.values() if each.group == "work")
        self.start = World(core_of(state), (Worker(),) * len(WORKERS))
        self.answered: dict[tuple[bytes, AnyCall], tuple[bytes, Answer]] = {}
        self.without: dict[tuple[bytes, int], bytes] = {}

    def machine(self, state: State) -> Machine:
        return self.kind(state, "", 1, lambda _: None, now=0, wall=lambda: 0.0, dice=NoDelay())

    def answer(self, core: bytes, call: Any) -> tuple[bytes, Answer]:
        key = core, msgspec.json.encode(call)
        if key not in self.answered:
            state = State.load(core)
            answer = self.machine(state).answer(call, 0)
            self.answered[key] = core_of(state), answer
        return self.answered[key]

    def call_of(self, number: int, pending: Pending) -> AnyCall:
        common: dict[str, Any] = {"token": "", "session": WORKERS[number], "seq": pending.seq}
        attempt = pending.attempt
        if attempt is None:
            return Lease(types=("work",), **common)
        if pending.renews:
            return Renew(ids=(attempt.id,), **common)
        effect = NewTask("done", [attempt.unit, attempt.configuration, attempt.id])
        return Commit(
            consume=(attempt.id,), configurations={"work": attempt.configuration}, produce=(effect,), **common
        )

    def next(self, world: World) -> Iterator[tuple[str, World]]:
        """Each event that may come next, and the world after it. Raises AssertionError if a client is told wrongly."""
        for number, worker in enumerate(world.workers):
            name = WORKERS[number]
            if number and not world.workers[0].seq:
                continue  # whoever calls first is the first

            def after(core: bytes, changed: Worker, number: int = number) -> World:
                return World(core, (*world.workers[:number], changed, *world.workers[number + 1 :]))

            if worker.seq < self.calls:
                seq = worker.seq + 1
                if len(worker.attempts) + len(worker.pending) < 2:
                    sent = worker._replace(seq=seq, pending=(*worker.pending, Pending(seq)))
                    yield f"{name} asks for a lease", after(world.core, sent)
                for attempt in worker.attempts:
                    left = tuple(each for each in worker.attempts if each is not attempt)
                    for renews in (False, True)[: 1 + self.renews]:
                        pending = (*worker.pending, Pending(seq, attempt, renews))
                        sent = worker._replace(seq=seq, attempts=left, pending=pending)
                        yield f"{name} {'renews' if renews else 'commits'} {attempt.id}", after(world.core, sent)
            for pending_call in worker.pending:
                core, answer = self.executed(world.core, number, pending_call)
                if core != world.core:
                    yield f"the answer to {name}'s call {pending_call.seq} is lost", after(core, worker)
                yield (
                    f"{name} is told {answer.refused or answer.ids}",
                    after(core, told(core, worker, pending_call, answer)),
                )
        yield from self.without_workers(world)

    def without_workers(self, world: World) -> Iterator[tuple[str, World]]:
        """The lease of a task ends, or a person changes the configuration."""
        state = loaded(world.core)
        for task in state.tasks.values():
            if task.holder and sum(each.attempt for each in state.tasks.values()) < self.expiries:
                workers = tuple(
                    worker._replace(
                        attempts=tuple(over(each, task) for each in worker.attempts),
                        pending=tuple(
                            each._replace(attempt=over(each.attempt, task)) if each.attempt else each
                            for each in worker.pending
                        ),
                    )
                    for worker in world.workers
                )
                yield f"the lease of {task.id} ends", World(self.without_lease(world.core, task), workers)
        if state.configurations["work"].id == state.configurations["work"].unit:
            call = Configure(
                token="", session=PERSON, seq=4, type="work", payload={"v": 2}, replaces=state.configurations["work"].id
            )
            yield "a person configures", World(self.answer(world.core, call)[0], world.workers)

    def without_lease(self, core: bytes, task: Task) -> bytes:
        key = core, task.id
        if key not in self.without:
            changed = State.load(core)
            self.machine(changed)._lose([task])
            self.without[key] = core_of(changed)
        return self.without[key]

    def executed(self, core: bytes, number: int, pending: Pending) -> tuple[bytes, Answer]:
        """What the master makes of a call. A copy of it that arrives later changes nothing."""
        call = self.call_of(number, pending)
        changed, answer = self.answer(core, call)
        assert self.answer(changed, call) == (changed, answer), "a repeated call was executed"
        if pending.attempt and not pending.renews and not answer.refused and changed != core:
            assert not pending.attempt.is_over, "a commit was accepted after its lease had ended"
            configuration = loaded(core).configurations["work"].id
            assert pending.attempt.configuration == configuration, "an effect of an old configuration"
        return changed, answer

    def check(self, world: World) -> None:
        """Raises AssertionError if a world breaks a promise."""
        state = loaded(world.core)
        effects = [msgspec.json.decode(each.payload)[0] for each in state.tasks.values() if each.group == "done"]
        places = sorted([each.unit for each in state.tasks.values() if each.group == "work"] + effects)
        assert places == self.units, "a unit is not in exactly one place"
        committed = sorted(unit for worker in world.workers for unit in worker.told)
        assert len(committed) == len(set(committed)), "two were told to have committed a unit"
        assert set(committed) <= set(effects), "a client was told of a commit that is not there"

    def explore(self) -> int:
        """How many worlds there are. Raises AssertionError, with the events up to it."""
        found: dict[World, tuple[World, str] | None] = {self.start: None}
        queue = deque([self.start])
        while queue:
            world = queue.popleft()
            try:
                self.check(world)
                for event, following in self.next(world):
                    if following not in found:
                        found[following] = world, event
                        queue.append(following)
            except AssertionError as error:
                events: list[str] = []
                at: World | None = world
                while at and (before := found[at]):
                    at, event = before
                    events.insert(0, event)
                raise AssertionError(f"{error.args[0]}: {'; '.join(events)}") from error
        return len(found)


@lru_cache(maxsize=100_000)
def loaded(core: bytes) -> State:
    """The state of a dump, which many worlds share: to look at, not to change."""
    return State.load(core)


def core_of(state: State) -> bytes:
    """The state without its position, so that worlds are finite and few."""
    state.position = 0
    return state.dump()


def over(attempt: Attempt, task: Task) -> Attempt:
    return attempt._replace(is_over=True) if attempt.unit == task.unit else attempt


def told(core: bytes, worker: Worker, pending: Pending, answer: Answer) -> Worker:
    """A worker that knows the answer to a call."""
    worker = worker._replace(pending=tuple(each for each in worker.pending if each is not pending))
    if pending.attempt is None or pending.renews:
        state = loaded(core)
        tasks = [state.tasks.get(each) for each in answer.ids]
        new = tuple(
            Attempt(each.id, each.unit, state.configurations["work"].id)
            if pending.attempt is None
            else pending.attempt._replace(id=each.id)
            for each in tasks
            if each is not None  # else it ended while the answer was lost
        )
        return worker._replace(attempts=(*worker.attempts, *new))
    if not answer.refused:
        return worker._replace(told=(*worker.told, pending.attempt.unit))
    ids = [msgspec.json.decode(each.payload)[2] for each in loaded(core).tasks.values() if each.group == "done"]
    assert pending.attempt.id not in ids, "a client was told that its commit failed, and its effect is there"
    return worker


@pytest.mark.slow
@pytest.mark.parametrize(
    ("units", "calls", "renews", "at_least"), [(1, 3, False, 60_000), (2, 2, False, 30_000), (1, 2, True, 7_000)]
)
def test_in_every_world_each_unit_is_committed_once_and_nobody_is_told_otherwise_w7(
    units: int, calls: int, renews: bool, at_least: int
) -> None:
    assert Model(Machine, units=units, calls=calls, expiries=1, renews=renews).explore() > at_least


class NoLeaseCheck(Machine):
    """Takes the client's word for what it has leased."""

    def _leased(self, call: Any, ids: Any) -> list[Task]:
        unit = msgspec.json.decode(msgspec.json.encode(call.produce[0].payload))[0]
        gone = Task(ids[0], unit, unit, "work", "work", b"null", 0.0, holder=call.session, seconds=60.0)
        return [self.state.tasks.get(ids[0], gone)]

    def _apply(self, change: Change, **fields: Any) -> None:
        change.gone = [each for each in change.gone if each in self.state.tasks]
        super()._apply(change, **fields)


class LateCommit(Machine):
    """Takes the present version of a unit, whoever has leased it, for the one that a late commit names."""

    def _commit(self, call: Commit, change: Change) -> Answer:
        unit = msgspec.json.decode(msgspec.json.encode(call.produce[0].payload))[0]
        if (present := self.state.version_of(unit)) is not None and present.holder:
            call = msgspec.structs.replace(call, consume=(present.id,))
        return super()._commit(call, change)

    def _leased(self, call: Any, ids: Any) -> list[Task]:
        found = [self.state.tasks[each] for each in ids if each in self.state.tasks]
        return found or super()._leased(call, ids)


class NoConfigurationCheck(Machine):
    """Takes any configuration for the one in force."""

    def _commit(self, call: Commit, change: Change) -> Answer:
        present = {kind: task.id for kind, task in self.state.configurations.items()}
        return super()._commit(msgspec.structs.replace(call, configurations=present), change)


class RepeatsExecuted(Machine):
    """Does what a repeated call asks, again."""

    def _before(self, call: Any, digest: bytes) -> None:  # noqa: ARG002 - as the rule has it
        return None


class SameIds(Machine):
    """Keeps the id of a task whose lease changes."""

    def _change(self) -> Change:
        class KeepsIds(Change):
            def replace(self, task: Task, **changes: Any) -> int:
                if task.group != "work":
                    return super().replace(task, **changes)
                self.gone.append(task.id)
                self.new[task.id] = msgspec.structs.replace(task, **changes)
                return task.id

        return KeepsIds(self.state, self.queues, self._now, self._wall())


@pytest.mark.parametrize(
    ("broken", "promise"),
    [
        (NoLeaseCheck, "a commit was accepted after its lease had ended"),
        (LateCommit, "a commit was accepted after its lease had ended"),
        (NoConfigurationCheck, "an effect of an old configuration"),
        (RepeatsExecuted, "a repeated call was executed"),
        (SameIds, "a commit was accepted after its lease had ended"),
    ],
)
def test_each_rule_that_is_switched_off_breaks_a_promise(broken: type[Machine], promise: str) -> None:
    with pytest.raises(AssertionError, match=promise):
        Model(broken, units=1, calls=3, expiries=1, renews=False).explore()


@pytest.mark.parametrize(
    ("broken", "promise"),
    [
        (NoLeaseCheck, "a unit is not in exactly one place"),
        (RepeatsExecuted, "a client was told that its commit failed, and its effect is there"),
    ],
)
def test_without_a_rule_effects_or_answers_are_wrong(broken: type[Machine], promise: str) -> None:
    """Also if nobody looks at how a call was answered."""

    class OnlyResults(Model):
        def executed(self, core: bytes, number: int, pending: Pending) -> tuple[bytes, Answer]:
            return self.answer(core, self.call_of(number, pending))

    with pytest.raises(AssertionError, match=promise):
        OnlyResults(broken, units=1, calls=3, expiries=1, renews=False).explore()
