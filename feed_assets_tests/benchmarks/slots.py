"""How quickly the dependency service answers, counts parts, and finds that there is nothing to do.

Here: the service in one process, over SQLite on a disk. Not here: HTTP, and what a tick of the sensors costs besides.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime, timedelta
from itertools import count
from pathlib import Path
from statistics import quantiles
from time import perf_counter, perf_counter_ns, process_time

from feed_assets.datasets.grains import Grain
from feed_assets.datasets.instants import moment_of
from feed_assets.datasets.slots import Slot
from feed_assets.dependencies.facts import Number, Part
from feed_assets.dependencies.service import Dependencies
from feed_assets.state.address import sqlite_url
from feed_assets_tests.benchmarks.results import Comparison, Report, Row, under_way
from feed_assets_tests.dependencies.datasets import service, topic

DAYS, QUICK_DAYS = 35, 2
BATCH = 500
TICKS = 100
ANSWERS, QUICK_ANSWERS = 2_000_000, 20_000
RATE_GOAL, MICROSECONDS_GOAL = 500_000, 10.0


def measure(scratch: Path, *, quick: bool = False) -> Report:
    """Answers a second, alone and while parts come in; parts a second; a tick without news."""
    foo = topic("a")
    dependencies = service(sqlite_url(scratch / "state.db"), foo)
    first = foo.dataset.slot("2026-11-25", "a")
    begin = first.start * 86_400
    days = QUICK_DAYS if quick else DAYS
    slots = [Slot("raw/foo", "a", Grain.FIVE_MINUTES, begin + 300 * each) for each in range(288 * days)]
    now = moment_of(begin) + timedelta(days=days)
    under_way(f"{len(slots):,} slots")
    dependencies.expect([Number("source", slot, 10) for slot in slots], now=now)
    parts = [
        Part("raw/foo", "a", f"{slot.start}-{number}", "s3://raw/x", records={slot.start: 1})
        for slot in slots[-288:]
        for number in range(10)
    ]
    batches = [parts[each : each + BATCH] for each in range(0, len(parts), BATCH)]
    begun = process_time()
    for batch in batches:
        dependencies.report(batch, now=now)
    seconds = process_time() - begun
    asked = [*slots, *(slot._replace(grain=Grain.HOUR) for slot in slots[::12]), first]
    under_way("answers")
    answers = QUICK_ANSWERS if quick else ANSWERS
    alone = _answers(dependencies, asked, answers)
    with _reporting(dependencies, slots[-288:], now=now):
        busy = _answers(dependencies, asked, answers)
        slowest = _percentile(dependencies, asked, answers // 10)
    dependencies.tick(now)
    begun = process_time()
    for _ in range(TICKS):
        dependencies.tick(now)
    tick = (process_time() - begun) / TICKS
    rows = [
        Row(f"{len(slots):,} slots", "answers, alone", {"a_cpu_second": round(alone)}),
        Row(f"{len(slots):,} slots", "answers while parts come in", {"a_cpu_second": round(busy), "p99_us": slowest}),
        Row(f"{len(parts):,} parts", f"parts in batches of {BATCH}", {"a_cpu_second": round(len(parts) / seconds)}),
        Row(f"{len(slots):,} slots", "a tick without news", {"cpu_seconds": tick}),
    ]
    goal = f">= {RATE_GOAL:,}"
    comparisons = [
        Comparison("answers a CPU second", alone, goal, alone >= RATE_GOAL),
        Comparison.at_most(
            "99th percentile of an answer while parts come in, microseconds", slowest, MICROSECONDS_GOAL
        ),
    ]
    return Report("slots", "the dependency service in one process, over SQLite", rows, comparisons)


@contextmanager
def _reporting(dependencies: Dependencies, slots: Sequence[Slot], *, now: datetime) -> Iterator[None]:
    """Report parts in another thread."""
    done, numbers = threading.Event(), count()

    def report() -> None:
        while not done.is_set():
            number = next(numbers)
            records = {slots[number % len(slots)].start: 0}
            dependencies.report([Part("raw/foo", "a", f"more-{number}", "s3://raw/x", records=records)], now=now)

    thread = threading.Thread(target=report)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()


def _answers(dependencies: Dependencies, slots: Sequence[Slot], number: int) -> float:
    """Answers in a second of processor time of this thread and of those beside it."""
    answer = dependencies.answer
    for slot in slots:
        answer(slot)
    begun = process_time()
    for _ in range(max(number // len(slots), 1)):
        for slot in slots:
            answer(slot)
    return max(number // len(slots), 1) * len(slots) / (process_time() - begun)


def _percentile(dependencies: Dependencies, slots: Sequence[Slot], number: int) -> float:
    """The 99th percentile of an answer, in microseconds."""
    found = []
    until = perf_counter() + 30
    for each in range(number):
        slot = slots[each % len(slots)]
        begun = perf_counter_ns()
        dependencies.answer(slot)
        found.append(perf_counter_ns() - begun)
        if perf_counter() > until:
            break
    return quantiles(found, n=100)[98] / 1000
