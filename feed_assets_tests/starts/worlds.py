"""Every order in which daemons, runs, people, crashes and lost databases can act on the starts of slots.

Here: a search, breadth first, over the real code of attempts, on a real database, and of publishing, on a blackboard
in memory. A transition is one transaction, one request to storage, or one question to Dagster: the code is run again
from its start with the answers that it had so far, and stopped at its next access. Dagster is what a start needs of
it: runs by their keys, a queue, a pool. Not here: what must hold (the tests).

Time has no length here. A lease ends, or a request grows old, as a transition of its own; pauses are over at once.
"""

from __future__ import annotations

import sqlite3
from collections import deque
from collections.abc import Callable, Collection, Hashable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, TypeVar, cast

from feed_assets.blackboard.memory import MemoryBlackboard
from feed_assets.blackboard.port import Blackboard
from feed_assets.file_feed.feed import Feed
from feed_assets.file_feed.reading import is_valid, list_updates
from feed_assets.starts.attempt import LEASE, Attempt
from feed_assets.starts.attempts import Attempts, KnownRun
from feed_assets.state.address import sqlite_url
from feed_assets.state.event_log import stored_time
from feed_assets.state.store import Store, Transaction
from feed_assets_tests.blackboard.interleavings import Numbers
from feed_assets_tests.blackboard.replay import Failed, Request, Stored, perform

NOW = datetime(2019, 11, 28, 16, tzinfo=UTC)
LONG_AGO = NOW - timedelta(days=1)
LIVES, ENDED = stored_time(NOW + LEASE), stored_time(LONG_AGO)
BASE, LOCATION = "memory:///", "clean-ads/v1.0"

_Value = TypeVar("_Value", bound=Hashable)
Rows = tuple[tuple[str, tuple[tuple[Any, ...], ...]], ...]
"""The content of the database: each table with its rows."""
TABLES = ("feed_assets_store", "feed_assets_attempts", "feed_assets_leases")


class Budget(NamedTuple):
    """How often each misfortune may still happen."""

    deletions: int = 0
    """A person deletes a run, queued or started, from Dagster."""
    daemon_deaths: int = 0
    run_deaths: int = 0
    standstills: int = 0
    """A process stands still until its lease has ended, and may go on."""
    slow_daemons: int = 0
    """A request counts as lost before its daemon has asked Dagster for the run."""
    losses: int = 0
    """The database is lost, and a new one made."""
    failures: int = 0
    """A run fails, and says so."""


class Run(NamedTuple):
    """A run in Dagster: its key, `queued`, `started` or `ended`, and whether it was deleted."""

    key: str
    status: str
    deleted: bool = False


class Progress(NamedTuple):
    """How far a daemon or the process of a run has come: its program, the phase of that, and two numbers.

    `carried` is that of what the phase before returned, `answers` that of the answers in this phase.
    """

    program: int = 0
    phase: int = 0
    carried: int = 0
    answers: int = 0
    end: str | None = None


IDLE = Progress()


class World(NamedTuple):
    """A state. `database` and `board` are numbers of their contents."""

    database: int
    board: int
    runs: tuple[Run, ...]
    daemons: tuple[Progress, ...]
    processes: tuple[Progress, ...]
    budget: Budget


Look = Callable[[Attempts, Callable[[Attempt], KnownRun]], Hashable]


class Access:
    """What a program may use: each use is one transition."""

    def __init__(self, search: Search, actor: str, answers: tuple[Any, ...]) -> None:
        self._search, self._answers, self.actor = search, iter(answers), actor
        self.left = len(answers)
        self.rows_after: Rows | None = None
        self.board = cast("Blackboard", _ReplayedBoard(self))
        store = cast("Store", _ReplayedStore(self, search))
        self.attempts = Attempts(store, BASE, lambda: NOW, lambda: NOW)

    def look(self, look: Look) -> Any:
        """A look at attempts and at Dagster, as one transition: what it finds is judged again in a transaction."""
        return self.ask(("look", look))

    def launch(self, key: str) -> bool:
        """Ask Dagster for a run with this key; False if it knows the key."""
        return bool(self.ask(("launch", key)))

    def atomic(self, name: str, act: Callable[[Blackboard], Hashable]) -> Any:
        """Several requests to storage whose order does not matter here, as one transition."""
        return self.ask(("atomic", name, act))

    def may_fail(self) -> bool:
        """Whether this run fails here."""
        return bool(self.ask(("fail",)))

    def ask(self, request: tuple[Any, ...]) -> Any:
        """The recorded answer, or a stop."""
        for answer in self._answers:
            self.left -= 1
            if isinstance(answer, Failed):
                raise answer.kind(answer.message)
            return answer
        raise _StoppedError(request)


class _StoppedError(BaseException):
    def __init__(self, request: tuple[Any, ...]) -> None:
        super().__init__(request[0])
        self.request = request


class _ReplayedBoard:
    def __init__(self, access: Access) -> None:
        self._access, self._tags = access, MemoryBlackboard()

    def __getattr__(self, operation: str) -> Callable[..., Any]:
        def ask(*arguments: Any, **options: Any) -> Any:
            return self._access.ask(("board", Request(operation, arguments, tuple(sorted(options.items())))))

        return ask

    def delete(self, *keys: str) -> None:
        for key in keys:
            self._access.ask(("board", Request("delete", (key,))))

    def flush(self, *keys: str) -> None:
        pass

    def tag_of(self, data: bytes) -> str | None:
        return self._tags.tag_of(data)

    def uri(self, key: str) -> str:
        return self._tags.uri(key)


class _ReplayedStore:
    """A database whose content, at each transaction, is the one that it had when the transaction first ran."""

    def __init__(self, access: Access, search: Search) -> None:
        self._access, self._search = access, search

    def exists(self) -> bool:
        return True

    @contextmanager
    def writing(self, log: str) -> Iterator[Transaction]:
        self._search.restore(self._access.ask(("transaction",)))
        with self._search.store.writing(log) as transaction:
            yield transaction
        if not self._access.left:
            self._access.rows_after = self._search.rows()

    @contextmanager
    def reading(self) -> Iterator[Any]:
        self._search.restore(self._access.ask(("transaction",)))
        with self._search.store.reading() as connection:
            yield connection


@dataclass(frozen=True, slots=True)
class Over:
    """The end of a program before its last phase."""

    how: str


Phase = Callable[[Access, Any], Hashable]
"""A part of a program: it gets what the part before returned, and returns what the next one needs, or `Over`."""


class Next(NamedTuple):
    """What a phase does after its answers: its next request, or its result. And the database after the last answer."""

    request: tuple[Any, ...] | None
    result: Hashable
    rows_after: Rows | None


@dataclass(slots=True)
class Found:
    """The states, the steps between them, and the shortest way to a slot that was published twice."""

    states: dict[World, tuple[World, str] | None] = field(default_factory=dict)
    before: dict[World, list[World]] = field(default_factory=dict)
    twice: list[str] | None = None
    most_at_work: int = 0

    def way(self, world: World) -> list[str]:
        """The steps that lead to a state."""
        steps, at = [], self.states[world]
        while at is not None:
            world, step = at
            steps.append(step)
            at = self.states[world]
        return steps[::-1]


class Search:
    """All states that can be reached. A daemon has several programs, a run one, which begins with its key."""

    def __init__(
        self,
        folder: Path,
        *,
        daemon: tuple[tuple[Phase, ...], ...],
        run: tuple[Phase, ...],
        slots: tuple[str, ...],
        daemons: int = 2,
        runs: int = 6,
        pool: int | None = None,
    ) -> None:
        file = folder / "state.db"
        self.store = Store(sqlite_url(file))
        with self.store.writing():
            pass  # makes the tables
        self._raw = sqlite3.connect(file, isolation_level=None)
        self._raw.execute("PRAGMA synchronous = OFF")
        self._daemon, self._run = daemon, run
        self.slots, self._daemons, self._most_runs, self._pool = slots, daemons, runs, pool
        self._databases, self._boards = Numbers[Rows](), Numbers[Stored]()
        self._chains, self._carried = Numbers[Any](), Numbers[Any]()
        self._chains.of(None)
        self._carried.of(None)
        self._next: dict[tuple[str, Progress], Next] = {}
        self._valid_of: dict[int, tuple[int, ...]] = {}
        self._results: dict[Hashable, Any] = {}
        self.most_runs = 0
        self.actor = "nobody"

    # --- the database -------------------------------------------------------------------------------------------------

    def rows(self) -> Rows:
        """The content of the database, with all times that are over as long ago."""
        found = []
        for table in TABLES:
            cursor = self._raw.execute(f"SELECT * FROM {table}")
            names = [each[0] for each in cursor.description]
            rows = []
            for row in cursor.fetchall():
                values = dict(zip(names, row, strict=True))
                for name in ("requested", "started", "ended"):
                    if values.get(name) is not None:
                        values[name] = ENDED
                rows.append(tuple(values.values()))
            found.append((table, tuple(sorted(rows, key=str))))
        return tuple(found)

    def restore(self, number: int) -> None:
        """Give the database this content."""
        self._raw.execute("BEGIN IMMEDIATE")
        self._raw.execute("DELETE FROM feed_assets_log")
        for table, rows in self._databases[number]:
            self._raw.execute(f"DELETE FROM {table}")
            if rows:
                self._raw.executemany(f"INSERT INTO {table} VALUES ({', '.join('?' * len(rows[0]))})", rows)
        self._raw.execute("COMMIT")

    def _columns(self, database: int, table: str) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self._remembered((database, table), lambda: self._read(database, table))
        return found

    def _read(self, database: int, table: str) -> list[dict[str, Any]]:
        names = [each[1] for each in self._raw.execute(f"PRAGMA table_info({table})")]
        rows = dict(self._databases[database])[table]
        return [dict(zip(names, row, strict=True)) for row in rows]

    def _changed(self, database: int, table: str, which: Callable[[dict[str, Any]], bool], **values: Any) -> int:
        rows = [({**row, **values} if which(row) else row) for row in self._columns(database, table)]
        content = {**dict(self._databases[database]), table: tuple(tuple(row.values()) for row in rows)}
        return self._databases.of(tuple((name, content[name]) for name in TABLES))

    # --- programs -----------------------------------------------------------------------------------------------------

    def _after(self, actor: str, progress: Progress) -> Next:
        known = self._next.get((actor, progress))
        if known is None:
            answers, at = [], progress.answers
            while at:
                at, answer = self._chains[at]
                answers.append(answer)
            known = self._next[actor, progress] = self._played(actor, progress, tuple(reversed(answers)))
        return known

    def _played(self, actor: str, progress: Progress, answers: tuple[Any, ...]) -> Next:
        self.actor = actor
        access = Access(self, actor, answers)
        phase = self._phases(actor, progress)[progress.phase]
        try:
            result = phase(access, self._carried[progress.carried])
        except _StoppedError as stopped:
            return Next(stopped.request, None, access.rows_after)
        return Next(None, result, access.rows_after)

    def _phases(self, actor: str, progress: Progress) -> tuple[Phase, ...]:
        return self._daemon[progress.program] if actor.startswith("daemon") else self._run

    def _moved_on(self, actor: str, progress: Progress) -> Progress:
        """The progress after all phases that end without another request."""
        while (following := self._after(actor, progress)).request is None:
            if isinstance(following.result, Over):
                return Progress(end=following.result.how)
            if progress.phase + 1 == len(self._phases(actor, progress)):
                return Progress(end=str(following.result))
            progress = Progress(progress.program, progress.phase + 1, self._carried.of(following.result))
        return progress

    # --- transitions --------------------------------------------------------------------------------------------------

    def explore(self, budget: Budget) -> Found:
        """Search all states; stops at the first one in which a slot was published twice."""
        first = World(self._databases.of(self.rows()), self._boards.of(()), (), (IDLE,) * self._daemons, (), budget)
        found = Found({first: None})
        waiting = deque([first])
        while waiting:
            world = waiting.popleft()
            found.most_at_work = max(found.most_at_work, self._at_work(world))
            if self.published(world) > 1:
                found.twice = found.way(world)
                return found
            for after, step in self._steps(world):
                found.before.setdefault(after, []).append(world)
                if after not in found.states:
                    found.states[after] = world, step
                    waiting.append(after)
        return found

    def stuck(self, found: Found) -> World | None:
        """A state from which no state can be reached in which each slot is published; None if there is none."""
        reach = {world for world in found.states if self.all_published(world)}
        waiting = list(reach)
        while waiting:
            for before in found.before.get(waiting.pop(), ()):
                if before not in reach:
                    reach.add(before)
                    waiting.append(before)
        return next((world for world in found.states if world not in reach), None)

    def published(self, world: World) -> int:
        """The most updates of a slot that readers take for valid: no program here takes one out of force."""
        return max(self._valid(world.board), default=0)

    def all_published(self, world: World) -> bool:
        """Whether each slot is published."""
        return all(self._valid(world.board))

    def _valid(self, board: int) -> tuple[int, ...]:
        if board not in self._valid_of:
            feed = Feed(MemoryBlackboard(dict(self._boards[board])), LOCATION)
            updates = (list_updates(feed, slot) for slot in self.slots)
            self._valid_of[board] = tuple(sum(is_valid(feed, each) for each in found) for found in updates)
        return self._valid_of[board]

    def _at_work(self, world: World) -> int:
        """The most processes of a slot that are making or publishing an update."""
        keys = [run.key for run, process in zip(world.runs, world.processes, strict=True) if process.phase == 1]
        return max((sum(slot in key for key in keys) for slot in self.slots), default=0)

    def _steps(self, world: World) -> Iterator[tuple[World, str]]:
        yield from self._daemon_steps(world)
        yield from self._run_steps(world)
        yield from self._process_steps(world)
        yield from self._time_steps(world)
        if world.budget.losses:
            empty = self._databases.of(tuple((t, (("another store",),) if t == TABLES[0] else ()) for t in TABLES))
            yield world._replace(database=empty, budget=_spent(world.budget, "losses")), "the database is lost"

    def _daemon_steps(self, world: World) -> Iterator[tuple[World, str]]:
        for at, progress in enumerate(world.daemons):
            name = "daemon"  # one is like the other
            begun = [progress] if progress != IDLE else [Progress(each) for each in range(len(self._daemon))]
            for each in begun:
                for after, moved, step in self._moves(world, name, each):
                    now = moved if moved.end is None else IDLE
                    yield after._replace(daemons=tuple(sorted(_with(world.daemons, at, now)))), step
            if progress != IDLE and world.budget.daemon_deaths:
                daemons = tuple(sorted(_with(world.daemons, at, IDLE)))
                yield world._replace(daemons=daemons, budget=_spent(world.budget, "daemon_deaths")), f"{name} dies"

    def _run_steps(self, world: World) -> Iterator[tuple[World, str]]:
        places = sum(run.status == "started" and not run.deleted for run in world.runs)
        for at, run in enumerate(world.runs):
            process = world.processes[at]
            if run.status == "queued" and not run.deleted and (self._pool is None or places < self._pool):
                started = _with(world.runs, at, run._replace(status="started"))
                first = self._moved_on(f"run {at}", Progress(carried=self._carried.of(run.key)))
                begun = _with(world.processes, at, first)
                yield world._replace(runs=started, processes=begun), f"run {at} starts"
            if run.status == "started" and process.end is not None:
                ended = _with(world.runs, at, run._replace(status="ended"))
                yield world._replace(runs=ended), f"Dagster sees the end of run {at}"
            if not run.deleted and world.budget.deletions:
                gone = _with(world.runs, at, run._replace(deleted=True))
                budget = _spent(world.budget, "deletions")
                yield world._replace(runs=gone, budget=budget), f"a person deletes run {at} ({run.status})"

    def _process_steps(self, world: World) -> Iterator[tuple[World, str]]:
        for at, process in enumerate(world.processes):
            run = world.runs[at]
            if run.status != "started" or process.end is not None:
                continue
            name = f"run {at}"
            for after, moved, step in self._moves(world, name, process):
                yield self._seen(after._replace(processes=_with(after.processes, at, moved))), step
            if world.budget.run_deaths:
                dead = _with(world.processes, at, Progress(end="dead"))
                killed = world._replace(processes=dead, budget=_spent(world.budget, "run_deaths"))
                yield self._seen(killed), f"{name} is killed"

    def _seen(self, world: World) -> World:
        """With a pool, Dagster sees the end of a process later; without one, that decides nothing."""
        if self._pool is not None:
            return world
        runs = tuple(
            run._replace(status="ended") if run.status == "started" and process.end is not None else run
            for run, process in zip(world.runs, world.processes, strict=True)
        )
        return world._replace(runs=runs)

    def _time_steps(self, world: World) -> Iterator[tuple[World, str]]:
        at_work = {f"run {at}" for at, each in enumerate(world.processes) if each.end is None and each.phase}
        for lease in self._columns(world.database, "feed_assets_leases"):
            holder = lease["holder"]

            def mine(row: dict[str, Any], name: str = lease["name"]) -> bool:
                return bool(row["name"] == name)

            if lease["until"] == LIVES and (holder not in at_work or world.budget.standstills):
                ended = self._changed(world.database, "feed_assets_leases", mine, until=ENDED)
                budget = _spent(world.budget, "standstills") if holder in at_work else world.budget
                yield world._replace(database=ended, budget=budget), f"the lease of {holder} ends"
            elif lease["until"] == ENDED and holder in at_work:
                renewed = self._changed(world.database, "feed_assets_leases", mine, until=LIVES)
                yield world._replace(database=renewed), f"{holder} wakes up and renews its lease"

    def _moves(self, world: World, actor: str, progress: Progress) -> Iterator[tuple[World, Progress, str]]:
        """The next access of a program: the world after it, the program's progress, and the step."""
        request = self._after(actor, progress).request
        assert request is not None
        for after, answer, words in self._performed(world, actor, progress, request):
            make = partial(self._answered, actor, progress, answer, words)
            number, moved_on, step = self._remembered((actor, progress, answer), make)
            yield after if number is None else after._replace(database=number), moved_on, step

    def _answered(self, actor: str, progress: Progress, answer: Any, words: str) -> tuple[int | None, Progress, str]:
        """The database after an answer if it was that of a transaction, the program's progress, and the step."""
        answered = progress._replace(answers=self._chains.of((progress.answers, answer)))
        rows, moved_on = self._after(actor, answered).rows_after, self._moved_on(actor, answered)
        step = f"{actor}: {words}" + (f"; {moved_on.end}" if moved_on.end else "")
        return None if rows is None else self._databases.of(rows), moved_on, step

    def _remembered(self, key: Hashable, make: Callable[[], Any]) -> Any:
        if key not in self._results:
            self._results[key] = make()
        return self._results[key]

    def _asked(self, board: int, request: Request) -> tuple[int, Any]:
        stored, answer = perform(self._boards[board], request)
        return self._boards.of(stored), answer

    def _acted(self, number: int, actor: str, act: Callable[[Blackboard], Hashable]) -> tuple[int, Any]:
        self.actor = actor
        board = MemoryBlackboard(dict(self._boards[number]), clock=lambda: NOW)
        answer = act(board)
        return self._boards.of(tuple(board.objects().items())), answer

    def _looks(self, world: World, look: Look) -> Iterator[tuple[World, Any, str]]:
        runs = frozenset((run.key, run.status) for run in world.runs if not run.deleted)
        pending = frozenset(self._pending(world)) - {run.key for run in world.runs}
        found = self._remembered((world.database, runs, pending), lambda: self._looked(world, look, pending))
        yield world, found, "looks"
        if pending and world.budget.slow_daemons:
            found = self._remembered((world.database, runs, ()), lambda: self._looked(world, look, ()))
            yield world._replace(budget=_spent(world.budget, "slow_daemons")), found, "looks, long after a request"

    def _pending(self, world: World) -> Iterator[str]:
        """The keys for which a daemon is going to ask Dagster."""
        for progress in world.daemons:
            if self._daemon[progress.program][-1] is self._daemon[progress.program][progress.phase] and progress.phase:
                carried = self._carried[progress.carried]
                yield from (each for each in carried or () if isinstance(each, str))

    def _looked(self, world: World, look: Look, pending: Collection[str]) -> Hashable:
        """What a daemon finds; the requests of other daemons that are at work are young."""
        self.restore(world.database)

        def known_run(attempt: Attempt) -> KnownRun:
            if attempt.key in pending:
                return KnownRun.UNFINISHED  # it is too young to count as lost
            states = {run.status for run in world.runs if run.key == attempt.key and not run.deleted}
            return KnownRun.UNFINISHED if states - {"ended"} else KnownRun("failed" if states else "none")

        return look(Attempts(self.store, BASE, lambda: NOW, lambda: NOW), known_run)

    def _performed(
        self, world: World, actor: str, progress: Progress, request: tuple[Any, ...]
    ) -> Iterator[tuple[World, Any, str]]:
        match request:
            case ("transaction",):
                yield world, world.database, "a transaction"
            case ("board", asked):
                board, answer = self._remembered((world.board, asked), lambda: self._asked(world.board, asked))
                yield world._replace(board=board), answer, str(asked)
            case ("atomic", name, act):
                key = world.board, actor, progress
                board, answer = self._remembered(key, lambda: self._acted(world.board, actor, act))
                yield world._replace(board=board), answer, name
            case ("look", look):
                yield from self._looks(world, look)
            case ("launch", key):
                if any(run.key == key and not run.deleted for run in world.runs):
                    yield world, False, "Dagster has the key"
                elif len(world.runs) < self._most_runs:
                    self.most_runs = max(self.most_runs, len(world.runs) + 1)
                    runs, processes = (*world.runs, Run(key, "queued")), (*world.processes, IDLE)
                    yield world._replace(runs=runs, processes=processes), True, f"run {len(world.runs)} is made"
            case ("fail",):
                yield world, False, "works"
                if world.budget.failures:
                    yield world._replace(budget=_spent(world.budget, "failures")), True, "fails"


def _with(values: tuple[_Value, ...], at: int, value: _Value) -> tuple[_Value, ...]:
    return (*values[:at], value, *values[at + 1 :])


def _spent(budget: Budget, what: str) -> Budget:
    return budget._replace(**{what: getattr(budget, what) - 1})
