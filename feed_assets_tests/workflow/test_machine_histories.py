"""Random calls, expiries, failovers: replay gives the state, byte for byte, and each unit is in exactly one place."""

from __future__ import annotations

import copy
from typing import Any

from hypothesis import Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from feed_assets.workflow.calls import Refused
from feed_assets.workflow.state import State
from feed_assets.workflow.tasks import NewTask, Task
from feed_assets_tests.workflow.machines import Client, Master, new

TYPES = ("split", "total")


@st.composite
def new_tasks(draw: st.DrawFn) -> NewTask:
    kind = draw(st.sampled_from(TYPES))
    more: dict[str, Any] = {
        "group": draw(st.sampled_from(("", "", "", "elsewhere"))),
        "priority": draw(st.sampled_from((0, 0, 1, 9))),
        "delay": draw(st.sampled_from((0, 0, 0, 7.0))),  # an int and a float: both are the same in the journal
    }
    match draw(st.sampled_from(("plain", "key", "bundle"))):
        case "key":
            more["key"] = draw(st.sampled_from("kl"))
        case "bundle":
            more["bundle"] = draw(st.sampled_from((("two", 2), ("three", 3), ("other", 2))))
    return new(kind, draw(st.sampled_from((None, None, None, 1))), **more)


def indexes(state: State) -> dict[str, Any]:
    """All that a state knows, without counts of zero."""
    found = dict(vars(state))
    found["gathering"] = +state.gathering
    found["_closed_of"] = {origin: names for origin, names in state._closed_of.items() if names}
    return found


class Histories(RuleBasedStateMachine):
    @initialize(attempts=st.sampled_from((1, 2, 5)), most=st.sampled_from((3, 100_000)))
    def begin(self, attempts: int, most: int) -> None:
        self.master = Master(types=())
        self.clients = [self.master.client(f"worker {each}") for each in range(2)]
        for kind in TYPES:
            self.master.person.configure(kind, attempts=attempts, most=most)
        self.shadow = State()
        self.written = 0
        self.seen: dict[int, float] = {}
        self.committed: list[int] = []

    def _try(self, call: Any, *args: Any, **fields: Any) -> Any:
        before = dict(self.master.state.tasks)
        try:
            return call(*args, **fields)
        except Refused:
            assert self.master.state.tasks == before, "a refusal has changed a task"
            return None

    def _leased(self, client: Client) -> list[int]:
        return [each.id for each in self.master.state.tasks.values() if each.holder == client.session]

    @rule(who=st.integers(0, 1), tasks=st.lists(new_tasks(), min_size=1, max_size=3))
    def insert(self, who: int, tasks: list[NewTask]) -> None:
        self._try(self.clients[who].insert, *tasks)

    @rule(
        who=st.integers(0, 1), kinds=st.permutations(TYPES), most=st.integers(1, 3), seconds=st.sampled_from((5, 30.0))
    )
    def lease(self, who: int, kinds: list[str], most: int, seconds: float) -> None:
        client = self.clients[who]
        ids = client.lease(*kinds, most=most, seconds=seconds)
        tasks = [self.master.state.tasks[each] for each in ids]
        assert all(each.holder == client.session for each in tasks)
        assert len({each.type for each in tasks}) <= 1
        for each in tasks:
            assert each.bundle is None or len([*self.master.state.members(each)]) == each.bundle.size

    @rule(who=st.integers(0, 1), data=st.data(), produce=st.lists(new_tasks(), max_size=2))
    def commit(self, who: int, data: st.DataObject, produce: list[NewTask]) -> None:
        client = self.clients[who]
        mine = self._leased(client) + self._leased(self.clients[1 - who])[:1]
        if not mine:
            return
        wanted = data.draw(st.lists(st.sampled_from(mine), min_size=1, unique=True))
        units = {each: self.master.state.tasks[each].unit for each in wanted}
        if self._try(client.commit, *wanted, produce=tuple(produce)) is not None:
            self.committed += units.values()

    @rule(who=st.integers(0, 1), data=st.data(), how=st.sampled_from(("renew", "release", "fail", "fail later")))
    def change_lease(self, who: int, data: st.DataObject, how: str) -> None:
        client = self.clients[who]
        if not (mine := self._leased(client)):
            return
        ids = data.draw(st.lists(st.sampled_from(mine), min_size=1, unique=True))
        match how:
            case "renew":
                self._try(client.renew, *ids, progress=1, checkpoint="half")
            case "release":
                self._try(client.release, *ids, after=3)
            case "fail":
                self._try(client.fail, *ids)
            case _:
                self._try(client.fail, *ids, after=2)

    @rule(order=st.sampled_from(("retry", "drop", "retry")), data=st.data())
    def mend(self, order: str, data: st.DataObject) -> None:
        tasks = [each for each in self.master.state.tasks.values() if each.group in {*TYPES, "elsewhere"}]
        if tasks:
            unit = data.draw(st.sampled_from(tasks)).unit
            self._try(self.master.person.order, order, unit)

    @rule(order=st.sampled_from(("pause", "resume", "interdict", "lift")), group=st.sampled_from(("split", "all")))
    def order(self, order: str, group: str) -> None:
        self._try(self.master.person.order, order, group)

    @rule(who=st.integers(0, 1), back=st.integers(1, 15))
    def repeat(self, who: int, back: int) -> None:
        client, machine = self.clients[who], self.master.machine
        if len(client.answers) >= back:
            call, answer = client.answers[-back]
            before = self.master.state.dump()
            assert machine.answer(call, self.master.now) == answer
            assert self.master.state.dump() == before

    @rule(kind=st.sampled_from(TYPES), version=st.integers(0, 2))
    def configure(self, kind: str, version: int) -> None:
        self.master.person.configure(kind, version=version, attempts=2)

    @rule(seconds=st.sampled_from((1.0, 6.0, 31.0, 4000.0)))
    def pass_time(self, seconds: float) -> None:
        self.master.pass_time(seconds)
        for client in (*self.clients, self.master.person):
            if client.session not in self.master.state.sessions:
                client.begin(f"{client.session}+")

    @rule(replay=st.booleans())
    def fail_over(self, replay: bool) -> None:
        self.master.fail_over(replay=replay)
        self.seen = dict.fromkeys(self.seen, self.master.now)

    @invariant()
    def replay_gives_the_state(self) -> None:
        for each in self.master.journal[self.written :]:
            self.shadow.replay(each)
        self.written = len(self.master.journal)
        dump = self.master.state.dump()
        assert self.shadow.dump() == dump
        assert self.shadow.digest() == self.master.state.digest()
        assert indexes(State.load(dump)) == indexes(self.master.state) == indexes(self.shadow)

    @invariant()
    def each_unit_is_in_one_place(self) -> None:
        state = self.master.state
        units = [each.unit for each in state.tasks.values()]
        assert len(units) == len(set(units))
        assert len(self.committed) == len(set(self.committed)), "a unit was committed twice"
        assert not set(units) & set(self.committed), "a unit that was committed is there"
        for status in (True, False):
            keys = [
                (each.group, each.key)
                for each in state.tasks.values()
                if each.key and not each.dead and bool(each.holder) is status
            ]
            assert len(keys) == len(set(keys))

    @invariant()
    def exactly_what_may_start_is_found_in_order(self) -> None:
        master = self.master
        tasks = master.state.tasks
        self.seen = {each: self.seen.get(each, master.now) for each in tasks}
        for kind in TYPES:
            expected = [each for each in tasks.values() if each.type == kind and self._may_start(each)]
            places = {
                each.id: max((other.order for other in self._bundle(each)), default=each.order) for each in expected
            }
            queues = copy.deepcopy(master.machine.queues)
            queues._budgets.clear()
            can = queues.can_take(kind, master.now, is_open=lambda _: True)
            found = queues.take(kind, 100, master.now, is_open=lambda _: True)
            assert [each.id for each in found] == sorted(places, key=lambda each: (places[each], each))
            assert can == bool(found)
            assert not queues.take(kind, 100, master.now, is_open=lambda _: True)
        assert all(self.seen[each.id] + each.seconds > master.now for each in tasks.values() if each.holder)

    def _bundle(self, task: Task) -> list[Task]:
        tasks = self.master.state.tasks.values()
        return (
            [task]
            if task.bundle is None
            else [each for each in tasks if (each.group, each.bundle) == (task.group, task.bundle)]
        )

    def _may_start(self, task: Task) -> bool:
        bundle = self._bundle(task)
        if task.bundle and len(bundle) < task.bundle.size:
            return False
        if any(each.status != "waiting" or self.seen[each.id] + each.delay > self.master.now for each in bundle):
            return False
        others = self.master.state.tasks.values()
        return not (
            task.key and any(each.holder and (each.group, each.key) == (task.group, task.key) for each in others)
        )


Histories.TestCase.settings = settings(
    max_examples=60,
    stateful_step_count=40,
    phases=(Phase.explicit, Phase.reuse, Phase.generate),  # to shrink a history takes minutes
)
test_any_history_is_replayed_and_keeps_each_unit_in_one_place = Histories.TestCase
