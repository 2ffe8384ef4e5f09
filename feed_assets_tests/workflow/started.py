"""Masters and workers of `processes`, started for a test, and a producer in the test's own process.

Here: starting them, hearing what they say, and ending all of them. Not here: what is done to them.
"""

from __future__ import annotations

import os
import queue
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Final, Self

import psutil

from feed_assets.workflow.calls import Configure, Insert
from feed_assets.workflow.client import Client
from feed_assets.workflow.places import Place, create_workflow, open_board
from feed_assets.workflow.tasks import NewTask
from feed_assets_tests import ROOT
from feed_assets_tests.waiting import HANGS, until
from feed_assets_tests.workflow.processes import client_of, flow_of

FAILOVER_AFTER: Final = 1.0
QUICK_PACE: Final = ("--failover-after", str(FAILOVER_AFTER))
USUAL_PACE: Final = ("--usual-pace",)


@dataclass(slots=True)
class Process:
    """A process, and the lines that it writes to stdout."""

    popen: subprocess.Popen[str]
    lines: queue.SimpleQueue[str] = field(default_factory=queue.SimpleQueue)
    errors: list[str] = field(default_factory=list)
    _threads: list[threading.Thread] = field(default_factory=list)

    def follow(self) -> Self:
        """Read what it says from now on."""

        def read() -> None:
            for line in self.popen.stdout or ():
                self.lines.put(line.strip())

        def complain() -> None:
            for line in self.popen.stderr or ():
                self.errors.append(line.strip())

        self._threads = [threading.Thread(target=each, daemon=True) for each in (read, complain)]
        for each in self._threads:
            each.start()
        return self

    def line(self) -> str:
        """The next line that it writes."""
        return self.lines.get(timeout=HANGS)

    def until_line(self, start: str) -> str:
        """The next line that begins so."""
        while not (line := self.line()).startswith(start):
            pass
        return line

    def send(self, number: signal.Signals) -> None:
        """Send it a signal."""
        self.popen.send_signal(number)

    def ended(self) -> int:
        """Its exit code, once it has ended, and everything that it said was read."""
        code = self.popen.wait(HANGS)
        for each in self._threads:
            each.join(HANGS)
        return code

    def stopped(self) -> bool:
        """Whether it has stopped itself."""
        return psutil.Process(self.popen.pid).status() == psutil.STATUS_STOPPED


@dataclass(slots=True)
class Stage:
    """A workflow on a base, whose processes a test starts; all are killed at the end."""

    base: str
    name: str
    environment: Mapping[str, str]
    place: Place
    pace: Sequence[str] = QUICK_PACE
    processes: list[Process] = field(default_factory=list)
    _client: Client | None = None

    def master(self, *options: str, waits: bool = True) -> Process:
        """A new master, once it reigns, or has ended; `waits`: or at once."""
        process = self._start("master", *self.pace, *options)
        if waits:
            process.line()
        return process

    def worker(self, *options: str) -> Process:
        """A new worker."""
        return self._start("worker", *options)

    @property
    def client(self) -> Client:
        """A client of the test."""
        if self._client is None:
            self._client = client_of(self.place)
        return self._client

    def configure(self, **rates: int) -> None:
        """Bring the configuration of the flow into force."""
        for each in flow_of(self.name).stages.values():
            payload = {**each.configuration, "attempts": 100}
            if rates and each.name == "convert":
                payload["parameters"] = rates
            present = [task["id"] for task in self.tasks("configuration") if task.get("key") == each.name]
            self.client.call(Configure, type=each.name, payload=payload, replaces=present[0] if present else 0)

    def insert(self, *orders: int, stage: str = "split") -> None:
        """Insert orders; each is acknowledged when this returns."""
        self.client.call(Insert, tasks=tuple(NewTask(stage, {"order": each}) for each in orders))

    def tasks(self, group: str) -> list[dict[str, Any]]:
        """The tasks of a group."""
        found: list[dict[str, Any]] = self.client.read("tasks", group=group)["tasks"]
        return found

    def drained(self) -> None:
        """Return when no task is left."""
        until(lambda: not self.client.read("tasks")["tasks"])

    def _start(self, role: str, *options: str) -> Process:
        command = [sys.executable, "-m", "feed_assets_tests.workflow.processes", role, self.base, self.name, *options]
        popen = subprocess.Popen(
            command,
            cwd=ROOT,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, **self.environment},
        )
        self.processes.append(Process(popen).follow())
        return self.processes[-1]


@contextmanager
def staged(
    base: str, name: str = "orders", environment: Mapping[str, str] | None = None, *, pace: Sequence[str] = QUICK_PACE
) -> Iterator[Stage]:
    """A workflow on a base, and its processes until the end of the block. `pace`: that of its masters."""
    stage = Stage(base, name, environment or {}, create_workflow(open_board(base), name), pace)
    try:
        yield stage
    finally:
        for each in stage.processes:
            each.popen.kill()
        for each in stage.processes:
            each.ended()
