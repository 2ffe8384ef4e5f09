"""The start of a master of a workflow: what it reads first, and how long a workflow has none after a failure.

Here: a workflow of a million tasks, and masters with the usual pace that are killed and stopped. Not here: reading a
workflow (`cold_start`), and calls of a master that runs (`task_queues`).
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any
from unittest.mock import patch

import psutil

from feed_assets.workflow.calls import Answer, Commit, Configure, Hello, Insert, Lease
from feed_assets.workflow.epochs import newest_epoch, pace_of
from feed_assets.workflow.machine import Machine
from feed_assets.workflow.places import Place, create_workflow, open_board
from feed_assets.workflow.reigns import take_over
from feed_assets.workflow.snapshots import snapshot_once
from feed_assets.workflow.state import State
from feed_assets.workflow.tasks import MOST_TASKS, NewTask
from feed_assets_tests.benchmarks import cold_start
from feed_assets_tests.benchmarks.results import Comparison, Report, Row, timed, under_way
from feed_assets_tests.listening import listening
from feed_assets_tests.servers.versitygw import Versitygw
from feed_assets_tests.waiting import until
from feed_assets_tests.workflow.processes import client_of
from feed_assets_tests.workflow.started import USUAL_PACE, staged

NAME = "orders"
FROM, TO = "split", "convert"
TASKS, QUICK_TASKS = 1_000_000, 5_000
MUTATIONS, QUICK_MUTATIONS = 100_000, 1_000
SESSIONS = 32
"""As many clients as mutations in an entry."""
TURNS = 3
CPU_GOAL, BYTES_GOAL, FAILOVER_GOAL = 3.0, 700.0, 1.0
BUCKET = "failover"


def measure(scratch: Path, *, quick: bool = False) -> Report:
    """CPU seconds and memory of a cold start; seconds from the end of a master to the first answer of the next one."""
    tasks, mutations = (QUICK_TASKS, QUICK_MUTATIONS) if quick else (TASKS, MUTATIONS)
    rows, comparisons = [], []
    for at_once in (1,) if quick else (1, 16):
        base = str(scratch / f"cold-{at_once}")
        under_way(f"{tasks:,} tasks, {mutations:,} mutations of {at_once}")
        _Filled.at(base).fill(tasks, mutations, at_once)
        rows.append(Row(f"{tasks:,} tasks", f"cold start, {at_once} a call", found := _cold_start(base)))
        if at_once == 1:
            goal = None if quick else CPU_GOAL
            comparisons.append(Comparison.at_most("cold start: CPU seconds", found["cpu_seconds"], goal))
            comparisons.append(Comparison.at_most("bytes a task", found["bytes_a_task"], None if quick else BYTES_GOAL))
    failures = {"SIGKILL": signal.SIGKILL} if quick else {"SIGKILL": signal.SIGKILL, "SIGSTOP": signal.SIGSTOP}
    for name, number in failures.items():
        turns = 1 if quick else TURNS
        bases = [str(scratch / f"{name}-{turn}") for turn in range(turns)]
        row = _failover("disk", name, [partial(_answered_again, base, number) for base in bases], open_board(bases[0]))
        rows.append(row)
    if not quick:
        rows += _in_a_bucket(scratch, failures)
    comparisons += [
        Comparison.at_most(
            f"{row.size}, {row.subject}: seconds, at worst",
            float(row.values["max_seconds"]),
            float(row.values["failover_after"]) + FAILOVER_GOAL,
        )
        for row in rows
        if "failover_after" in row.values
    ]
    notes = [
        f"Cold start: a snapshot of all tasks, each with a payload and the name of a file; then {mutations:,} mutations, "
        f"half of them leases, half commits that make as many new tasks, {SESSIONS} in an entry. CPU of all threads.",
        "`cpu seconds` are of snapshot, replay and queues together. Bytes are the growth of the resident memory.",
        "Failover: from the signal to the first answer of a second master that waits on the same machine, which sees "
        "there that a process is dead. `call under way`: a client's, sent to the first master after the signal.",
    ]
    return Report("masters", "the start of a master", rows, comparisons, notes)


# --- cold start ---------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class _Filled:
    """A workflow that is filled without HTTP, by the state machine and the journal of a reign."""

    place: Place
    machine: Machine
    write: Callable[[list[bytes]], None]
    pending: list[bytes]
    resign: Callable[[], None]
    sessions: list[str] = field(default_factory=list)
    numbers: dict[str, int] = field(default_factory=dict)

    @classmethod
    def at(cls, base: str) -> _Filled:
        place = create_workflow(open_board(base), NAME)
        reign, state = take_over(place, State.load, address="", start_heart=lambda _: None)
        pending: list[bytes] = []
        machine = Machine(state, place.token, reign.epoch, pending.append, now=0.0, wall=time.time)

        def write(mutations: list[bytes]) -> None:
            reign.append(state.position - len(mutations) + 1, mutations)

        return cls(place, machine, write, pending, reign.resign)

    def fill(self, tasks: int, mutations: int, at_once: int) -> None:
        """Insert tasks and make a snapshot; then lease and commit, so many tasks a call."""
        for _ in range(SESSIONS):
            hello = self.machine.answer(Hello(token=self.place.token), 0.0)
            self.sessions.append(hello.session)
        self._call(Configure, type=FROM, payload={"most": 2 * tasks})
        configuration = self.machine.state.configurations[FROM].id
        for start in range(0, tasks, MOST_TASKS):
            orders = range(start, start + MOST_TASKS)
            self._call(Insert, tasks=tuple(_task(FROM, each) for each in orders))
            self._flush()
        snapshot_once(self.place, State.load)
        for _ in range(mutations // 2 // SESSIONS):
            for session in self.sessions:
                ids = self._call(Lease, session, types=(FROM,), most=at_once).ids
                produce = tuple(_task(TO, each) for each in ids)
                self._call(Commit, session, consume=ids, configurations={FROM: configuration}, produce=produce)
            self._flush()
        self.resign()

    def _call(self, kind: Any, session: str = "", **arguments: Any) -> Answer:
        session = session or self.sessions[0]
        self.numbers[session] = number = self.numbers.get(session, 0) + 1
        return self.machine.answer(kind(token=self.place.token, session=session, seq=number, **arguments), 0.0)

    def _flush(self) -> None:
        self.write(self.pending)
        self.pending.clear()


def _task(kind: str, number: int) -> NewTask:
    payload = {"day": f"2024-05-{number % 28 + 1:02}", "order": number, "country": "FR"}
    return NewTask(kind, payload, files=(f"revenue/attempts/2024-05-20/{number:020}/part-0.parquet",))


def _cold_start(base: str) -> dict[str, Any]:
    command = [sys.executable, "-m", cold_start.__name__, base, NAME]
    found = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)
    each = {name: value for name, value in found.items() if name.endswith("_seconds")}
    return {
        "mutations": found["mutations"],
        "cpu_seconds": sum(each.values()),
        **each,
        "seconds": found["seconds"],
        "bytes_a_task": found["bytes"] / found["tasks"],
        "peak_bytes_a_task": found["peak_bytes"] / found["tasks"],
    }


# --- failover -----------------------------------------------------------------------------------------------------


def _in_a_bucket(scratch: Path, failures: Mapping[str, signal.Signals]) -> list[Row]:
    server = Versitygw(scratch / "data")
    server.start()
    rows = []
    try:
        with patch.dict(os.environ, server.environment):
            for name, number in failures.items():
                base = f"s3://{BUCKET}-{name.lower()}"
                server.client().create_bucket(Bucket=base.removeprefix("s3://"))
                rows.append(_failover("versitygw", name, [partial(_answered_again, base, number)], open_board(base)))
    finally:
        server.kill()
    return rows


def _failover(store: str, name: str, turns: list[Callable[[], tuple[float, float]]], board: Any) -> Row:
    found = []
    for turn in turns:
        under_way(f"failover on {store} after {name}")
        found.append(turn())
    seconds, of_a_call = zip(*found, strict=True)
    values = {
        "failover_after": pace_of(create_workflow(board, NAME)).failover_after,
        "median_seconds": median(seconds),
        "max_seconds": max(seconds),
        "call_under_way_seconds": median(of_a_call),
    }
    return Row(store, f"failover after {name}", values)


def _answered_again(base: str, number: signal.Signals) -> tuple[float, float]:
    """Seconds from a signal to the first master to the first answer of the second one, and to that of a call."""
    with staged(base, NAME, pace=USUAL_PACE) as stage:
        first = stage.master()
        stage.client.call(Configure, type=FROM, payload={})
        stage.client.call(Insert, tasks=tuple(_task(FROM, each) for each in range(MOST_TASKS)))
        second = stage.master(waits=False)
        until(lambda: listening([psutil.Process(second.popen.pid)]))
        time.sleep(2 * pace_of(stage.place).heartbeat)  # it has seen signs of life
        probe = client_of(stage.place)
        with ThreadPoolExecutor(1) as pool:
            begun = perf_counter()
            first.send(number)
            call = pool.submit(timed, lambda: stage.client.call(Lease, types=(FROM,)))
            until(lambda: newest_epoch(stage.place) > 1, every=0.02)
            probe.read("stats")
            return perf_counter() - begun, call.result()
