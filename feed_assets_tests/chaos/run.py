"""A run: workers in processes of their own, killed, stopped and started again; then the checker looks.

Here: forking and ending workers, and looking at the final storage. Not here: the acts of workers (see `acts`), and the
guarantees (see `checker`). The parent has loaded everything that a worker needs, so a worker starts in milliseconds. It
has neither Spark nor Dagster. The fates of workers depend on the seed; the order in which the machine runs them does
not.
"""

from __future__ import annotations

import ctypes
import itertools
import logging
import os
import random
import signal
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any, Final, NoReturn

from feed_assets.blackboard.listing import list_all
from feed_assets.blackboard.local import LocalBlackboard
from feed_assets.blackboard.port import BlackboardError, UnavailableError
from feed_assets.file_feed import Feed, FeedError, carry_out, drop_ended_pins, drop_old_entries, plan
from feed_assets.sources.plan import ABANDONED, sweep_staging
from feed_assets.sources.source_errors import SourceError
from feed_assets_tests.chaos import acts
from feed_assets_tests.chaos.acts import (
    LOCATION,
    LONGEST_WRITE,
    PARTITIONS,
    POLICY,
    SOURCE,
    Act,
    Watched,
    Worker,
    landed_hours,
    landing_of,
    now,
    raw_content,
    raw_key,
)
from feed_assets_tests.chaos.bases import SLOWEST_SECONDS, Base
from feed_assets_tests.chaos.broken import BROKEN
from feed_assets_tests.chaos.checker import Final as End
from feed_assets_tests.chaos.checker import Violation, check, seen_by_readers
from feed_assets_tests.chaos.history import Event, History, read
from feed_assets_tests.chaos.killing import KillingBlackboard, PlannedSignal

EXPECTED: Final = (FeedError, BlackboardError, SourceError)
MUCH_LATER: Final = timedelta(days=30)
WRITING: Final = 0.75
"""The share of the fates that count only steps that write: retention reads dozens of objects before it writes."""

ACTS: Final = 4
"""That act is among the first ACTS of the worker."""

STOPPED_SECONDS: Final = LONGEST_WRITE.total_seconds() + 1.5
HUNG_SECONDS: Final = 2 * SLOWEST_SECONDS
MOST_STOPPED: Final = 4
LOOK_EVERY: Final = 0.005
CHECK_EVERY: Final = 0.5
_PR_SET_PDEATHSIG: Final = 1


@dataclass(frozen=True, slots=True)
class Role:
    """What workers of a kind do: acts with their weights, and how long they rest after each, in seconds at most.

    They are killed before and after the first `steps` steps of an act.
    """

    name: str
    acts: Mapping[Act, int]
    rest: float = 0.03
    may_stop: bool = True
    writes: bool = True
    steps: int = 16


ROLES: Final = (
    *(Role("publisher", {acts.publish_local_files: 3, acts.publish_audited: 5, acts.reject_audited: 1}, 0.6),) * 3,
    Role("reader", {acts.read_latest: 5, acts.read_pinned: 1}, writes=False),
    Role("plain reader", {acts.read_plainly: 1, acts.read_history: 1}, writes=False),
    Role("invalidator", {acts.invalidate_latest: 1}, 0.3),
    Role("retention", {acts.remove_old: 1}, 0.1, steps=64),  # several updates become old at once
    Role("landing", {acts.land_file: 5, acts.read_raw: 2, acts.sweep: 1}),
    Role("watcher", {acts.watch: 1}, 0.1, may_stop=False, writes=False),
)
RETENTION: Final = next(role for role in ROLES if role.name == "retention")


@dataclass(slots=True)
class Running:
    """A worker's process. `die_at` is when it is killed if its planned signal has not come before."""

    pid: int
    slot: int
    name: str
    die_at: float
    stopped_at: float | None = None
    waits_for: int | None = None


@dataclass(frozen=True, slots=True)
class Result:
    """The outcome of a run. `points` are the kinds of steps at which workers were killed.

    A kind has an act, an operation, a kind of objects, and whether the worker was killed before or after the step.
    """

    base: str
    seconds: float
    kills: int
    stops: int
    points: int
    acknowledged: Mapping[str, int]
    failed: Mapping[str, int]
    faults: Mapping[str, int]
    violations: tuple[Violation, ...]

    def to_plain(self) -> dict[str, Any]:
        """The values for JSON."""
        return {name: getattr(self, name) for name in self.__slots__} | {
            "violations": [each._asdict() for each in self.violations]
        }


@dataclass(slots=True)
class Chaos:
    """A run under way on a base; its histories and the workers' local files are below `folder`.

    Workers live for about `life` seconds. `broken` names writers with a mistake that take part (see `broken`).
    """

    base: Base
    folder: Path
    seed: int
    broken: str | None = None
    life: float = 3.0
    kills: int = 0
    stops: int = 0
    _running: list[Running] = field(default_factory=list)
    _numbers: Iterator[int] = field(default_factory=itertools.count)
    _helpers: set[int] = field(default_factory=set)
    _ended: set[int] = field(default_factory=set)

    def run(
        self, kills: int, *, seconds: float, progress: Callable[[int], None] = lambda _: None, early: bool = False
    ) -> Result:
        """Run until there were this many kills, or for so long; with `early`, until a reader saw a violation."""
        begun = time.monotonic()
        self._make_folders()
        supervisor = History(self._histories, "supervisor")
        next_check = begun + CHECK_EVERY
        try:
            while self.kills < kills and time.monotonic() < begun + seconds:
                self._start_missing()
                self._kill_and_continue(supervisor)
                self._reap(supervisor)
                progress(min(self.kills, kills))
                if early and time.monotonic() > next_check:
                    next_check = time.monotonic() + CHECK_EVERY
                    # Whole up to this moment: what caused an event of one worker may be an event of another.
                    moment = time.monotonic()
                    events = [event for event in self._events() if event["at"] < moment]
                    if seen_by_readers(events, self._nothing_stored()):
                        break
                time.sleep(LOOK_EVERY)
            self._end_all(supervisor)
            if self.kills < kills and not early:
                supervisor.note("slow", kills=self.kills, of=kills)
        finally:
            for pid in (*(each.pid for each in self._running), *self._helpers):
                with suppress(ProcessLookupError, ChildProcessError):
                    os.kill(pid, signal.SIGKILL)
                    os.waitpid(pid, 0)
        return self.judged(time.monotonic() - begun)

    def act_alone(self) -> None:
        """An act of each role, one after the other in this process; nobody is killed."""
        self._make_folders()
        for slot, role in enumerate(ROLES):
            name = f"{role.name.replace(' ', '-')}-{next(self._numbers)}"
            history = History(self._histories, name)
            board = KillingBlackboard(self.base.board, history, None, one_by_one=self.base.disk)
            worker = Worker(board, history, random.Random(f"{self.seed} {name}"), self._local(slot), name)
            # Of the publishers each has another act.
            self._act(worker, list(role.acts)[slot % len(role.acts) if role.name == "publisher" else 0])
            history.close()

    def judged(self, seconds: float = 0) -> Result:
        """The outcome, after the last ticks of the watchers and the last retention."""
        self._settle()
        end = self._look()
        events = self._events()
        violations = [*check(events, end), *self._unavailable(events)]
        ended = [event for event in events if event["event"] == "end"]
        kinds = {(event["worker"], event["act"]): event["kind"] for event in events if event["event"] == "begin"}
        killed = [event for event in events if event["event"] == "SIGKILL"]
        return Result(
            base=self.base.name,
            seconds=round(seconds, 1),
            kills=self.kills,
            stops=self.stops,
            points=len({(kinds.get((e["worker"], e["act"])), _step_of(e), e["before"]) for e in killed}),
            acknowledged=Counter(kinds[event["worker"], event["act"]] for event in ended),
            failed=Counter(event["error"] for event in events if event["event"] == "failed"),
            faults=self.base.faults(),
            violations=tuple(violations),
        )

    def _make_folders(self) -> None:
        for folder in (self._histories, *(self._local(slot) for slot in range(len(ROLES)))):
            folder.mkdir(parents=True, exist_ok=True)

    # --- processes ----------------------------------------------------------------------------------------------------

    def _start_missing(self) -> None:
        # A stopped worker is replaced, unless nobody else may do its work meanwhile.
        busy = {each.slot for each in self._running if each.stopped_at is None or not ROLES[each.slot].may_stop}
        for slot in set(range(len(ROLES))) - busy:
            self._running.append(self._fork(slot))

    def _fork(self, slot: int) -> Running:
        number, role = next(self._numbers), ROLES[slot]
        chance = random.Random(f"{self.seed} {number}")
        planned, die_at = None, time.monotonic() + chance.uniform(0, 2 * self.life)
        stopped = sum(each.stopped_at is not None for each in self._running)
        act, step, before = chance.randrange(ACTS), chance.randrange(role.steps), chance.random() < 0.5
        writing = role.writes and chance.random() < WRITING
        if number % 10 == 1 and role.may_stop and stopped < MOST_STOPPED:
            planned = PlannedSignal(act, step, before, signal.SIGSTOP, writing)
            die_at += 5 * self.life
        elif chance.random() < 0.7:
            planned = PlannedSignal(act, step, before, signal.SIGKILL, writing)
            die_at += self.life
        name = f"{role.name.replace(' ', '-')}-{number}"
        return Running(self._forked(slot, name, planned), slot, name, die_at)

    def _forked(self, slot: int, name: str, planned: PlannedSignal | None, *, once: bool = False) -> int:
        pid = os.fork()
        if not pid:
            self._work(slot, name, planned, once=once)
        return pid

    def _work(self, slot: int, name: str, planned: PlannedSignal | None, *, once: bool) -> NoReturn:
        """The life of a worker; it never returns into the program of its parent."""
        code = 1
        try:
            ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
            logging.disable()
            history = History(self._histories, name)
            board = KillingBlackboard(self.base.board, history, planned, one_by_one=self.base.disk)
            worker = Worker(board, history, random.Random(f"{self.seed} {name}"), self._local(slot), name)
            asked_to_end: list[int] = []
            signal.signal(signal.SIGTERM, lambda number, _: asked_to_end.append(number))
            signal.signal(signal.SIGINT, signal.SIG_IGN)
            role = ROLES[slot]
            instead = [self._instead(act) for act in role.acts]
            for number in itertools.count():
                if asked_to_end:
                    break
                board.begin_act(number)
                self._act(worker, worker.random.choices(instead, list(role.acts.values()))[0])
                if once:
                    break
                time.sleep(worker.random.uniform(0, role.rest))
            code = 0
        except BaseException:  # noqa: BLE001 - nothing may get into the parent's program
            traceback.print_exc()
        finally:
            os._exit(code)

    def _instead(self, act: Act) -> Act:
        return BROKEN[self.broken].get(act, act) if self.broken else act

    def _act(self, worker: Worker, act: Act) -> None:
        try:
            act(worker)
        except EXPECTED as error:
            worker.history.note("failed", error=type(error).__name__, message=str(error))
        except Exception:  # noqa: BLE001 - the checker reports it
            worker.history.note("crashed", trace=traceback.format_exc())
        if worker.board.slowest > SLOWEST_SECONDS:
            worker.history.note("slow", seconds=worker.board.slowest)

    def _kill_and_continue(self, supervisor: History) -> None:
        moment = time.monotonic()
        for each in self._running:
            if each.stopped_at is not None:
                self._continue(each, moment)
            elif moment > each.die_at:
                os.kill(each.pid, signal.SIGKILL)
            elif moment - self._last_sign(each) > HUNG_SECONDS:
                supervisor.note("hung", name=each.name)
                os.kill(each.pid, signal.SIGKILL)

    def _continue(self, each: Running, moment: float) -> None:
        """Wake a worker that was stopped for longer than the longest write, after retention has been there."""
        if each.stopped_at is None or moment - each.stopped_at < STOPPED_SECONDS:
            return
        if each.waits_for is None:
            each.waits_for = self._forked(ROLES.index(RETENTION), f"retention-{next(self._numbers)}", None, once=True)
            self._helpers.add(each.waits_for)
        elif each.waits_for in self._ended:
            each.stopped_at = each.waits_for = None
            each.die_at = moment + self.life
            os.kill(each.pid, signal.SIGCONT)

    def _last_sign(self, each: Running) -> float:
        with suppress(FileNotFoundError):
            age = time.time() - (self._histories / f"{each.name}.jsonl").stat().st_mtime
            return time.monotonic() - age
        return time.monotonic()

    def _reap(self, supervisor: History) -> None:
        """Note who has ended or stopped."""
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG | os.WUNTRACED)
            except ChildProcessError:
                return
            if not pid:
                return
            each = next((running for running in self._running if running.pid == pid), None)
            if os.WIFSTOPPED(status):
                if each is not None:
                    self.stops += 1
                    each.stopped_at = time.monotonic()
                continue
            self._ended.add(pid)
            self._helpers.discard(pid)
            if each is not None:
                self._running.remove(each)
                if os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL:
                    self.kills += 1
                elif status not in {0, signal.SIGTERM}:  # it was asked to end before it could listen
                    supervisor.note("exited", name=each.name, status=status)

    def _end_all(self, supervisor: History) -> None:
        """Let every worker finish its act, also those that are stopped."""
        for each in self._running:
            with suppress(ProcessLookupError):
                os.kill(each.pid, signal.SIGTERM)
                os.kill(each.pid, signal.SIGCONT)
        deadline = time.monotonic() + HUNG_SECONDS
        while self._running or self._helpers:
            self._reap(supervisor)
            for each in self._running:
                if each.stopped_at is not None:  # its signal came only now
                    each.stopped_at = None
                    os.kill(each.pid, signal.SIGCONT)
            if time.monotonic() > deadline:
                supervisor.note("hung", name=", ".join(each.name for each in self._running))
                return
            time.sleep(LOOK_EVERY)

    # --- the end ------------------------------------------------------------------------------------------------------

    def _settle(self) -> None:
        """The last ticks of the watchers: one reads the log, one scans everything that is left."""
        for slot, role in enumerate(ROLES):
            if role.name == "watcher":
                history = History(self._histories, f"last-ticks-{slot}")
                board = KillingBlackboard(self.base.direct, history, None, one_by_one=False)
                worker = Worker(board, history, random.Random(0), self._local(slot), "last ticks")
                for _ in range(2):
                    acts.tick(worker, self._local(slot) / "watched.json", timedelta(0))

    def _look(self) -> End:
        """What is there before and after the last retention, at a time when everything may go that ever may."""
        board = self.base.direct
        end = self._nothing_stored()
        landings = {each.digest: each for each in map(landing_of, range(200))}
        sweep_staging(board, SOURCE, now=now() + 2 * ABANDONED)
        keys = [entry.key for entry in list_all(board, f"{LOCATION}/")]
        objects = {key: board.read(key).data for key in keys if not key.startswith(f"{LOCATION}/.feed/")}
        landed = landed_hours(board)
        feed, later = Feed(board, LOCATION), now() + MUCH_LATER
        for _ in range(2):
            carry_out(feed, plan(feed, POLICY, now=later, recovering=True), now=later)
        drop_ended_pins(feed, now=later)
        drop_old_entries(feed, now=later)
        board.abort_uploads("", before=later)
        expected = {
            raw_key(landing.id, hour): raw_content(landing.id, hour)
            for digest in landed
            for landing in (landings[digest],)
            for hour in landing.partitions
        }
        raw = [entry.key for entry in list_all(board, f"raw/{SOURCE}/")]
        misplaced = [key for key in raw if board.read(key).data != expected.get(key)]
        left = [entry.key for entry in list_all(board, "") if not entry.key.startswith("raw/")]
        left += [entry.key for entry in list_all(board, "raw/.staging/")]
        return End(
            **{
                **{name: getattr(end, name) for name in ("location", "partitions", "keep")},
                "objects": objects,
                "left": [*left, *self._unfinished()],
                "watchers": {
                    self._local(slot).name: Watched.load(self._local(slot) / "watched.json").known
                    for slot, role in enumerate(ROLES)
                    if role.name == "watcher"
                },
                "landed": landed,
                "landings": end.landings,
                "misplaced": misplaced,
            }
        )

    def _nothing_stored(self) -> End:
        """An end in which only the histories are judged."""
        hours = {each.digest: each.partitions for each in map(landing_of, range(200))}
        return End(LOCATION, PARTITIONS, POLICY.keep, {}, (), {}, {}, hours)

    def _unfinished(self) -> Sequence[str]:
        """The unfinished files on a disk that a later blackboard does not remove, a day after."""
        if self.base.directory is None:
            return ()
        private = self.base.directory / ".blackboard"
        for path in private.iterdir():
            os.utime(path, (0, 0))
        later = LocalBlackboard(self.base.directory)
        later.create("last", b"")
        later.delete("last")
        return [str(path) for path in private.iterdir()]

    def _unavailable(self, events: Sequence[Event]) -> Iterator[Violation]:
        for event in events:
            if self.base.disk and event["event"] == "failed" and event["error"] == UnavailableError.__name__:
                yield Violation("answered", f"{event['worker']}: {event['message']}")

    def _events(self) -> list[Event]:
        return read(self._histories)

    @property
    def _histories(self) -> Path:
        return self.folder / "histories"

    def _local(self, slot: int) -> Path:
        return self.folder / f"{ROLES[slot].name.replace(' ', '-')}-{slot}"


_OBJECTS: Final = (
    *(f"/.feed/{area}/" for area in ("claims", "records", "changes", "pins")),
    *("/_SUCCESS", "/invalidated", "/part-", "raw/.staging/", "raw/"),
)


def _step_of(killed: Event) -> tuple[str, str]:
    """The operation and the kind of object at which a worker was killed."""
    return killed["operation"], next((name for name in _OBJECTS if name in killed["key"]), "")
