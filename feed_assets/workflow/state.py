"""The memory of a workflow: all its tasks and sessions, changed by mutations alone.

Here: applying mutations, the indexes that decisions need, and the state as bytes. It has no clock, and two states that
applied the same mutations are equal, byte for byte. Not here: which mutation follows from a call (`calls`), and what a
failover forgets (`queues`).
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final, Self

import msgspec

from feed_assets.workflow.tasks import CONFIGURATION, OWN_GROUPS, Status, Task

WINDOW: Final = 16
"""How many calls a client may have under way, so how many answers a session keeps."""
ENDED: Final = -1
"""The number of the mutation that ends a session."""
FORMAT: Final = 1


class Mutation(msgspec.Struct, frozen=True, array_like=True):
    """What one call changes, whole or not at all: tasks gone, tasks new, and the answer to call `seq` of a session.

    `digest` is that of the call, `answer` what its client was told, with ids for tasks. `at` (seconds since 1970) is
    for people. Without a session it is the master's own: a lease has ended.
    """

    gone: tuple[int, ...] = ()
    new: tuple[Task, ...] = ()
    session: str = ""
    seq: int = 0
    digest: bytes = b""
    answer: bytes = b""
    at: float = 0.0


_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(Mutation)
encode_mutation = _encoder.encode
decode_mutation = _decoder.decode


@dataclass(slots=True)
class Session:
    """One client: the highest number of its calls, and the last answers, each with the digest of its call."""

    highest: int = 0
    answers: dict[int, tuple[bytes, bytes]] = field(default_factory=dict)
    leases: int = 0


class _Dump(msgspec.Struct, array_like=True):
    format: int
    position: int
    next_id: int
    sessions: list[tuple[str, int, list[tuple[int, bytes, bytes]]]]
    edges: list[tuple[str, str]]
    closed: list[tuple[str, str, int]]
    tasks: list[Task]


class State:
    """All tasks and sessions of a workflow, after `position` mutations."""

    def __init__(self) -> None:
        self.position = 0
        self.next_id = 1
        self.tasks: dict[int, Task] = {}
        self.units: dict[int, int] = {}
        """The id of each unit's present version."""
        self.sessions: dict[str, Session] = {}
        self.configurations: dict[str, Task] = {}
        self.controls: dict[str, Task] = {}
        self.waiting_keys: dict[tuple[str, str], int] = {}
        self.leased_keys: dict[tuple[str, str], int] = {}
        self.bundles: dict[tuple[str, str], set[int]] = {}
        self.gathering: Counter[str] = Counter()
        """How many tasks of each group wait for the rest of their bundle."""
        self.closed: dict[tuple[str, str], int] = {}
        """The bundles that were consumed, with their origin: until nothing of it is left, no other has the name."""
        self._closed_of: dict[int, set[tuple[str, str]]] = {}
        self.counts: dict[str, Counter[Status]] = {}
        """How many tasks each group has."""
        self.edges: set[tuple[str, str]] = set()
        """From which types tasks of which groups were made."""
        self._descendants: Counter[int] = Counter()

    @classmethod
    def load(cls, dump: bytes | None) -> Self:
        """The state of a dump, or the empty state."""
        state = cls()
        if dump is None:
            return state
        found = msgspec.msgpack.decode(dump, type=_Dump)
        state.position, state.next_id = found.position, found.next_id
        for name, highest, answers in found.sessions:
            state.sessions[name] = Session(highest, {seq: (digest, answer) for seq, digest, answer in answers})
        state.edges = set(found.edges)
        for task in found.tasks:
            state._add(task)
        for group, name, origin in found.closed:
            state._close((group, name), origin)
        return state

    def dump(self) -> bytes:
        """The state; equal states give equal bytes."""
        sessions = [
            (name, each.highest, [(seq, *each.answers[seq]) for seq in sorted(each.answers)])
            for name, each in sorted(self.sessions.items())
        ]
        tasks = [self.tasks[each] for each in sorted(self.tasks)]
        closed = sorted((*key, origin) for key, origin in self.closed.items())
        return _encoder.encode(_Dump(FORMAT, self.position, self.next_id, sessions, sorted(self.edges), closed, tasks))

    def digest(self) -> str:
        """A digest of the state; replay gives the same one, wherever snapshots were made."""
        return hashlib.blake2b(self.dump(), digest_size=16).hexdigest()

    def replay(self, mutation: bytes) -> None:
        """Apply a mutation as the journal has it."""
        self.apply(decode_mutation(mutation))

    def apply(self, mutation: Mutation) -> list[Task]:
        """Apply the next mutation, and return the tasks that are gone."""
        gone = [self._remove(each) for each in mutation.gone]
        for task in mutation.new:
            self._add(task)
        if mutation.new:
            self.next_id = max(self.next_id, mutation.new[-1].id + 1)
        self._learn(gone, mutation.new)
        if mutation.session:
            self._note(mutation)
        self.position += 1
        return gone

    def version_of(self, unit: int) -> Task | None:
        """The present version of a unit."""
        found = self.units.get(unit)
        return None if found is None else self.tasks[found]

    def members(self, task: Task) -> Iterator[Task]:
        """The tasks of its bundle that are there; itself without one."""
        if task.bundle is None:
            yield task
        else:
            for each in sorted(self.bundles[task.group, task.bundle.name]):
                yield self.tasks[each]

    def is_whole(self, task: Task) -> bool:
        """Whether all tasks of its bundle are there and wait, or the task itself waits."""
        if task.bundle is None:
            return task.status == "waiting"
        members = self.bundles.get((task.group, task.bundle.name), ())
        return len(members) == task.bundle.size and all(self.tasks[each].status == "waiting" for each in members)

    def count(self, group: str, status: Status) -> int:
        """How many tasks of a group wait, are leased, or have failed too often."""
        found = self.counts.get(group)
        return found[status] if found else 0

    def _add(self, task: Task) -> None:
        self.tasks[task.id] = task
        self.units[task.unit] = task.id
        if task.group in OWN_GROUPS:
            (self.configurations if task.group == CONFIGURATION else self.controls)[task.key] = task
            return
        if task.origin != task.unit:
            self._descendants[task.origin] += 1
        self.counts.setdefault(task.group, Counter())[task.status] += 1
        if task.holder and task.holder in self.sessions:
            self.sessions[task.holder].leases += 1
        if task.key and not task.dead:
            (self.leased_keys if task.holder else self.waiting_keys)[task.group, task.key] = task.id
        if task.bundle is not None:
            members = self.bundles.setdefault((task.group, task.bundle.name), set())
            self._count_gathering(task, members, -1)
            members.add(task.id)
            self._count_gathering(task, members, 1)

    def _remove(self, task_id: int) -> Task:
        task = self.tasks.pop(task_id)
        if self.units.get(task.unit) == task_id:
            del self.units[task.unit]
        if task.group in OWN_GROUPS:
            kept = self.configurations if task.group == CONFIGURATION else self.controls
            if kept.get(task.key) is task:
                del kept[task.key]
            return task
        if task.origin != task.unit:
            self._descendants[task.origin] -= 1
            if not self._descendants[task.origin]:
                del self._descendants[task.origin]
        self.counts[task.group][task.status] -= 1
        if task.holder in self.sessions:
            self.sessions[task.holder].leases -= 1
        if task.key and not task.dead:
            kept_keys = self.leased_keys if task.holder else self.waiting_keys
            if kept_keys.get((task.group, task.key)) == task_id:
                del kept_keys[task.group, task.key]
        if task.bundle is not None:
            members = self.bundles[task.group, task.bundle.name]
            self._count_gathering(task, members, -1)
            members.discard(task_id)
            self._count_gathering(task, members, 1)
        return task

    def _count_gathering(self, task: Task, members: set[int], sign: int) -> None:
        if task.bundle is not None and len(members) < task.bundle.size:
            self.gathering[task.group] += sign * len(members)

    def _learn(self, gone: list[Task], new: tuple[Task, ...]) -> None:
        """What follows from units that are made of others: who feeds which group, and which bundles are consumed."""
        for task in new:
            if task.unit == task.id and task.group not in OWN_GROUPS:
                self.edges.update((each.type, task.group) for each in gone if each.group not in OWN_GROUPS)
        for task in gone:
            if task.bundle is not None:
                key = task.group, task.bundle.name
                if not self.bundles.get(key, {0}):
                    del self.bundles[key]
                    origins = [each.origin for each in gone if each.bundle == task.bundle and each.group == task.group]
                    self._close(key, min(origins))
        for task in gone:
            if task.origin not in self._descendants and task.origin not in self.units:
                for key in self._closed_of.pop(task.origin, ()):
                    del self.closed[key]

    def _close(self, bundle: tuple[str, str], origin: int) -> None:
        self.closed[bundle] = origin
        self._closed_of.setdefault(origin, set()).add(bundle)

    def _note(self, mutation: Mutation) -> None:
        if mutation.seq == ENDED:
            del self.sessions[mutation.session]
            return
        session = self.sessions.setdefault(mutation.session, Session())
        if mutation.seq:
            session.answers[mutation.seq] = mutation.digest, mutation.answer
            session.highest = max(session.highest, mutation.seq)
            for each in [seq for seq in session.answers if seq <= session.highest - WINDOW]:
                del session.answers[each]


def is_ordered(state: State, what: str, group: str) -> bool:
    """Whether a person has paused or interdicted a group, or all of them."""
    return f"{what}:{group}" in state.controls or f"{what}:all" in state.controls


load = State.load
"""How other processes read a dump (`snapshots`)."""
