"""How many tasks a second a workflow leases and commits, beside the usual queue in a table of PostgreSQL.

Here: a master in a process of its own, as in production, and clients in two others; all share the machine. Not here:
what the clients do (`queue_clients`), and the start of a master (`cold_starts`, `failovers`).
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from time import perf_counter
from unittest.mock import patch
from urllib.request import urlopen

import psutil
import psycopg

from feed_assets.workflow.calls import Configure, Insert
from feed_assets.workflow.tasks import MOST_TASKS, NewTask
from feed_assets_tests import ROOT
from feed_assets_tests.benchmarks import queue_clients
from feed_assets_tests.benchmarks.queue_clients import NAME, STAGE, TABLE
from feed_assets_tests.benchmarks.results import Comparison, Report, Row, Value, under_way
from feed_assets_tests.listening import family
from feed_assets_tests.servers.versitygw import Versitygw
from feed_assets_tests.state.server import new_database, postgresql
from feed_assets_tests.workflow.started import USUAL_PACE, Stage, staged

PROCESSES, THREADS = 2, 16
TASKS, QUICK_TASKS = 300_000, 20_000
SECONDS, QUICK_SECONDS = 5.0, 0.3
TURNS = 3
BUCKET = "tasks"
GOALS = {("disk", 16): 20_000, ("versitygw", 16): 10_000, ("disk", 1): 5_000}


@dataclass(slots=True)
class Subject:
    """A queue that is filled: where its clients find it, the process that holds it, and a master's URL."""

    name: str
    client: str
    address: str
    process: int
    url: str = ""
    rates: dict[int, list[float]] = field(default_factory=dict)
    values: dict[int, dict[str, Value]] = field(default_factory=dict)

    def run(self, most: int, seconds: float) -> None:
        """One turn: `most` tasks a call."""
        with _connected(self, most, seconds) as clients:
            before, cpu, of_clients = self._figures(), _cpu(self.process), clients.cpu()
            begun = perf_counter()
            tasks = clients.begin()
            took = perf_counter() - begun
            after, cpu, of_clients = self._figures(), _cpu(self.process) - cpu, clients.cpu() - of_clients
        calls = 2 * tasks / most
        self.rates.setdefault(most, []).append(tasks / took)
        self.values[most] = {
            "server_cpu_us_a_call": round(1e6 * cpu / calls),
            "client_cpu_us_a_call": round(1e6 * of_clients / calls),
        }
        if self.url:
            entries, spent = (after[each] - before[each] for each in ("count", "sum"))
            self.values[most] |= {"calls_an_entry": calls / entries, "ms_an_entry": 1000 * spent / entries}

    def row(self, most: int) -> Row:
        """The median of all turns; the other values are of the last one."""
        rates = self.rates[most]
        found = {"tasks_a_second": round(median(rates)), "min": round(min(rates)), "max": round(max(rates))}
        return Row(f"{most} a call", self.name, found | self.values[most])

    def _figures(self) -> dict[str, float]:
        if not self.url:
            return {}
        with urlopen(f"{self.url}/metrics") as answer:
            lines = answer.read().decode().splitlines()
        start = "feed_assets_workflow_entry_seconds_"
        return {each: _number(lines, f"{start}{each} ") for each in ("count", "sum")}


def measure(scratch: Path, *, quick: bool = False) -> Report:
    """Tasks leased and then committed a second, in turns; and what a call costs the server."""
    tasks, seconds, turns = (QUICK_TASKS, QUICK_SECONDS, 1) if quick else (TASKS, SECONDS, TURNS)
    server = Versitygw(scratch / "data")
    server.start()
    try:
        server.client().create_bucket(Bucket=BUCKET)
        with (
            patch.dict(os.environ, server.environment),
            _workflow("disk", str(scratch / "base"), tasks) as disk,
            _workflow("versitygw", f"s3://{BUCKET}", tasks) as bucket,
            _table(tasks) as peer,
        ):
            cases = [(disk, 16), (peer, 16), (bucket, 16), (disk, 1), (peer, 1)]
            for turn in range(turns):
                for subject, most in cases:
                    under_way(f"turn {turn + 1}: {subject.name}, {most} a call")
                    subject.run(most, seconds)
    finally:
        server.kill()
    comparisons = [_goal(each, most) for each, most in cases if each is not peer]
    comparisons += [
        Comparison(
            f"{most} a call: workflow on a disk / PostgreSQL", median(disk.rates[most]) / median(peer.rates[most])
        )
        for most in (16, 1)
    ]
    notes = [
        "Counted are tasks that were leased by one call and committed by another one; both were durable when answered.",
        f"{PROCESSES} processes of {THREADS} clients each share the machine with the server; a client awaits answers.",
        "`calls an entry`: those that one write of the journal makes durable; `ms an entry`: how long that takes.",
        "PostgreSQL: UPDATE ... SKIP LOCKED ... RETURNING with a deadline, and a DELETE that checks the lease, are a",
        "transaction each; fsync and synchronous_commit are on.",
    ]
    return Report(
        "tasks", "tasks leased and committed a second", [each.row(most) for each, most in cases], comparisons, notes
    )


@contextmanager
def _workflow(store: str, base: str, tasks: int) -> Iterator[Subject]:
    with staged(base, NAME, pace=USUAL_PACE) as stage:
        master = stage.master(waits=False)
        url = master.line().split()[1]
        under_way(f"{tasks:,} tasks on {store}")
        fill(stage, tasks)
        yield Subject(f"workflow, {store}", "workflow", base, master.popen.pid, url)


def fill(stage: Stage, tasks: int) -> None:
    """Configure a stage of the workflow, and insert tasks for it."""
    stage.client.call(Configure, type=STAGE, payload={"most": tasks})
    for start in range(0, tasks, MOST_TASKS):
        orders = range(start, start + MOST_TASKS)
        stage.client.call(Insert, tasks=tuple(NewTask(STAGE, {"order": each}) for each in orders))


@contextmanager
def _table(tasks: int) -> Iterator[Subject]:
    with postgresql(fsync=True) as server:
        url = new_database(server)
        with psycopg.connect(url) as connection:
            connection.execute(TABLE)
            rows = "INSERT INTO tasks (payload) SELECT jsonb_build_object('order', i) FROM generate_series(1, %s) AS i"
            connection.execute(rows, (tasks,))
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute("VACUUM ANALYZE tasks")
            # While it is connected: its own process ends with the connection.
            parent = psutil.Process(connection.info.backend_pid).ppid()
        yield Subject("PostgreSQL", "postgresql", url, parent)


@dataclass(slots=True)
class _Clients:
    processes: Sequence[subprocess.Popen[str]]

    def begin(self) -> int:
        """Let them begin; returns the number of tasks when all have ended."""
        for each in self.processes:
            _tell(each)
        return sum(int(_answer(each)) for each in self.processes)

    def cpu(self) -> float:
        """The seconds that they have spent so far."""
        return sum(_cpu(each.pid) for each in self.processes)


@contextmanager
def _connected(subject: Subject, most: int, seconds: float) -> Iterator[_Clients]:
    command = [sys.executable, "-m", queue_clients.__name__, subject.client, subject.address]
    command += [str(THREADS), str(most), str(seconds)]
    processes = [
        subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        for _ in range(PROCESSES)
    ]
    try:
        for each in processes:
            _answer(each)
        yield _Clients(processes)
        for each in processes:
            _tell(each)
            each.wait()
    finally:
        for each in processes:
            each.kill()
            each.communicate()


def _tell(process: subprocess.Popen[str]) -> None:
    assert process.stdin is not None
    process.stdin.write("\n")
    process.stdin.flush()


def _answer(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    line = process.stdout.readline()
    if not line:
        raise AssertionError("A process of clients has ended; stderr has its reason.")
    return line


def _cpu(process_id: int) -> float:
    """The seconds that a process and all that it has started have spent so far."""
    return sum(sum(each.cpu_times()[:4]) for each in family(process_id))


def _number(lines: Sequence[str], start: str) -> float:
    return next(float(each.removeprefix(start)) for each in lines if each.startswith(start))


def _goal(subject: Subject, most: int) -> Comparison:
    goal, rate = GOALS[subject.name.removeprefix("workflow, "), most], median(subject.rates[most])
    return Comparison(f"{subject.name}, {most} a call: tasks a second", rate, f">= {goal:,}", rate >= goal)
