"""The processes of the act about the workflow: task masters, and a worker that is killed.

Here: starting and ending them. They are forked, so they begin within a second. Not here: what the act does with them.
"""

from __future__ import annotations

import logging
import os
import signal
import socket
import time
from collections.abc import Callable
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from multiprocessing.connection import Connection
from typing import Any, Final, NoReturn

from feed_assets.processes.child import Child, end_with_parent
from feed_assets.serving.tokens import KnownTokens
from feed_assets.state.store import Store
from feed_assets.workflow.calls import Lease
from feed_assets.workflow.client import Client
from feed_assets.workflow.epochs import newest_address
from feed_assets.workflow.places import open_board, open_workflow
from feed_assets.workflow.running import run_master

SHORT_LEASE: Final = 5.0
"""Seconds for which the worker that is killed leases its task."""
WITHIN: Final = 60.0
"""Seconds within which a process must answer."""


@dataclass(slots=True)
class Processes:
    """The processes of one workflow; `closing` kills those that are left."""

    base: str
    name: str
    state: str
    closing: ExitStack
    _all: list[Child] = field(default_factory=list)

    def master(self) -> Master:
        """Start a process that becomes the master as soon as there is no other."""
        return Master(self._start(_reign, self.base, self.name, self.state))

    def killed_worker(self, stage: str, digest: str) -> int:
        """Let a worker process lease a task of a stage, and kill it; returns the task's unit."""
        worker = self._start(_lease, self.base, self.name, stage, digest)
        unit = int(answer_of(worker))
        worker.kill()
        return unit

    def _start(self, target: Callable[..., None], *arguments: Any) -> Child:
        child = Child.start(target, *arguments, name=f"workflow-{self.name}")
        self.closing.callback(_end, child)
        self._all.append(child)
        return child


@dataclass(frozen=True, slots=True)
class Master:
    """A process that is a master or waits to be one."""

    child: Child

    def epoch(self) -> int:
        """The epoch in which it reigns, once it does. Raises RuntimeError."""
        return int(answer_of(self.child))

    def stand_still(self) -> None:
        """Stop it as a machine that swaps does: SIGSTOP."""
        os.kill(self.child.process.pid, signal.SIGSTOP)

    def go_on(self) -> str:
        """Let it go on, and wait until it has ended; returns its exit code and what it said."""
        os.kill(self.child.process.pid, signal.SIGCONT)
        said = str(answer_of(self.child))
        self.child.process.join(WITHIN)
        return f"exit code {self.child.exit_code}: {said}"


def answer_of(child: Child) -> Any:
    """The next message of a process. Raises RuntimeError if it does not come."""
    try:
        if child.connection.poll(WITHIN):
            return child.connection.recv()
    except (EOFError, OSError):
        child.process.join(WITHIN)
    raise RuntimeError(f"{child.process.name} did not answer; its exit code is {child.exit_code}.")


def client_of(base: str, name: str, build: str) -> Client:
    """A client of the workflow's master, wherever that is."""
    place = open_workflow(open_board(base), name)

    def find() -> str | None:
        found = newest_address(place)
        return found.url if found else None

    return Client(place.token, find, build)


def _reign(parent: Connection, base: str, name: str, state: str) -> None:
    """Be a master as `feed-assets workflow serve` is; tell the parent the epoch, and at last why it ends."""
    end_with_parent()
    logging.getLogger().addHandler(_LastWords(parent))
    listening = socket.create_server(("127.0.0.1", 0))
    url = f"http://127.0.0.1:{listening.getsockname()[1]}"
    tokens = KnownTokens(Store(state))
    tokens.refresh()
    place = open_workflow(open_board(base), name)
    run_master(place, listening, url, tokens=tokens, now=lambda: datetime.now(UTC), ready=parent.send)


class _LastWords(logging.Handler):
    """Sends what a master says as it ends to the parent, and nothing to the terminal."""

    def __init__(self, parent: Connection) -> None:
        super().__init__(logging.CRITICAL)
        self._parent = parent

    def emit(self, record: logging.LogRecord) -> None:
        with suppress(OSError):
            self._parent.send(record.getMessage())


def _lease(parent: Connection, base: str, name: str, stage: str, digest: str) -> NoReturn:
    """Lease a task of a stage, tell the parent its unit, and do nothing."""
    end_with_parent()
    client = client_of(base, name, "a worker that is killed")
    reply = client.call(Lease, types=(stage,), seconds=SHORT_LEASE, digests={stage: digest})
    parent.send(reply.tasks[0].unit)
    while True:
        time.sleep(WITHIN)


def _end(child: Child) -> None:
    """Kill a process, whatever its state."""
    if child.is_alive:
        child.kill()
    child.connection.close()
