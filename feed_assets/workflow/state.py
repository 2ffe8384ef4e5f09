"""The memory of a workflow: all its tasks and sessions, changed by mutations alone.

Here: applying mutations, the indexes that decisions need, and the state as bytes. It has no clock, and two states that
applied the same mutations are equal, byte for byte. Not here: which mutation follows from a call (`machine`), and what
a failover forgets (`queues`).
"""

from __future__ import annotations

import gc
import hashlib
import itertools
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
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


@dataclass(slots=True)
class Members:
    """The tasks of a bundle that are there, and how many of them wait."""

    ids: set[int] = field(default_factory=set)
    waiting: int = 0


Name = tuple[str, str]
"""The name of a key or a bundle: it belongs to a group."""


class _Dump(msgspec.Struct, array_like=True):
    format: int
    position: int
    next_id: int
    sessions: list[tuple[str, int, list[tuple[int, bytes, bytes]]]]
    edges: list[tuple[str, str]]
    closed: list[tuple[str, str, list[int]]]
    tasks: list[Task]


@contextmanager
def without_collection() -> Iterator[None]:
    """Let the garbage collector rest: a million new objects, none of them garbage, double its work again and again."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


def _share(task: Task) -> None:
    """Let tasks that were decoded share equal values: the memory is free for others."""
    put = msgspec.structs.force_setattr
    if task.origin == task.unit:
        put(task, "origin", task.unit)
    put(task, "group", sys.intern(task.group))
    put(task, "type", task.group if task.type == task.group else sys.intern(task.type))


class State:
    """All tasks and sessions of a workflow, after `position` mutations."""

    def __init__(self) -> None:
        self.position = 0
        self.next_id = 1
        self.tasks: dict[int, Task] = {}
        self.units: dict[int, int] = {}
        """The present version of each unit that has changed: the first one has the unit's number as its id."""
        self.sessions: dict[str, Session] = {}
        self.configurations: dict[str, Task] = {}
        self.controls: dict[str, Task] = {}
        self.waiting_keys: dict[Name, int] = {}
        self.leased_keys: dict[Name, int] = {}
        self.bundles: dict[Name, Members] = {}
        self.gathering: Counter[str] = Counter()
        """How many waiting tasks of each group cannot start, because others of their bundle do not wait."""
        self.closed: dict[Name, set[int]] = {}
        """The bundles that were consumed, with their origins: no other has the name until nothing of these is left."""
        self.counts: dict[str, Counter[Status]] = {}
        """How many tasks each group has; none of its own groups."""
        self.dead: dict[int, None] = {}
        """The ids of the dead tasks, in their order."""
        self.edges: set[tuple[str, str]] = set()
        """From which groups tasks of which groups were made."""
        self._closed_of: dict[int, set[Name]] = {}
        self._descendants: Counter[int] = Counter()
        """How many tasks each origin has, itself left out."""

    @classmethod
    def load(cls, dump: bytes | None) -> Self:
        """The state of a dump, or the empty state. Raises ValueError if another version of the program made it."""
        state = cls()
        if dump is None:
            return state
        with without_collection():
            found = msgspec.msgpack.decode(dump, type=_Dump)
        if found.format != FORMAT:
            raise ValueError(f"The state has format {found.format}; this program knows {FORMAT} only: use its version.")
        state.position, state.next_id = found.position, found.next_id
        for name, highest, answers in found.sessions:
            state.sessions[name] = Session(highest, {seq: (digest, answer) for seq, digest, answer in answers})
        state.edges = set(found.edges)
        with without_collection():
            for task in found.tasks:
                _share(task)
                state._add(task)
        for group, name, origins in found.closed:
            state._close((group, name), set(origins))
        return state

    def dump(self) -> bytes:
        """The state; equal states give equal bytes."""
        sessions = [
            (name, each.highest, [(seq, *each.answers[seq]) for seq in sorted(each.answers)])
            for name, each in sorted(self.sessions.items())
        ]
        tasks = [self.tasks[each] for each in sorted(self.tasks)]
        closed = sorted((*bundle, sorted(origins)) for bundle, origins in self.closed.items())
        return _encoder.encode(_Dump(FORMAT, self.position, self.next_id, sessions, sorted(self.edges), closed, tasks))

    def digest(self) -> str:
        """A digest of the state; replay gives the same one, wherever snapshots were made."""
        return hashlib.blake2b(self.dump(), digest_size=16).hexdigest()

    def replay(self, mutation: bytes) -> None:
        """Apply a mutation as the journal has it."""
        decoded = decode_mutation(mutation)
        for task in decoded.new:
            _share(task)
        self.apply(decoded)

    def apply(self, mutation: Mutation) -> list[Task]:
        """Apply the next mutation, and return the tasks that are gone."""
        gone = [self._remove(each) for each in mutation.gone]
        for task in mutation.new:
            self._add(task)
        if mutation.new:
            self.next_id = max(self.next_id, mutation.new[-1].id + 1)
        if consumed := [each for each in gone if not self._is_there(each.unit)]:
            self._consume(consumed, mutation.new)
        if mutation.session:
            self._note(mutation)
        self.position += 1
        return gone

    def version_of(self, unit: int) -> Task | None:
        """The present version of a unit."""
        found = self.tasks.get(self.units.get(unit, unit))
        return found if found is not None and found.unit == unit else None

    def members(self, task: Task) -> Iterator[Task]:
        """The tasks of its bundle that are there; itself without one."""
        if task.bundle is None:
            yield task
        else:
            for each in sorted(self.bundles[task.group, task.bundle.name].ids):
                yield self.tasks[each]

    def is_whole(self, task: Task) -> bool:
        """Whether all tasks of its bundle are there and wait, or the task itself waits."""
        if task.bundle is None:
            return task.status == "waiting"
        return self.bundles[task.group, task.bundle.name].waiting == task.bundle.size

    def count(self, group: str, status: Status) -> int:
        """How many tasks of a group wait, are leased, or have failed too often."""
        found = self.counts.get(group)
        return found[status] if found else 0

    def _add(self, task: Task) -> None:
        self.tasks[task.id] = task
        if task.id != task.unit:
            self.units[task.unit] = task.id
        if task.group in OWN_GROUPS:
            self._own(task)[task.key] = task
            return
        self._count(task, 1)
        if task.key and not task.dead:
            self._keys(task)[task.group, task.key] = task.id
        if task.bundle is not None:
            members = self.bundles.setdefault((task.group, task.bundle.name), Members())
            members.ids.add(task.id)
            self._count_waiting(task, members, task.bundle.size, 1)

    def _remove(self, task_id: int) -> Task:
        task = self.tasks.pop(task_id)
        if task.id != task.unit:
            del self.units[task.unit]
        if task.group in OWN_GROUPS:
            del self._own(task)[task.key]
            return task
        self._count(task, -1)
        if task.key and not task.dead:
            del self._keys(task)[task.group, task.key]
        if task.bundle is not None:
            members = self.bundles[task.group, task.bundle.name]
            members.ids.remove(task_id)
            self._count_waiting(task, members, task.bundle.size, -1)
        return task

    def _is_there(self, unit: int) -> bool:
        return unit in self.tasks or unit in self.units

    def _own(self, task: Task) -> dict[str, Task]:
        return self.configurations if task.group == CONFIGURATION else self.controls

    def _keys(self, task: Task) -> dict[Name, int]:
        return self.leased_keys if task.holder else self.waiting_keys

    def _count(self, task: Task, step: int) -> None:
        counts, status = self.counts.get(task.group), task.status
        if counts is None:
            counts = self.counts[task.group] = Counter()
        counts[status] += step
        if not counts[status]:
            del counts[status]
            if not counts:
                del self.counts[task.group]
        if status == "dead":
            if step > 0:
                self.dead[task.id] = None
            else:
                del self.dead[task.id]
        if task.origin != task.unit:
            self._descendants[task.origin] += step
            if not self._descendants[task.origin]:
                del self._descendants[task.origin]
        if task.holder:
            self.sessions[task.holder].leases += step

    def _count_waiting(self, task: Task, members: Members, size: int, step: int) -> None:
        if task.status != "waiting":
            return
        before, after = members.waiting, members.waiting + step
        self.gathering[task.group] += (after if after < size else 0) - (before if before < size else 0)
        members.waiting = after

    def _consume(self, consumed: list[Task], new: tuple[Task, ...]) -> None:
        """Learn from units that have ended, and what was made of them: who feeds which group, which bundles are closed.

        A unit also ends if a person drops it, or another task with its key does its work.
        """
        sources = {each.group for each in consumed if each.holder}
        targets = {each.group for each in new if each.unit == each.id}
        self.edges.update(itertools.product(sources - OWN_GROUPS, targets - OWN_GROUPS))
        for task in consumed:
            if task.bundle is not None:
                bundle = task.group, task.bundle.name
                self._close(bundle, {task.origin})
                if bundle in self.bundles and not self.bundles[bundle].ids:
                    del self.bundles[bundle]
        for origin in {each.origin for each in consumed}:
            if origin not in self._descendants and not self._is_there(origin):
                for bundle in self._closed_of.pop(origin, ()):
                    self.closed[bundle].remove(origin)
                    if not self.closed[bundle]:
                        del self.closed[bundle]

    def _close(self, bundle: Name, origins: set[int]) -> None:
        self.closed.setdefault(bundle, set()).update(origins)
        for origin in origins:
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


load = State.load
"""How other processes read a dump (`snapshots`)."""
