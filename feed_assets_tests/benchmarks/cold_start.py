"""What a new master of a workflow reads before it answers, in a process of its own.

    python -m feed_assets_tests.benchmarks.cold_start BASE NAME

reads the newest snapshot and the entries since, as a candidate does, builds the queues, and prints what each has cost
as JSON. Not here: making them (`masters`).
"""

from __future__ import annotations

import gc
import json
import resource
import sys
import time
from dataclasses import asdict, dataclass

import psutil

from feed_assets.workflow.history import follow
from feed_assets.workflow.machine import Machine
from feed_assets.workflow.places import open_board, open_workflow
from feed_assets.workflow.snapshots import listed, load_newest
from feed_assets.workflow.state import State


@dataclass(frozen=True, slots=True)
class ColdStart:
    """CPU seconds of each step, seconds of all, and how much memory the state and its queues take in the end."""

    snapshot_cpu_seconds: float
    replay_cpu_seconds: float
    queues_cpu_seconds: float
    seconds: float
    tasks: int
    mutations: int
    bytes: int
    peak_bytes: int


def start(base: str, name: str) -> ColdStart:
    """Read a workflow. Nothing of it changes."""
    place = open_workflow(open_board(base), name)
    process = psutil.Process()
    gc.collect()
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
    used, peak = process.memory_info().rss - before, _peak() - before
    steps = [after - at for at, after in zip(cpu, cpu[1:], strict=False)]
    return ColdStart(*steps, seconds, len(machine.state.tasks), state.position - position, used, peak)


def _peak() -> int:
    """The most bytes of memory that this process has had."""
    return 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


if __name__ == "__main__":
    print(json.dumps(asdict(start(*sys.argv[1:]))))
