"""Random histories of late data, and a checker of the runs that were requested for them.

A history is a series of what partners, runs and people do, around the real decisions, requests and state, over storage
in memory. The checker keeps its own account of what lies there, and judges by that: no run is requested without a
cause; when all is quiet, each day's output is what a full recompute would give, or lacks less than the threshold; once
the day has left the lookback, it lacks nothing.

Here: the histories, the checker, and mistakes that the checker must find. Run
`python -m feed_assets_tests.late_data.late_histories 10000` for many.
"""

from __future__ import annotations

import random
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from feed_assets.file_feed import invalidate, publish, reject
from feed_assets.late_data import late_days, raw_growth
from feed_assets.late_data.day_phases import SWEEP_DAYS, Phase
from feed_assets.late_data.raw_growth import SourceDecision
from feed_assets.late_data.sweeping import Sweep
from feed_assets.sources.growth import GrowthKind, decide
from feed_assets.starts.attempt import FIRST_PAUSE, MOST_TRIES, Answer, Verdict
from feed_assets.starts.attempts import KnownRun, Standing
from feed_assets.starts.requests import Request
from feed_assets.state.address import sqlite_url
from feed_assets.state.store import Store
from feed_assets_tests.late_data.late_world import ADS, World, at, source

LOOKBACK = 3
SOURCES = [source("one", lookback=LOOKBACK), source("other", lookback=LOOKBACK)]
DAYS = ["2020-03-01", "2020-03-02", "2020-03-03"]
ONE_DAY = timedelta(days=1)
STEPS = 14

Files = Mapping[tuple[str, str], tuple[int, int | None, int]]
"""What lies there for a day, by source and name: bytes, records if known, and a number for each content."""


class WrongError(AssertionError):
    """The monitor did what it must not, or left out what it must do."""


@dataclass
class Made:
    """An update as the checker knows it."""

    name: str
    files: Files
    state: str


@dataclass
class History:
    """One history. `lying` and `made` are the checker's own account, by day."""

    world: World
    chosen: random.Random
    lying: dict[str, dict[tuple[str, str], tuple[int, int | None, int]]] = field(
        default_factory=lambda: {day: {} for day in DAYS}
    )
    keys: dict[tuple[str, str, str], tuple[str, str, int]] = field(default_factory=dict)
    made: dict[str, list[Made]] = field(default_factory=lambda: {day: [] for day in DAYS})
    snapshots: dict[str, Files] = field(default_factory=dict)
    waiting: dict[str, tuple[Request, datetime]] = field(default_factory=dict)
    began: Counter[Any] = field(default_factory=Counter)
    contents: int = 0
    runs: int = 0
    settled: set[str] = field(default_factory=set)
    """Days that a tick left as they are, after they had left the lookback for SWEEP_DAYS."""
    perhaps: set[str] = field(default_factory=set)
    """Days that may be settled: they, or days before them, were given up."""

    # --- what happens --------------------------------------------------------------------------------------------

    def live(self) -> None:
        """Some days of work of partners, runs and people; then quiet, and then all days leave the lookback."""
        acts: list[Callable[[], None]] = [
            self.append, self.append, self.drip, self.overwrite, self.delete, self.replace, self.tick, self.tick,
            self.tick, self.begin, self.begin, self.end, self.end, self.invalidate, self.lose, self.wait, self.pause,
        ]  # fmt: skip
        for day in DAYS:
            self._add(day, 100)
            self._add(day, 100)
        for _ in range(STEPS):
            self.chosen.choice(acts)()
        self.settle()
        for day in DAYS:
            self.check(day)
        if self.chosen.random() < 0.5:
            self.world.now += self.chosen.choice([10, 100]) * ONE_DAY  # the sensors pause
            self.settle()
        while self.world.now < at(DAYS[-1]) + (LOOKBACK + SWEEP_DAYS) * ONE_DAY:
            self.world.now = at(str(self.world.now.date() + ONE_DAY))
            self.settle(1)
        for day in DAYS:
            self.check(day)

    def append(self, day: str = "") -> None:
        self._add(day or self.chosen.choice(DAYS), self.chosen.choice([5, 50, 100]))

    def drip(self) -> None:
        day = self.chosen.choice(DAYS)
        for _ in range(self.chosen.randint(1, 4)):
            self._add(day, self.chosen.choice([1, 2, 5]))

    def overwrite(self) -> None:
        """A file of another receiver is written again with other content of the same size."""
        if found := self._some(lambda place: not place[2].startswith("landed")):
            of, day, name = found
            size, records, _ = self.lying[day][of, name]
            self._put(of, day, name, size, records)

    def delete(self) -> None:
        if found := self._some(lambda _: True):
            of, day, name = found
            self.world.board.delete(self.keys.pop(found)[0])
            del self.lying[day][of, name]

    def replace(self) -> None:
        """A landed file lands again, as its source was corrected: with more records, fewer, or as many."""
        if found := self._some(lambda place: place[2].startswith("landed")):
            of, day, name = found
            records = max(1, (self.lying[day][of, name][1] or 0) + self.chosen.choice([-1, 0, 1]))
            self._put(of, day, name, 10 * records, records)

    def pause(self) -> None:
        """The sensors do not run, while the others go on."""
        self.world.now += self.chosen.choice([1, 5, 30]) * ONE_DAY

    def tick(self) -> None:
        """A tick: each day that it asks for has a cause, and is not asked for twice."""
        requests = self.world.tick()[1]
        self._judge(requests)
        perhaps = False
        for day in DAYS:
            if self.world.now < self._leaves(day) + SWEEP_DAYS * ONE_DAY or not (perhaps or self._no_cause(day)):
                perhaps = perhaps or self._given_up(day)
                if not perhaps:
                    break  # the days after it wait for it
            (self.perhaps if perhaps else self.settled).add(day)

    def _judge(self, requests: Iterable[Request]) -> None:
        for request in requests:
            day = request.need.partition
            if day not in self.perhaps and (why := self._no_cause(day)):
                raise WrongError(f"{day} was requested without a cause: {why} ({request.need.reason})")
            if day in self.world.alive:
                raise WrongError(f"{day} was requested while a run of it is under way")
            if day in self.waiting and self.world.now < self.waiting[day][1] + FIRST_PAUSE and self._same(day, request):
                raise WrongError(f"{day} was requested twice for one state")
            self.waiting[day] = (request, self.world.now)

    def begin(self) -> None:
        if free := sorted(self.waiting.keys() - self.world.alive.keys()):
            day = self.chosen.choice(free)
            request, _ = self.waiting.pop(day)
            run = self.world.begin(request)
            read = {(each.source, file.path): (file.size, file.records) for each in run.read for file in each.files}
            lies = {
                (of, self.keys[of, day, name][1]): (size, records)
                for (of, name), (size, records, _) in self.lying[day].items()
            }
            if read != lies:
                raise WrongError(f"{day} reads {read}, and {lies} lies there")
            state = self._key(day)
            self.began[state] += 1
            self.runs += 1
            if self.began[state] > MOST_TRIES:
                raise WrongError(f"{day} ran {self.began[state]} times for one state")
            self.snapshots[day] = dict(self.lying[day])

    def end(self) -> None:
        if self.world.alive:
            day = self.chosen.choice(sorted(self.world.alive))
            self._end(day, self.chosen.choices(["valid", "rejected", "staged", "killed"], [5, 1, 1, 1])[0])

    def invalidate(self) -> None:
        """A person takes an update out of force."""
        day = self.chosen.choice(DAYS)
        if (update := self._in_force(day)) is not None and day not in self.world.alive:
            invalidate(self.world.feed, day, update.name, reason="wrong", author="someone", now=self.world.now)
            update.state = "invalidated"

    def lose(self) -> None:
        """A request is lost before it becomes a run."""
        if self.waiting:
            del self.waiting[self.chosen.choice(sorted(self.waiting))]

    def wait(self) -> None:
        self.world.now += timedelta(minutes=self.chosen.choice([1, 15, 60, 300]))

    def settle(self, ticks: int = 4) -> None:
        """Nobody sends any more, and every run succeeds, until so many ticks, one an hour, have asked for nothing."""
        quiet = 0
        while quiet < ticks:
            for day in sorted(self.world.alive):
                self._end(day, "valid")
            before = self.runs
            self.tick()
            while self.waiting:
                self.begin()
            quiet = 0 if self.runs > before else quiet + 1
            for day in sorted(self.world.alive):
                self._end(day, "valid")
            self.world.now += timedelta(minutes=60)

    # --- what must hold ------------------------------------------------------------------------------------------

    def check(self, day: str) -> None:
        """The day's output is what lies there, or nobody could do better."""
        if self._given_up(day) or day in self.perhaps or self._no_cause(day) in {"tried", "settled"}:
            return
        if not self._no_cause(day):
            raise WrongError(f"{day} is left as it is, and has a cause to run")
        in_force, lying = self._in_force(day), self.lying[day]
        if self.world.now < self._leaves(day) or in_force is None:
            return
        there = {of for of, _ in lying}
        output = {place: file for place, file in in_force.files.items() if place[0] in there}
        if output != lying and in_force.name < f"{self._leaves(day):%Y%m%d.%H%M%S}":
            raise WrongError(f"{day} has left the lookback with {output}, and {lying} lies there")

    def _no_cause(self, day: str) -> str:  # noqa: PLR0911 - a list of cases
        """Why nothing must run for the day now; "" if a run must."""
        in_force, lying, now = self._in_force(day), self.lying[day], self.world.now
        newest = max(self.made[day], key=lambda each: each.name, default=None)
        if not lying:
            return "nothing lies there"
        if day in self.settled:
            return "settled"
        if newest is not None and newest.files == lying and newest.state in {"rejected", "invalidated"}:
            return "tried"
        if now >= self._leaves(day):
            if in_force is None or in_force.name >= f"{self._leaves(day):%Y%m%d.%H%M%S}":
                return "swept, or never processed"
            return "" if any(self._differs(each.key, in_force.files, lying) for each in SOURCES) else "as it is"
        if in_force is None:
            return ""
        return "" if any(self._reaches(each.key, in_force.files, lying) for each in SOURCES) else "not enough"

    def _differs(self, of: str, before: Files, now: Files) -> bool:
        old, new = _only(before, of), _only(now, of)
        return bool(new) and old != new

    def _reaches(self, of: str, before: Files, now: Files) -> bool:
        """Whether the source's files were replaced, removed or grown by a twentieth, but not all removed."""
        old, new = _only(before, of), _only(now, of)
        if not new or old == new:
            return False
        if not old or not old.items() <= new.items():
            return True
        by_records = all(records is not None for _, records, _ in [*old.values(), *new.values()])
        was, is_now = (
            sum((each[1] or 0) if by_records else each[0] for each in files.values()) for files in (old, new)
        )
        return (is_now - was) * 20 >= was

    def _given_up(self, day: str) -> bool:
        return self.began[self._key(day)] >= MOST_TRIES

    def _in_force(self, day: str) -> Made | None:
        valid = [each for each in self.made[day] if each.state == "valid"]
        return max(valid, key=lambda each: each.name, default=None)

    def _leaves(self, day: str) -> datetime:
        return datetime.fromisoformat(day).replace(tzinfo=UTC) + (LOOKBACK + 1) * ONE_DAY

    def _key(self, day: str) -> object:
        in_force = self._in_force(day)
        return day, in_force.name if in_force else None, frozenset(self.lying[day].items())

    def _same(self, day: str, request: Request) -> bool:
        return self.waiting[day][0].recorded[ADS].digest == request.recorded[ADS].digest

    # --- how it is done ------------------------------------------------------------------------------------------

    def _add(self, day: str, size: int) -> None:
        of, landed = self.chosen.choice(SOURCES).key, self.chosen.random() < 0.7
        name = f"{'landed' if landed else 'theirs'}-{self.contents}"
        self._put(of, day, name, 10 * size, size if landed else None)

    def _put(self, of: str, day: str, name: str, size: int, records: int | None) -> None:
        self.contents += 1
        by = next(each for each in SOURCES if each.key == of)
        _, _, generation = self.keys.get((of, day, name), ("", "", 0))
        if records is None:
            key = self.world.send(by, day, name, size, str(self.contents))
        else:
            key = self.world.land(by, day, name, records, size, generation + 1)
        self.keys[of, day, name] = (key, key.partition(f"{day}/")[2], generation + 1)
        self.lying[day][of, name] = (size, records, self.contents)

    def _some(self, wanted: Callable[[tuple[str, str, str]], bool]) -> tuple[str, str, str] | None:
        places = sorted(place for place in self.keys if wanted(place))
        return self.chosen.choice(places) if places else None

    def _end(self, day: str, outcome: str) -> None:
        run = self.world.alive.pop(day)
        failed = outcome in {"killed", "staged"}
        self.world.runs[run.request.recorded[ADS].key] = KnownRun.FAILED if failed else KnownRun.SUCCEEDED
        if outcome == "killed":
            return
        staged = run.stage(self.world.now)
        self.made[day].append(Made(run.claim.name, self.snapshots[day], outcome))
        if outcome == "valid":
            publish(staged, now=self.world.now)
        elif outcome == "rejected":
            reject(staged, reason="bad data", now=self.world.now)


def _only(files: Files, of: str) -> dict[str, tuple[int, int | None, int]]:
    return {name: file for (source_key, name), file in files.items() if source_key == of}


def histories(store: Store, count: int, seed: int = 0, *, gated: bool = False) -> Iterator[int]:
    """Live so many histories; yields the runs of each. Raises WrongError, with the number of the history.

    `gated`: the days have a trigger, which changes nothing but who decides.
    """
    for number in range(seed, seed + count):
        with store.writing() as transaction:
            for table in ("attempts", "reports", "log", "dependency_slots", "dependency_datasets"):
                transaction.connection.exec_driver_sql(f"DELETE FROM feed_assets_{table}")
        first = date.fromisoformat(DAYS[0])
        history = History(World(store, SOURCES, at("2020-03-04"), first, gated=gated), random.Random(number))
        try:
            history.live()
        except WrongError as wrong:
            raise WrongError(f"history {number}: {wrong}") from None
        yield history.runs


# --- mistakes ----------------------------------------------------------------------------------------------------


def _replaced_files_are_no_matter(*arguments: Any) -> Any:
    decision = decide(*arguments)
    replaced = decision.kind is GrowthKind.REPLACED and not decision.needs_files
    return replace(decision, kind=GrowthKind.BELOW_THRESHOLD) if replaced else decision


def _the_threshold_itself_is_too_little(baseline: Any, current: Any, threshold: Any, *more: Any) -> Any:
    return decide(baseline, current, threshold + 1, *more)


def _no_sweep(decision: SourceDecision) -> bool:
    return decision.phase is Phase.WATCHED and decision.decision.reprocess


def _always_requested(*_: Any, **__: Any) -> Verdict:
    return Verdict(Answer.MAY_START)


MISTAKES: Mapping[str, tuple[Any, str, Any]] = {
    "replaced files are left": (raw_growth, "decide", _replaced_files_are_no_matter),
    "the threshold is not reached by itself": (raw_growth, "decide", _the_threshold_itself_is_too_little),
    "no final sweep": (SourceDecision, "wanted", property(_no_sweep)),
    "a pause of the sensors ends the sweep": (
        late_days,
        "sweep_of",
        lambda *_: Sweep({each.key: date.max for each in SOURCES}),
    ),
    "a rejected state is tried again": (raw_growth._Day, "tried", lambda _: None),
    "a state is requested at each tick": (Standing, "verdict", _always_requested),
    "any growth is a run": (SourceDecision, "wanted", property(lambda each: each.differs)),
}


@contextmanager
def mistaken(name: str) -> Iterator[None]:
    """The monitor with one of the MISTAKES."""
    owner, attribute, wrong = MISTAKES[name]
    right = owner.__dict__[attribute]
    setattr(owner, attribute, wrong)
    try:
        yield
    finally:
        setattr(owner, attribute, right)


if __name__ == "__main__":
    with TemporaryDirectory() as folder:
        place = Store(sqlite_url(Path(folder) / "state.db"))
        began = time.monotonic()
        total = sum(histories(place, int(sys.argv[1]), int((sys.argv[2:] or ["0"])[0])))
        took = f"{time.monotonic() - began:.0f} s"
        print(f"{sys.argv[1]} histories, {total} runs, each with a cause and none missing; {took}")
