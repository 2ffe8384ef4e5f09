"""A state machine in memory, its journal and clients of it, for tests."""

from __future__ import annotations

import random
from typing import Any

from feed_assets.workflow.calls import (
    Answer,
    AnyCall,
    Command,
    Commit,
    Configure,
    Fail,
    Hello,
    Insert,
    Lease,
    Numbered,
    Refused,
    Release,
    Renew,
)  # fmt: skip
from feed_assets.workflow.machine import Machine
from feed_assets.workflow.state import Mutation, State, encode_mutation
from feed_assets.workflow.tasks import NewBundle, NewTask, Task

TOKEN = "the token"


class Master:
    """A machine with a clock that tests move, and a journal. `machine` is another one after a failover."""

    def __init__(self, *, types: tuple[str, ...] = ("split", "total"), seed: int = 1) -> None:
        self.now, self.wall, self.epoch = 0.0, 1_700_000_000.0, 1
        self.journal: list[bytes] = []
        self.dice = random.Random(seed)
        self.machine = self._machine(State())
        self.person = Client(self, "person")
        for each in types:
            self.person.configure(each)

    @property
    def state(self) -> State:
        return self.machine.state

    def _machine(self, state: State) -> Machine:
        return Machine(
            state, TOKEN, self.epoch, self.journal.append, now=self.now, wall=lambda: self.wall, dice=self.dice
        )

    def pass_time(self, seconds: float) -> None:
        self.now += seconds
        self.wall += seconds
        self.machine.expire(self.now)

    def fail_over(self, *, replay: bool = False) -> None:
        """Another master takes over, with the state of a snapshot or of the whole journal."""
        state = replayed(self.journal) if replay else State.load(self.state.dump())
        self.epoch += 1
        self.now = random.Random(self.epoch).uniform(0, 1e6)  # no clock of the old one counts any more
        self.machine = self._machine(state)

    def client(self, name: str = "") -> Client:
        """A client with a session, which is made without a call if it has a name."""
        return Client(self, name or self.machine.answer(Hello(token=TOKEN), self.now).session)

    def units(self, group: str) -> dict[int, Task]:
        return {each.unit: each for each in self.state.tasks.values() if each.group == group}


class Client:
    """Calls a master as one session."""

    def __init__(self, master: Master, session: str) -> None:
        self.master = master
        self.begin(session)

    def begin(self, session: str) -> None:
        """Begin a session, or go on with one that was made by a call."""
        self.session, self.seq = session, 0
        self.answers: list[tuple[AnyCall, Answer]] = []
        if session not in self.master.state.sessions:
            mutation = Mutation(session=session)
            self.master.state.apply(mutation)
            self.master.machine._see(session)
            self.master.journal.append(encode_mutation(mutation))

    def call(self, kind: type[Numbered], **fields: Any) -> Answer:
        """The answer to the next call. Raises Refused."""
        self.seq += 1
        return self.send(kind(token=TOKEN, epoch=1, session=self.session, seq=self.seq, **fields))  # type: ignore[arg-type]

    def send(self, call: AnyCall) -> Answer:
        answer = self.master.machine.answer(call, self.master.now)
        self.answers.append((call, answer))
        if answer.refused:
            raise Refused(answer.refused, answer.message, ids=answer.lost, retry_after=answer.retry_after)
        return answer

    def insert(self, *tasks: NewTask) -> tuple[int, ...]:
        return self.call(Insert, tasks=tasks).ids

    def configure(self, kind: str, **payload: Any) -> int:
        present = self.master.state.configurations.get(kind)
        return self.call(Configure, type=kind, payload=payload, replaces=present.id if present else 0).ids[0]

    def lease(self, *types: str, most: int = 1, seconds: float = 60.0, **more: Any) -> tuple[int, ...]:
        return self.call(Lease, types=types or ("split",), most=most, seconds=seconds, **more).ids

    def renew(self, *ids: int, seconds: float = 60.0, **more: Any) -> Answer:
        return self.call(Renew, ids=ids, seconds=seconds, **more)

    def commit(
        self, *ids: int, produce: tuple[NewTask, ...] = (), configurations: dict[str, int] | None = None
    ) -> Answer:
        present = {kind: task.id for kind, task in self.master.state.configurations.items()}
        present = present if configurations is None else configurations
        return self.call(Commit, consume=ids, configurations=present, produce=produce)

    def release(self, *ids: int, **more: Any) -> Answer:
        return self.call(Release, ids=ids, **more)

    def fail(self, *ids: int, reason: str = "it broke", **more: Any) -> Answer:
        return self.call(Fail, ids=ids, reason=reason, **more)

    def order(self, order: str, target: object, **more: Any) -> Answer:
        return self.call(Command, order=order, target=str(target), by="ada", reason="a test", **more)


def new(kind: str = "split", payload: Any = None, *, bundle: tuple[str, int] | None = None, **more: Any) -> NewTask:
    return NewTask(kind, payload, bundle=NewBundle(*bundle) if bundle else None, **more)


def replayed(journal: list[bytes]) -> State:
    state = State()
    for each in journal:
        state.replay(each)
    return state
