"""Which tasks may be leased now, in order, and which leases are over: what a failover forgets.

Here: delays and leases counted on the master's own clock, queues of waiting tasks, and the budget of retries. A new
master counts all of them anew. Not here: what is remembered (`state`), and what a call does with it (`calls`).
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from feed_assets.workflow.state import State
from feed_assets.workflow.tasks import OWN_GROUPS, Task

RETRIES: Final = 0.1
"""The share of a type's leases that may be retries."""
RETRIES_AT_LEAST: Final = 10
"""How many retries a type may have in any case in BUDGET_SECONDS: a quiet type has few leases to take a share of."""
BUDGET_SECONDS: Final = 600.0


class Ready(NamedTuple):
    """A place in a queue: the order of a task that could start when it was put there."""

    since: float
    id: int


@dataclass(slots=True)
class RetryBudget:
    """The leases of a type in the last BUDGET_SECONDS, and how many of them were retries."""

    _leases: deque[tuple[float, bool]] = field(default_factory=deque)
    _retries: int = 0

    def note(self, now: float, *, is_retry: bool) -> None:
        """Count a lease."""
        self._leases.append((now, is_retry))
        self._retries += is_retry

    def left(self, now: float) -> int:
        """How many retries may be leased now."""
        while self._leases and self._leases[0][0] <= now - BUDGET_SECONDS:
            self._retries -= self._leases.popleft()[1]
        return max(RETRIES_AT_LEAST, int(len(self._leases) * RETRIES)) - self._retries


class Queues:
    """The waiting tasks of a state that may start, by type and group; and the ends of leases.

    `now` is monotonic, in seconds, on a clock that stands still while the master does. Call `follow` after each
    mutation.
    """

    def __init__(self, state: State, now: float) -> None:
        self._state = state
        self._ready: dict[str, dict[tuple[str, bool], list[Ready]]] = {}
        """The queues of each type: one for each group, and one for its retries."""
        self._delayed: list[tuple[float, int]] = []
        self._ends: list[tuple[float, int]] = []
        self._budgets: dict[str, RetryBudget] = {}
        self._starts: dict[int, float] = {}
        """When each task with a delay may start."""
        for task in state.tasks.values():
            self._see(task, now)

    def follow(self, gone: Iterable[Task], new: Iterable[Task], now: float) -> None:
        """See what a mutation has changed."""
        for task in gone:
            self._starts.pop(task.id, None)
            if task.key and (waiting := self._state.waiting_keys.get((task.group, task.key))):
                self._put(self._state.tasks[waiting])
        for task in new:
            self._see(task, now)

    def over(self, now: float) -> list[Task]:
        """The tasks whose leases have ended."""
        return [task for task in self._due(self._ends, now) if task.holder]

    def next_change(self) -> float | None:
        """When a lease or a delay ends next; None without any."""
        return min((heap[0][0] for heap in (self._ends, self._delayed) if heap), default=None)

    def wake(self, now: float) -> set[str]:
        """Let tasks start whose delay is over; returns their types."""
        types = set()
        for task in self._due(self._delayed, now):
            self._starts.pop(task.id, None)
            self._put(task)
            types.add(task.type)
        return types

    def take(self, kind: str, most: int, now: float, *, is_open: Callable[[str], bool]) -> list[Task]:
        """Take the next tasks of a type out of their queues, at most so many, and whole bundles. Lease them.

        `is_open` says of a group whether its tasks may be leased. A bundle counts as one retry, and is given also if it
        alone has more than `most` tasks.
        """
        budget = self._budget(kind)
        retries = budget.left(now)
        found: dict[int, Task] = {}
        while len(found) < most:
            queues = self._open(kind, retries, is_open)
            if not queues:
                break
            queue = min(queues, key=lambda each: each[0])
            place = heapq.heappop(queue)
            tasks = self._startable(place)
            if tasks is None or tasks[0].id in found:
                continue
            if found and len(found) + len(tasks) > most:
                heapq.heappush(queue, place)
                break
            is_retry = any(each.attempt for each in tasks)
            retries -= is_retry
            budget.note(now, is_retry=is_retry)
            found.update((each.id, each) for each in tasks)
        return list(found.values())

    def has_ready(self, kind: str, now: float, *, is_open: Callable[[str], bool]) -> bool:
        """Whether `take` may find a task of a type."""
        return bool(self._open(kind, self._budget(kind).left(now), is_open))

    def oldest(self) -> dict[str, float]:
        """For each group, since when (seconds since 1970) its oldest task could have started."""
        found: dict[str, float] = {}
        for task in self._state.tasks.values():
            if task.status == "waiting" and task.group not in OWN_GROUPS:
                found[task.group] = min(found.get(task.group, task.since), task.since)
        return found

    def _open(self, kind: str, retries: int, is_open: Callable[[str], bool]) -> list[list[Ready]]:
        """The queues of a type with tasks that may be leased, when so many of them may be retries."""
        return [
            queue
            for (group, is_retry), queue in self._ready.get(kind, {}).items()
            if queue and (retries > 0 or not is_retry) and is_open(group)
        ]

    def _see(self, task: Task, now: float) -> None:
        if task.group in OWN_GROUPS or task.dead:
            return
        if task.holder:
            heapq.heappush(self._ends, (now + task.seconds, task.id))
        elif task.delay:
            self._starts[task.id] = now + task.delay
            heapq.heappush(self._delayed, (now + task.delay, task.id))
        else:
            self._put(task)

    def _due(self, heap: list[tuple[float, int]], now: float) -> Iterator[Task]:
        while heap and heap[0][0] <= now:
            _, task_id = heapq.heappop(heap)
            if (task := self._state.tasks.get(task_id)) is not None:
                yield task

    def _put(self, task: Task) -> None:
        tasks = self._startable(Ready(*task.order))
        if tasks is not None:
            key = task.group, any(each.attempt for each in tasks)
            heapq.heappush(self._ready.setdefault(task.type, {}).setdefault(key, []), Ready(*task.order))

    def _startable(self, place: Ready) -> list[Task] | None:
        """The task of a place, with its bundle; None if it may not start, or not any more."""
        task = self._state.tasks.get(place.id)
        if task is None or not self._state.is_whole(task):
            return None
        if task.key and (task.group, task.key) in self._state.leased_keys:
            return None
        tasks = list(self._state.members(task))
        return None if any(each.id in self._starts for each in tasks) else tasks

    def _budget(self, kind: str) -> RetryBudget:
        return self._budgets.setdefault(kind, RetryBudget())
