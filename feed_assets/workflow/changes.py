"""A mutation while it is made: tasks that come and go, by the rules of keys and bundles.

Here: what becomes of a task that somebody inserts, or that comes back to its queue. Not here: who may ask for it
(`machine`).
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec

from feed_assets.workflow.calls import Refused
from feed_assets.workflow.queues import Queues
from feed_assets.workflow.state import Name, State
from feed_assets.workflow.tasks import (
    MOST_REASON,
    MOST_TASKS,
    Bundle,
    Fault,
    NewTask,
    PayloadError,
    Task,
    encoded_payload,
    fault_of,
)

_MOST_REASONS: Final = 20


@dataclass(slots=True)
class Change:
    """A mutation while it is made. `now` is the clock of the queues, `wall` the time in seconds since 1970."""

    state: State
    queues: Queues
    now: float
    wall: float
    gone: list[int] = field(default_factory=list)
    new: dict[int, Task] = field(default_factory=dict)
    next_id: int = 0
    _waiting_keys: dict[Name, int] = field(default_factory=dict)
    _bundles: dict[Name, list[Task]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.next_id = self.state.next_id

    def add(self, task: Task) -> int:
        """A task under the next id, which is its unit if it has none."""
        task_id, self.next_id = self.next_id, self.next_id + 1
        unit = task.unit or task_id
        self.new[task_id] = made = msgspec.structs.replace(task, id=task_id, unit=unit, origin=task.origin or unit)
        if made.key and made.status == "waiting":
            self._waiting_keys[made.group, made.key] = task_id
        return task_id

    def replace(self, task: Task, **changes: Any) -> int:
        """A new version of a task. A task of this mutation changes in place: nobody has seen it."""
        if task.id in self.new:
            self.new[task.id] = msgspec.structs.replace(task, **changes)
            return task.id
        self.gone.append(task.id)
        return self.add(msgspec.structs.replace(task, **changes))

    def put(self, present: Task | None, group: str, key: str, payload: bytes) -> int:
        """A task of the workflow itself."""
        if present is not None:
            return self.replace(present, payload=payload, since=self.wall)
        return self.add(Task(0, 0, 0, group, group, payload, self.wall, key))

    def make(
        self, wanted: Sequence[NewTask], origin: int = 0, consumed: Iterable[Task] = ()
    ) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Make tasks; returns their ids, and those among them that were there already.

        `origin` is 0 if each of them is its own. `consumed` are the tasks that end for them. Raises Refused.
        """
        if len(wanted) > MOST_TASKS:
            raise Refused("TooLarge", f"{len(wanted):,} tasks in a call, at most {MOST_TASKS:,}.")
        leaving = {(each.group, each.key) for each in consumed if each.key}
        ids, there = [], []
        for number, each in enumerate(wanted, 1):
            task = self._task(each, origin, f"Task {number} of {len(wanted)}")
            if task.bundle is not None:
                self._join(task, task.bundle)
            same = self._same_key(task, leaving) if task.key else None
            if same is None:
                ids.append(self.add(task))
            else:
                ids.append(self._absorb(same, task))
                there.append(ids[-1])
        return tuple(ids), tuple(there)

    def give_back(self, task: Task, after: float, **changes: Any) -> int:
        """Let a task wait again, and start `after` seconds. If another one with its key waits, that does its work."""
        changes = {
            "holder": "", "seconds": 0.0, "progress": 0.0, "delay": after, "since": self.wall + after, **changes
        }  # fmt: skip
        back = msgspec.structs.replace(task, **changes)
        other = self._waiting(task) if task.key and not back.dead else None
        if other is not None and other.id != task.id:
            self.gone.append(task.id)
            return self._absorb(other, back)
        return self.replace(task, **changes)

    def fail(self, task: Task, reason: str, after: float, *, attempts: int, checkpoint: str) -> None:
        """Count a failed attempt, and let the task wait; if it had `attempts`, it is dead."""
        reasons = (*task.reasons, reason[:MOST_REASON] or "no reason was given")[-min(attempts, _MOST_REASONS) :]
        dead = task.attempt + 1 >= attempts
        self.give_back(
            task, 0.0 if dead else after, attempt=task.attempt + 1, dead=dead, reasons=reasons, checkpoint=checkpoint
        )

    def _task(self, wanted: NewTask, origin: int, where: str) -> Task:
        fault: Fault | None
        try:
            payload = encoded_payload(wanted.payload)
            fault = fault_of(wanted, payload)
        except PayloadError as error:
            payload, fault = b"", Fault("Invalid", str(error))
        if fault is None and wanted.type not in self.state.configurations:
            fault = Fault("Invalid", f"no stage is called {wanted.type}: {listed(self.state.configurations)}")
        if fault is not None:
            raise Refused(fault.code, f"{where}: {fault.message}.")
        delay, bundle = float(wanted.delay), wanted.bundle
        return Task(
            0, 0, origin, sys.intern(wanted.group or wanted.type), sys.intern(wanted.type), payload, self.wall + delay,
            wanted.key, Bundle(bundle.name, bundle.size) if bundle else None, wanted.files, wanted.priority, delay,
        )  # fmt: skip

    def _join(self, task: Task, bundle: Bundle) -> None:
        """Raise Refused if a bundle does not take a task."""
        name = task.group, bundle.name
        there = self.state.bundles.get(name)
        new = self._bundles.setdefault(name, [])
        first = new[0] if new else self.state.tasks[next(iter(there.ids))] if there else None
        if first is not None and first.bundle != bundle:
            size = first.bundle.size if first.bundle else 0
            raise Refused("Conflict", f"The bundle {bundle.name} has {size:,} tasks, not {bundle.size:,}.")
        if first is not None and first.type != task.type:
            raise Refused("Conflict", f"The bundle {bundle.name} has tasks of {first.type}, not of {task.type}.")
        if name in self.state.closed or len(new) + (len(there.ids) if there else 0) >= bundle.size:
            raise Refused("Conflict", f"The bundle {bundle.name} of {task.group} has all of its tasks already.")
        new.append(task)

    def _waiting(self, task: Task) -> Task | None:
        """The waiting task with the key of a task."""
        key = task.group, task.key
        if (made := self._waiting_keys.get(key)) is not None:
            return self.new[made]
        waiting = self.state.waiting_keys.get(key)
        return None if waiting is None else self.state.tasks[waiting]

    def _same_key(self, task: Task, leaving: set[Name]) -> Task | None:
        """The waiting task with the key of a new one. Raises Refused if its payload, or a leased one's, is another."""
        key = task.group, task.key
        waiting = self._waiting(task)
        leased = None if key in leaving else self.state.tasks.get(self.state.leased_keys.get(key, 0))
        for each in (waiting, leased):
            if each is not None and (each.payload, each.type) != (task.payload, task.type):
                raise Refused(
                    "Conflict",
                    f"The key {task.key} of {task.group} is that of unit {each.unit}, which has another payload.",
                    ids=(each.id,),
                )
        return waiting

    def _absorb(self, kept: Task, other: Task) -> int:
        """Let a waiting task do the work of another one with its key, too. Returns its id."""
        left = kept.delay if kept.id in self.new else self.queues.delay_left(kept, self.now)
        tried = max(kept, other, key=lambda each: each.attempt)
        priority, since = max(kept.priority, other.priority), min(kept.since, other.since)
        if (priority, since, tried.attempt) == (kept.priority, kept.since, kept.attempt) and left <= other.delay:
            return kept.id
        return self.replace(
            kept,
            priority=priority,
            since=since,
            delay=min(left, other.delay),
            attempt=tried.attempt,
            reasons=tried.reasons,
        )


def listed(names: Iterable[str]) -> str:
    """Which names there are, for a message about one that is not."""
    if there := ", ".join(sorted(names)):
        return f"there are {there}"
    return "there is none yet; `feed-assets workflow apply` makes them"
