"""Histories of marks, computations, checks and reopenings, compared with the definition at each step.

Here: all histories of small alphabets, and random ones. Not here: the definition (`quality_oracle`). Run
`python -m feed_assets_tests.dependencies.quality_histories 100000` for many random ones; a second number is the first
seed.
"""

from __future__ import annotations

import random
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import date

from feed_assets.datasets.calendars import Calendar
from feed_assets.datasets.dataset import Dataset
from feed_assets.datasets.grains import Grain
from feed_assets.datasets.members import Hierarchy, Member
from feed_assets.datasets.slots import Slot
from feed_assets.dependencies.quality.events import Change
from feed_assets.dependencies.quality.marks import (
    Author,
    CheckResult,
    Computation,
    Fact,
    Mark,
    Signature,
    SlotRevision,
)
from feed_assets.dependencies.quality.rows import from_row, to_row
from feed_assets.dependencies.quality.slot_quality import SlotQuality
from feed_assets_tests.dependencies.quality_oracle import Follower, Judge, Universe, World, compare

START = date(2026, 11, 1)
NOON = 1_795_780_800  # 2026-11-27T12:00Z
NAMES = ("raw/a", "b/v1", "c/v1")


def chain() -> Universe:
    """Three datasets of two hours with two windows each: windows of 5 min, in "hours" of 10 min."""
    grains = (Grain.FIVE_MINUTES, Grain.TEN_MINUTES)
    datasets = [Dataset(name, grains, Hierarchy.flat(START)) for name in NAMES]
    starts = range(NOON, NOON + 1200, 300)
    return Universe.of(datasets, [Slot(name, "-", Grain.FIVE_MINUTES, start) for name in NAMES for start in starts])


def several_calendars() -> Universe:
    """Three datasets of hours, with members in two zones: some hours around a midnight, a week's and a month's end."""
    members = Hierarchy(
        ("region", "country"),
        (
            Member("eu/fr", START, calendar=Calendar("Europe/Paris")),
            Member("eu/gb", START, calendar=Calendar("UTC")),
            Member("us/ny", START, calendar=Calendar("-5")),
        ),
    )
    grains = (Grain.HOUR, Grain.DAY, Grain.WEEK, Grain.MONTH)
    datasets = [Dataset(name, grains, members) for name in NAMES]
    midnight = 1_795_910_400 + 2 * 86_400  # the end of Monday, 2026-11-30, in UTC
    hours = [midnight - 90_000, midnight - 3600, midnight, midnight + 5 * 3600]
    return Universe.of(
        datasets,
        [Slot(name, leaf.path, Grain.HOUR, hour) for name in NAMES for leaf in members.members for hour in hours],
    )


@dataclass
class History:
    """The real object and the judge, after the same acts."""

    world: World
    facts: list[Fact] = field(default_factory=list)
    judge: Judge = field(init=False)
    quality: SlotQuality = field(init=False)
    follower: Follower = field(default_factory=Follower)
    steps: int = 0

    def __post_init__(self) -> None:
        self.judge = Judge(self.world)
        self.quality = SlotQuality(self.world.universe.datasets, self.world)

    def take(self, change: Change) -> None:
        self.follower.follow(self.world.universe, change)
        self.facts += change.facts
        self.steps += 1

    def mark(self, on: SlotRevision, author: Author, mark_id: str) -> None:
        mark = Mark(mark_id, on, Signature(author, self.steps, f"reason {mark_id}"))
        self.take(self.quality.mark(mark))
        self.judge.marks.append(mark)
        if author == Author.check(author.name):
            self.judge.results.append(CheckResult(on, author.name, passed=False, at=self.steps))

    def unmark(self, mark: Mark) -> None:
        by = mark.author if mark.author == Author.check(mark.author.name) else Author.person("bob")
        self.take(self.quality.unmark(mark.id, Signature(by, self.steps, "a mistake")))
        self.judge.marks.remove(mark)

    def check_passes(self, on: SlotRevision, check: str) -> None:
        result = CheckResult(on, check, passed=True, at=self.steps)
        self.take(self.quality.checked(result))
        author = Author.check(check)
        self.judge.marks = [mark for mark in self.judge.marks if (mark.on, mark.author) != (on, author)]
        self.judge.results.append(result)

    def compute(self, output: SlotRevision, inputs: Sequence[SlotRevision]) -> None:
        computation = Computation(output, tuple(inputs), "run", self.steps)
        self.take(self.quality.computed(computation))
        self.judge.computations[output] = computation

    def reopen(self, slot: Slot) -> None:
        ended = self.world.reopen(slot)
        self.take(self.quality.reopened(ended, len(self.world.moments), at=self.steps))

    def abandon(self) -> None:
        ended = self.world.abandon()
        self.take(self.quality.reinstated(ended, len(self.world.moments), at=self.steps))

    def compare(self) -> None:
        compare(self.quality, self.judge, self.follower)

    def compare_loaded(self) -> None:
        """The same answers from the stored rows alone, in any order."""
        rows = {row[:2]: row for row in map(to_row, self.facts)}
        stored = [*map(from_row, rows.values())]
        random.Random(len(stored)).shuffle(stored)
        loaded = SlotQuality(self.world.universe.datasets, self.world)
        loaded.load(stored)
        compare(loaded, self.judge)
        assert {to_row(fact)[:2] for fact in loaded.facts()} == rows.keys()


Act = Callable[[History], bool]
"""One act of a history; False if it is not possible now."""


def all_histories(universe: Universe, alphabet: Sequence[Act], depth: int) -> Iterator[History]:
    """Each state that up to `depth` acts lead to, once, after a comparison."""
    known: set[object] = set()

    def after(acts: tuple[int, ...]) -> History | None:
        history = History(World(universe))
        for act in acts:
            if not alphabet[act](history):
                return None
        return history

    layer: list[tuple[int, ...]] = [()]
    for _ in range(depth):
        following = []
        for acts in layer:
            for act in range(len(alphabet)):
                history = after((*acts, act))
                if history is None:
                    continue
                state = _state(history)
                if state in known:
                    continue
                known.add(state)
                history.compare()
                following.append((*acts, act))
                yield history
        layer = following


def _state(history: History) -> object:
    """What decides on all answers: facts without times, and the order of reopenings."""
    judge = history.judge
    results = {(each.on, each.check): each.passed for each in judge.results}
    return (
        frozenset((mark.on, mark.author) for mark in judge.marks),
        frozenset((output, computation.inputs) for output, computation in judge.computations.items()),
        frozenset(results.items()),
        tuple(tuple(each.values()) for each in history.world.moments),
        history.world.incomplete,
        frozenset(history.world.same),
    )


def random_history(universe: Universe, seed: int, length: int = 14) -> History:
    """A history of random acts, compared after one of them, at the end, and loaded anew."""
    rng = random.Random(seed)
    compared = rng.randrange(length)
    acts = RandomActs(History(World(universe)), rng)
    for step in range(length):
        acts.one(step)
        if step == compared:
            acts.history.compare()
    acts.history.compare()
    acts.history.compare_loaded()
    return acts.history


class RandomActs:
    """Random acts of a history, most of them on a few slots, so that they meet."""

    def __init__(self, history: History, rng: random.Random) -> None:
        self.history, self.rng = history, rng
        self.slots = history.world.universe.slots
        self.busy = rng.sample(self.slots, min(8, len(self.slots)))
        if rng.random() < 0.3:
            whole = history.world.universe.whole
            history.world.begin_without(next(slot for slot in self.slots if whole[slot] == {slot}))

    def one(self, step: int) -> None:
        """One act, if it is possible now."""
        history, rng = self.history, self.rng
        match rng.choice(["mark", "mark", "unmark", "check", "compute", "compute", "compute", "reopen", "abandon"]):
            case "mark":
                author = rng.choice([Author.check("rows"), Author.check("nulls"), Author.person("ann")])
                history.mark(self.some_revision(self.some_slot()), author, f"m{step}")
            case "unmark" if history.judge.marks:
                history.unmark(rng.choice(history.judge.marks))
            case "check":
                history.check_passes(self.some_revision(self.some_slot()), rng.choice(["rows", "nulls"]))
            case "compute":
                self.compute(self.some_slot())
            case "reopen":
                slot = self.some_slot()
                history.reopen(slot)
                if rng.random() < 0.7:
                    history.world.complete(slot)
            case "abandon" if history.world.last_act:
                history.abandon()
            case _:
                pass

    def compute(self, output: Slot) -> None:
        earlier = NAMES[: NAMES.index(output.dataset)]
        inputs = [slot for slot in (*self.busy, *self.slots) if slot.dataset in earlier][:12]
        if inputs:
            read = {self.some_revision(self.rng.choice(inputs)) for _ in range(self.rng.randint(1, 3))}
            self.history.compute(self.history.world.present(output), sorted(read))

    def some_slot(self) -> Slot:
        return self.rng.choice(self.busy if self.rng.random() < 0.8 else self.slots)

    def some_revision(self, slot: Slot) -> SlotRevision:
        present = self.history.world.present(slot).revision
        return SlotRevision(slot, present if self.rng.random() < 0.8 else self.rng.randint(1, present))


UNIVERSES = (chain, several_calendars)
SELDOM = 100
"""One of so many histories has the universe with more slots, which takes 20 times longer to judge."""


def main(number: int, first: int = 0) -> None:
    """Compare random histories; raises AssertionError, with the seed, at the first difference."""
    universes = [make() for make in UNIVERSES]
    began = time.monotonic()
    for seed in range(first, first + number):
        universe = universes[0] if seed % SELDOM else universes[1]
        try:
            random_history(universe, seed)
        except Exception as error:
            raise AssertionError(f"seed {seed}: {error}") from error
        if (seed + 1) % 1000 == 0:
            print(f"{seed + 1 - first} histories, {time.monotonic() - began:.0f} s", flush=True)
    print(f"{number} histories agree with the definition")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
