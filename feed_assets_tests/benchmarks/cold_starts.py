"""What a new master of a workflow reads before it answers: a snapshot of a million tasks, and the entries since.

    python -m feed_assets_tests.benchmarks.cold_starts BASE

reads a workflow in a process of its own, as a candidate does, builds the queues, and prints what each has cost as JSON.
Here: making such a workflow, and reading it. Not here: how long a workflow has no master (`failovers`).
"""

from __future__ import annotations

import gc
import json
import subprocess
import sys
import time
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import psutil

from feed_assets.workflow.calls import Answer, Commit, Configure, Hello, Insert, Lease
from feed_assets.workflow.history import follow
from feed_assets.workflow.machine import Machine
from feed_assets.workflow.places import create_workflow, open_board, open_workflow
from feed_assets.workflow.reigns import Reign, take_over
from feed_assets.workflow.snapshots import listed, load_newest, snapshot_once
from feed_assets.workflow.state import State
from feed_assets.workflow.tasks import MOST_TASKS, NewTask
from feed_assets_tests import ROOT
from feed_assets_tests.benchmarks.results import Comparison, Report, Row, under_way

NAME = "orders"
FROM, TO = "split", "convert"
TASKS, QUICK_TASKS = 1_000_000, 5_000
MUTATIONS, QUICK_MUTATIONS = 100_000, 1_000
SESSIONS = 32
"""Clients, each with a call under way: as many mutations are in an entry."""
CPU_GOAL, BYTES_GOAL = 3.0, 700.0


def measure(scratch: Path, *, quick: bool = False) -> Report:
    """CPU seconds of each step, and the memory of the tasks and their queues."""
    tasks, mutations = (QUICK_TASKS, QUICK_MUTATIONS) if quick else (TASKS, MUTATIONS)
    rows = []
    for at_once in (1,) if quick else (1, 16):
        under_way(f"{tasks:,} tasks, {mutations:,} mutations of {at_once}")
        base = str(scratch / str(at_once))
        _Filling(base).fill(tasks, mutations, at_once)
        command = [sys.executable, "-m", __name__, base]
        found = json.loads(subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.PIPE).stdout)
        rows.append(Row(f"{tasks:,} tasks", f"{found.pop('mutations'):,} mutations of {at_once}", found))
    values = rows[0].values
    comparisons = [
        Comparison.at_most("CPU seconds", float(values["cpu_seconds"]), None if quick else CPU_GOAL),
        Comparison.at_most("bytes a task", float(values["bytes_a_task"]), None if quick else BYTES_GOAL),
    ]
    notes = [
        "A task has a payload of 50 bytes, and the name of a file, of 63 bytes. All is on a disk.",
        f"Half of the mutations are leases, half commits, which make as many new tasks; {SESSIONS} are in an entry.",
        "`cpu seconds`, of all threads, is the sum of snapshot, replay and queues.",
        "`bytes a task`: by the growth of the resident memory.",
    ]
    return Report("cold-start", "what a new master reads before it answers", rows, comparisons, notes)


def task(kind: str, number: int) -> NewTask:
    """A task as stages make them."""
    payload = {"day": f"2024-05-{number % 28 + 1:02}", "order": number, "country": "FR"}
    return NewTask(kind, payload, files=(f"revenue/attempts/2024-05-20/{number:020}/part-0.parquet",))


class _Filling:
    """Fills a workflow without HTTP: with the state machine, and the journal of a reign."""

    def __init__(self, base: str) -> None:
        self._place = create_workflow(open_board(base), NAME)
        self._reign: Reign
        self._reign, state = take_over(self._place, State.load, address="", start_heart=lambda _: None)
        self._pending: list[bytes] = []
        write = self._pending.append
        self._machine = Machine(state, self._place.token, self._reign.epoch, write, now=0.0, wall=time.time)
        self._numbers: dict[str, int] = {}

    def fill(self, tasks: int, mutations: int, at_once: int) -> None:
        """Insert tasks and make a snapshot; then lease and commit, so many tasks a call."""
        hello = Hello(token=self._place.token)
        sessions = [self._machine.answer(hello, 0.0).session for _ in range(SESSIONS)]
        (configuration,) = self._call(Configure, sessions[0], type=FROM, payload={"most": 2 * tasks}).ids
        for orders in _pages(tasks):
            self._call(Insert, sessions[0], tasks=tuple(task(FROM, each) for each in orders))
            self._write()
        snapshot_once(self._place, State.load)
        for _ in range(mutations // 2 // SESSIONS):
            for each in sessions:
                ids = self._call(Lease, each, types=(FROM,), most=at_once).ids
                produce = tuple(task(TO, number) for number in ids)
                self._call(Commit, each, consume=ids, configurations={FROM: configuration}, produce=produce)
            self._write()
        self._reign.resign()

    def _call(self, kind: Any, session: str, **arguments: Any) -> Answer:
        self._numbers[session] = number = self._numbers.get(session, 0) + 1
        return self._machine.answer(kind(token=self._place.token, session=session, seq=number, **arguments), 0.0)

    def _write(self) -> None:
        self._reign.append(self._machine.state.position - len(self._pending) + 1, self._pending)
        self._pending.clear()


def _pages(tasks: int) -> Iterator[range]:
    return (range(start, min(start + MOST_TASKS, tasks)) for start in range(0, tasks, MOST_TASKS))


def read(base: str) -> dict[str, float]:
    """Read a workflow as a candidate does. Nothing of it changes."""
    place = open_workflow(open_board(base), NAME)
    process = psutil.Process()
    before, begun = process.memory_info().rss, time.perf_counter()
    cpu = [time.process_time()]
    state, cursor, _ = load_newest(place, State.load, listed(place))
    cpu.append(time.process_time())
    position = state.position
    follow(place, state, cursor)
    cpu.append(time.process_time())
    machine = Machine(state, place.token, 0, lambda _: None, now=0.0, wall=time.time)
    cpu.append(time.process_time())
    seconds = time.perf_counter() - begun
    gc.collect()
    steps = dict(zip(("snapshot", "replay", "queues"), (end - start for start, end in pairwise(cpu)), strict=True))
    return {
        "mutations": state.position - position,
        "cpu_seconds": cpu[-1] - cpu[0],
        **steps,
        "seconds": seconds,
        "bytes_a_task": (process.memory_info().rss - before) / len(machine.state.tasks),
    }


if __name__ == "__main__":
    print(json.dumps(read(sys.argv[1])))
