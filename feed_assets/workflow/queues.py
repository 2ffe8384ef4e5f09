"""Which tasks may be leased now, in order, and which leases are over: what a failover forgets.

Here: delays and leases counted on the master's own clock, queues of waiting tasks, and the budget of retries. A new
master counts all of them anew. Not here: what is remembered (`state`), and what a call does with it (`machine`).
"""

from __future__ import annotations

import heapq
from collections import Counter, deque
from collections.abc import Callable, Container, Iterable
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from feed_assets.workflow.state import Name, State, without_collection
from feed_assets.workflow.tasks import OWN_GROUPS, Task

FIRST_TRIES_A_RETRY: Final = 10
"""A type has one retry for so many first tries: then its leases are at most 1.1 times its units."""
RETRIES_AT_LEAST: Final = 10
"""How many retries a type may have in any case in BUDGET_SECONDS: a quiet type has few leases to take a share of."""
BUDGET_SECONDS: Final = 600


@dataclass(slots=True)
class RetryBudget:
    """How many leases of a type were first tries and how many retries, in the last BUDGET_SECONDS."""

    _seconds: deque[list[int]] = field(default_factory=deque)
    """For each second with leases: the second, the first tries, the retries."""
    _first_tries: int = 0
    _retries: int = 0

    def note(self, now: float, *, is_retry: bool) -> None:
        """Count a lease."""
        if not self._seconds or self._seconds[-1][0] != int(now):
            self._seconds.append([int(now), 0, 0])
        self._seconds[-1][1 + is_retry] += 1
        self._first_tries += not is_retry
        self._retries += is_retry

    def left(self, now: float) -> int:
        """How many retries may be leased now."""
        while self._seconds and self._seconds[0][0] <= now - BUDGET_SECONDS:
            _, first_tries, retries = self._seconds.popleft()
            self._first_tries -= first_tries
            self._retries -= retries
        return max(RETRIES_AT_LEAST, self._first_tries // FIRST_TRIES_A_RETRY) - self._retries


class Deadlines:
    """When something is due for each of some tasks."""

    def __init__(self) -> None:
        self._at: dict[int, float] = {}
        self._heap: list[tuple[float, int]] = []
        """Has the deadlines of `_at`, and some that were taken back."""

    def __contains__(self, task_id: int) -> bool:
        return task_id in self._at

    def set(self, task_id: int, at: float) -> None:
        """Set the deadline of a task that has none."""
        self._at[task_id] = at
        heapq.heappush(self._heap, (at, task_id))

    def take_back(self, task_id: int) -> bool:
        """Forget the deadline of a task, and say whether it had one."""
        if self._at.pop(task_id, None) is None:
            return False
        if len(self._heap) > 2 * len(self._at) + 1_000:  # else leases of an hour would stay for an hour
            self._heap = [(at, each) for each, at in self._at.items()]
            heapq.heapify(self._heap)
        return True

    def left(self, task_id: int, now: float) -> float:
        """The seconds until a task is due; 0 if it has no deadline."""
        return max(self._at.get(task_id, now) - now, 0.0)

    def due(self, now: float) -> list[int]:
        """The tasks that are due, soonest first. They have no deadline any more."""
        found = []
        while self._heap and self._heap[0][0] <= now:
            at, task_id = heapq.heappop(self._heap)
            if self._at.get(task_id) == at:
                del self._at[task_id]
                found.append(task_id)
        return found


Place = tuple[float, int]
"""The order of a task in its queue, and its id; for a bundle, those of the member that is last in order."""


class Line(NamedTuple):
    """Tasks of a type that wait in one queue."""

    group: str
    is_retry: bool
    priority: int


class Queues:
    """The waiting tasks of a state that may start, by type; and the ends of leases.

    `now` is monotonic, in seconds, on a clock that stands still while the master does. Call `follow` after each
    mutation.
    """

    def __init__(self, state: State, now: float) -> None:
        self._state = state
        self._lines: dict[str, dict[Line, list[Place]]] = {}
        """The queues of each type. A place stays until it comes to the head, also if its task is gone."""
        self._starts = Deadlines()
        """Of the tasks with a delay."""
        self._delayed: Counter[Name] = Counter()
        """How many members of each bundle have a delay."""
        self._whole: dict[Name, int] = {}
        """The member of each queued bundle that has its place."""
        self._ends = Deadlines()
        """Of the leases."""
        self._budgets: dict[str, RetryBudget] = {}
        with without_collection():
            self.follow((), state.tasks.values(), now)

    def follow(self, gone: Iterable[Task], new: Iterable[Task], now: float) -> None:
        """See what a mutation has changed."""
        startable = []
        for task in gone:
            if task.holder:
                self._ends.take_back(task.id)
                if task.key and (waiting := self._state.waiting_keys.get((task.group, task.key))):
                    startable.append(self._state.tasks[waiting])
                continue
            if self._starts.take_back(task.id):
                self._count_delayed(task, -1)
            if task.bundle is not None:
                self._whole.pop((task.group, task.bundle.name), None)
        for task in new:
            if task.dead or task.group in OWN_GROUPS:
                continue
            if task.holder:
                self._ends.set(task.id, now + task.seconds)
                continue
            if task.delay:
                self._starts.set(task.id, now + task.delay)
                self._count_delayed(task, 1)
            startable.append(task)
        self._put(startable)

    def over(self, now: float) -> list[Task]:
        """The tasks whose leases have ended, once."""
        return [self._state.tasks[each] for each in self._ends.due(now)]

    def wake(self, now: float) -> None:
        """Let tasks start whose delay is over."""
        if tasks := [self._state.tasks[each] for each in self._starts.due(now)]:
            for task in tasks:
                self._count_delayed(task, -1)
            self._put(tasks)

    def delay_left(self, task: Task, now: float) -> float:
        """The seconds until a waiting task may start."""
        return self._starts.left(task.id, now)

    def take(self, kind: str, most: int, now: float, *, is_open: Callable[[str], bool]) -> list[Task]:
        """Take the next tasks of a type out of their queues, at most so many, and whole bundles. Lease them.

        `is_open` says of a group whether its tasks may be leased. A bundle counts as one retry, and is given also if it
        alone has more than `most` tasks.
        """
        budget = self._budgets.setdefault(kind, RetryBudget())
        lines = {line: queue for line, queue in self._lines.get(kind, {}).items() if is_open(line.group)}
        found: dict[int, Task] = {}
        retries = budget.left(now)
        while len(found) < most:
            heads = [
                (queue[0], line)
                for line, queue in lines.items()
                if (retries > 0 or not line.is_retry) and self._has_head(queue, found)
            ]
            if not heads:
                break
            place, line = min(heads)
            tasks = list(self._state.members(self._state.tasks[place[1]]))
            if found and len(found) + len(tasks) > most:
                break
            heapq.heappop(lines[line])
            retries -= line.is_retry
            budget.note(now, is_retry=line.is_retry)
            found.update((each.id, each) for each in tasks)
        return list(found.values())

    def can_take(self, kind: str, now: float, *, is_open: Callable[[str], bool]) -> bool:
        """Whether `take` would find a task."""
        budget = self._budgets.get(kind)
        may_retry = budget is None or budget.left(now) > 0
        return any(
            (may_retry or not line.is_retry) and self._has_head(queue) and is_open(line.group)
            for line, queue in self._lines.get(kind, {}).items()
        )

    def spent(self, now: float) -> set[str]:
        """The groups of which only retries are there to lease, and of these no more for now."""
        found: dict[str, bool] = {}
        for kind, lines in self._lines.items():
            budget = self._budgets.get(kind)
            is_spent = budget is not None and budget.left(now) <= 0
            for line, queue in lines.items():
                if self._has_head(queue):
                    found[line.group] = found.get(line.group, True) and line.is_retry and is_spent
        return {group for group, is_spent in found.items() if is_spent}

    def groups(self, kind: str) -> set[str]:
        """The groups that have tasks of a type which could be leased."""
        return {line.group for line, queue in self._lines.get(kind, {}).items() if self._has_head(queue)}

    def oldest(self) -> dict[str, float]:
        """For each group, since when (seconds since 1970) its oldest task could have started."""
        found: dict[str, float] = {}
        for lines in self._lines.values():
            for line, queue in lines.items():
                if self._has_head(queue):
                    since = self._state.tasks[queue[0][1]].since
                    found[line.group] = min(found.get(line.group, since), since)
        return found

    def _put(self, tasks: Iterable[Task]) -> None:
        """Queue those of the tasks that may start."""
        for task in tasks:
            if task.bundle is None:
                if self._may_start(task):
                    self._queue(task, is_retry=task.attempt > 0)
                continue
            bundle = task.group, task.bundle.name
            if bundle not in self._whole and self._state.is_whole(task) and not self._delayed[bundle]:
                members = list(self._state.members(task))
                last = max(members, key=lambda each: each.order)
                self._whole[bundle] = last.id
                self._queue(last, is_retry=any(each.attempt for each in members))

    def _count_delayed(self, task: Task, step: int) -> None:
        if task.bundle is not None:
            bundle = task.group, task.bundle.name
            self._delayed[bundle] += step
            if not self._delayed[bundle]:
                del self._delayed[bundle]

    def _queue(self, task: Task, *, is_retry: bool) -> None:
        lines = self._lines.setdefault(task.type, {})
        queue = lines.get((task.group, is_retry, task.priority))  # type: ignore[call-overload] # it equals a Line
        if queue is None:
            queue = lines[Line(task.group, is_retry, task.priority)] = []
        heapq.heappush(queue, task.order)

    def _has_head(self, queue: list[Place], taken: Container[int] = ()) -> bool:
        """Whether a queue has a task at its head that may start, once all others there are dropped."""
        while queue:
            task = self._state.tasks.get(queue[0][1])
            if task is not None and task.id not in taken and self._may_start(task):
                return True
            heapq.heappop(queue)
        return False

    def _may_start(self, task: Task) -> bool:
        """Whether a task may start; one of a bundle, if it has the place of its bundle."""
        if task.bundle is not None:
            return self._whole.get((task.group, task.bundle.name)) == task.id
        if task.holder or task.dead or task.id in self._starts:
            return False
        return not (task.key and (task.group, task.key) in self._state.leased_keys)
