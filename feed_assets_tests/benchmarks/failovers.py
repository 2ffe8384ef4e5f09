"""How long a workflow has no master when the present one is killed, or stands still.

Here: two masters with the usual pace on one machine, on a disk and in a bucket. Not here: what the second one reads
before it answers (`cold_starts`): the workflow is small.
"""

from __future__ import annotations

import os
import random
import signal
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from statistics import median
from time import perf_counter
from unittest.mock import patch
from uuid import uuid4

import psutil

from feed_assets.workflow.calls import Configure, Insert, Lease
from feed_assets.workflow.epochs import newest_epoch, pace_of
from feed_assets.workflow.tasks import MOST_TASKS
from feed_assets_tests.benchmarks.cold_starts import FROM, NAME, task
from feed_assets_tests.benchmarks.results import Comparison, Report, Row, timed, under_way
from feed_assets_tests.listening import listening
from feed_assets_tests.servers.versitygw import Versitygw
from feed_assets_tests.waiting import until
from feed_assets_tests.workflow.processes import client_of
from feed_assets_tests.workflow.started import USUAL_PACE, staged

TURNS = {"disk": 5, "versitygw": 3}
GOAL = 1.0
"""Seconds beyond `failover_after`."""


def measure(scratch: Path, *, quick: bool = False) -> Report:
    """Seconds from a signal to the first answer of the second master, beside `failover_after`."""
    signals = (signal.SIGKILL,) if quick else (signal.SIGKILL, signal.SIGSTOP)
    server = Versitygw(scratch / "data")
    server.start()
    rows = []
    try:
        with patch.dict(os.environ, server.environment):
            for store, turns in {"disk": 1}.items() if quick else TURNS.items():
                for number in signals:
                    under_way(f"{number.name}, {store}")
                    rows.append(_row(server, scratch, store, number, turns))
    finally:
        server.kill()
    comparisons = [
        Comparison.at_most(
            f"{row.subject}, {row.size}: seconds, at worst",
            float(row.values["max_seconds"]),
            float(row.values["failover_after"]) + GOAL,
        )
        for row in rows
    ]
    notes = [
        "From the signal to the first answer of a second master. It waits on the same machine, so it sees who is dead.",
        f"There are {MOST_TASKS:,} tasks. `failover after` has its usual value, in seconds.",
        "`call seconds`: a client's call that is sent to the first master after the signal, until it is answered.",
    ]
    return Report("failover", "from the end of a master to the first answer of the next one", rows, comparisons, notes)


def _row(server: Versitygw, scratch: Path, store: str, number: signal.Signals, turns: int) -> Row:
    found = []
    for _ in range(turns):
        bucket = f"failover-{uuid4().hex}"
        server.client().create_bucket(Bucket=bucket)
        found.append(_failover(str(scratch / bucket) if store == "disk" else f"s3://{bucket}", number))
    after, seconds, of_calls = zip(*found, strict=True)
    values = {
        "failover_after": after[0],
        "median_seconds": median(seconds),
        "max_seconds": max(seconds),
        "median_call_seconds": median(of_calls),
        "turns": turns,
    }
    return Row(store, number.name, values)


def _failover(base: str, number: signal.Signals) -> tuple[float, float, float]:
    """`failover_after`; seconds from the signal to the first answer of the second master, and to that to a call."""
    with staged(base, NAME, pace=USUAL_PACE) as stage:
        first = stage.master()
        stage.client.call(Configure, type=FROM, payload={})
        stage.client.call(Insert, tasks=tuple(task(FROM, each) for each in range(MOST_TASKS)))
        second = stage.master(waits=False)
        until(lambda: listening([psutil.Process(second.popen.pid)]))
        # It has seen signs of life, and the signal comes at any time between two of them.
        time.sleep(random.uniform(2, 3) * pace_of(stage.place).heartbeat)
        probe = client_of(stage.place)
        with ThreadPoolExecutor(1) as pool:
            begun = perf_counter()
            first.send(number)
            call = pool.submit(timed, lambda: stage.client.call(Lease, types=(FROM,)))
            until(lambda: newest_epoch(stage.place) > 1, every=0.02)
            probe.read("stats")
            return pace_of(stage.place).failover_after, perf_counter() - begun, call.result()
