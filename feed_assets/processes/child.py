"""A child process that exchanges messages with its parent, on both sides of the connection.

Here: starting it without losing Ctrl-C, sending, receiving, and ending it. Not here: who is started, and what messages
say. A child that has ended takes messages and gives none: its parent learns that from `exit_code`.
"""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing import get_context, parent_process
from multiprocessing.connection import Connection, wait
from typing import Any, Final

from feed_assets.processes.signals import interrupts_blocked

WARM_WORKER: Final = "feed_assets worker"
"""The name of a process of warm runs, by which its own children know it."""


@dataclass(frozen=True, slots=True, eq=False)
class Child:
    """A process, and the connection to it."""

    process: Any
    connection: Connection

    @classmethod
    def start(
        cls, target: Callable[..., None], *arguments: Any, name: str, context: Any = None, daemon: bool = False
    ) -> Child:
        """Start `target(connection, *arguments)` in a process, which begins with Ctrl-C blocked: see `take_signals`.

        `context` is one of multiprocessing; by default, processes are forked from a server.
        """
        context = context or get_context("forkserver")
        ours, theirs = context.Pipe()
        with interrupts_blocked():
            process = context.Process(target=target, args=(theirs, *arguments), name=name, daemon=daemon)
            process.start()
        theirs.close()
        return cls(process, ours)

    @property
    def is_alive(self) -> bool:
        """Whether it runs."""
        return bool(self.process.is_alive())

    @property
    def exit_code(self) -> int | None:
        """Its exit code; None while it runs."""
        code = self.process.exitcode
        return None if code is None else int(code)

    def send(self, message: Any) -> None:
        """Send a message, unless it has ended."""
        with suppress(OSError):
            self.connection.send(message)

    def received(self) -> Iterator[Any]:
        """The messages that have come, without waiting for others."""
        with suppress(EOFError, OSError):
            while self.connection.poll():
                yield self.connection.recv()

    def interrupt(self) -> None:
        """Send it Ctrl-C, unless it has ended."""
        with suppress(ProcessLookupError):
            os.kill(self.process.pid, signal.SIGINT)

    def terminate(self) -> None:
        """End it; its parent need not wait."""
        self.process.terminate()

    def kill(self) -> None:
        """End it at once, and wait until it has ended."""
        self.process.kill()
        self.process.join()

    def join(self) -> None:
        """Wait until it has ended; a Ctrl-C meanwhile kills it."""
        try:
            self.process.join()
        except KeyboardInterrupt:
            self.kill()


def first_ready(children: Iterable[Child], *, beside: Iterable[Any] = (), seconds: float | None = None) -> list[Any]:
    """Wait until a child has sent a message or ended, or one of `beside` can be read. Returns those of `beside`."""
    others = list(beside)
    waiting = [each for child in children for each in (child.connection, child.process.sentinel)]
    found = wait([*others, *waiting], timeout=seconds)
    return [each for each in others if each in found]


def take_signals() -> None:
    """In a child that handles Ctrl-C: take it from the parent only, not from the terminal."""
    os.setpgid(0, 0)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})


def leave_signals(*signals: signal.Signals) -> None:
    """In a child that its parent ends: ignore these signals, which terminals and supervisors send to all processes."""
    for each in signals:
        signal.signal(each, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})


def end_with_parent(code: int = os.EX_OK, *, only: str = "") -> None:
    """End this process with this exit code as soon as its parent has ended. With `only`, only if that is its name."""
    parent = parent_process()
    if parent is None or (only and parent.name != only):
        return

    def watch() -> None:
        wait([parent.sentinel])
        os._exit(code)

    threading.Thread(target=watch, name="watch-parent", daemon=True).start()
