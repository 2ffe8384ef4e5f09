"""How long the tasks that were committed last had waited and took, by type, as far as a master has seen them.

A failover forgets it, and nothing is decided by it. Not here: leases (`state`), and a longer history (`run_history`).
"""

from __future__ import annotations

import time
from collections import deque
from dataclasses import dataclass, field
from typing import Final, NamedTuple

import msgspec

from feed_assets.workflow.calls import AnyCall, Commit, Fail, Lease, Release, Renew, Reply
from feed_assets.workflow.state import State

KEPT: Final = 50
"""The commits of each type that are kept."""
_FORGOTTEN: Final = 1_000
"""Leases that ended unseen, such as those of dead workers, are forgotten when there are so many."""


class Committed(msgspec.Struct, frozen=True):
    """A commit of tasks of a type: its position, its first unit, and times in seconds since 1970.

    Tasks of a bundle are one: they were `wanted` when the last of them could start.
    """

    position: int
    type: str
    unit: int
    wanted: float
    started: float
    ended: float


class _Begun(NamedTuple):
    type: str
    unit: int
    wanted: float
    started: float


@dataclass(slots=True)
class TaskTimes:
    """What the calls of workers have said."""

    state: State
    _begun: dict[int, _Begun] = field(default_factory=dict)
    """The leased tasks, by their present ids."""
    _committed: dict[str, deque[Committed]] = field(default_factory=dict)

    def note(self, call: AnyCall, reply: Reply) -> None:
        """See the answer to a call."""
        if reply.answer.refused:
            return
        if isinstance(call, Lease):
            now = time.time()
            for each in reply.tasks:
                self._begun.setdefault(each.id, _Begun(each.type, each.unit, each.since, now))
            self._forget()
        elif isinstance(call, Renew):
            known = {each.unit: each for each in self._ended(call.ids)}
            for new in reply.answer.ids:
                task = self.state.tasks.get(new)
                if task is not None and task.unit in known:
                    self._begun[new] = known[task.unit]
        elif isinstance(call, Fail | Release):
            self._ended(call.ids)
        elif isinstance(call, Commit) and (ended := self._ended(call.consume)):
            unit, type_ = min((each.unit, each.type) for each in ended)
            wanted, started = max(each.wanted for each in ended), min(each.started for each in ended)
            of_type = self._committed.setdefault(type_, deque(maxlen=KEPT))
            of_type.append(Committed(reply.position, type_, unit, wanted, started, time.time()))

    def after(self, position: int) -> list[Committed]:
        """The commits that are kept, of those after a position, oldest first."""
        found = (each for of_type in self._committed.values() for each in of_type if each.position > position)
        return sorted(found, key=lambda each: each.position)

    def _ended(self, ids: tuple[int, ...]) -> list[_Begun]:
        """The tasks of these ids, which are leased no more under them."""
        return [self._begun.pop(each) for each in ids if each in self._begun]

    def _forget(self) -> None:
        if len(self._begun) <= _FORGOTTEN:
            return
        if len(self._begun) > 2 * sum(each["leased"] for each in self.state.counts.values()) + _FORGOTTEN:
            self._begun = {id_: each for id_, each in self._begun.items() if id_ in self.state.tasks}
