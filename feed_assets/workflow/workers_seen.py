"""Which workers a master has heard of since it began, for people: their programs, and since when they have a task.

A failover forgets it, and nothing is decided by it. Not here: leases (`state`).
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field

import msgspec

from feed_assets.workflow.calls import AnyCall, Hello, Lease, Reply, TaskView
from feed_assets.workflow.state import State


@dataclass(slots=True)
class WorkersSeen:
    """What the calls of workers have said."""

    state: State
    _builds: dict[str, str] = field(default_factory=dict)
    _leased: dict[int, tuple[str, float]] = field(default_factory=dict)
    """The holder of each unit, and since when (seconds since 1970)."""

    def note(self, call: AnyCall, reply: Reply) -> None:
        """See the answer to a call."""
        if isinstance(call, Hello) and reply.answer.session:
            self._builds[reply.answer.session] = call.build
        elif isinstance(call, Lease):
            now = time.time()
            for each in reply.tasks:
                if self._leased.get(each.unit, ("", 0.0))[0] != each.holder:
                    self._leased[each.unit] = each.holder, now
        self._forget()

    def described(self, task: TaskView) -> TaskView:
        """The task, with its worker's program, and since when the worker has it; as far as they are known."""
        if not task.holder:
            return task
        holder, since = self._leased.get(task.unit, ("", 0.0))
        began = since if holder == task.holder else 0.0
        return msgspec.structs.replace(task, worker=self._builds.get(task.holder, ""), began=began)

    def _forget(self) -> None:
        state = self.state
        if len(self._builds) > 2 * len(state.sessions) + 100:
            self._builds = {name: build for name, build in self._builds.items() if name in state.sessions}
        if len(self._leased) > 2 * sum(each["leased"] for each in state.counts.values()) + 1_000:
            present = {unit: state.version_of(unit) for unit in self._leased}
            self._leased = {unit: self._leased[unit] for unit, task in present.items() if task and task.holder}
