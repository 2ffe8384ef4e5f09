"""A program that runs until Ctrl-C, and ends quietly then, with every process that it started.

Here: running it in a process group of its own, and ending that group. Not here: which program that is. A terminal sends
Ctrl-C to all processes of its foreground group at once, and each of them then says for itself that it was interrupted.
In a group of their own they get no signal from the terminal, and the program ends them in its order. What they print
reaches the terminal until then: a run that is interrupted prints a stack trace, which is in Dagster's log of it, too.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from threading import Event, Thread
from types import FrameType

ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
"""What ends the program: Ctrl-C, `kill`, and a terminal that is closed."""

GRACE = 15.0
"""Seconds in which the program, and then what it leaves behind, may end before it is made to."""


def run_until_interrupted(command: Sequence[str], *, grace: float = GRACE) -> int | None:
    """Run the command; its exit code, or None where a signal ended it. None of its processes is left in either case."""
    with _interruptible():
        process = subprocess.Popen(  # noqa: S603 - the caller's own command
            command, process_group=0, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
        )
        ending = Event()
        printing = Thread(target=_print, args=(process, ending), daemon=True)
        printing.start()
        try:
            return process.wait()
        except KeyboardInterrupt:
            ending.set()
            process.terminate()
            with suppress(subprocess.TimeoutExpired):
                process.wait(timeout=grace)
            return None
        finally:
            _end_group(process, grace)
            printing.join(grace)


@contextmanager
def _interruptible() -> Iterator[None]:
    """Turn the first of the signals into KeyboardInterrupt; the others are ignored, as the end is under way then."""

    def interrupt(_: int, __: FrameType | None) -> None:
        for each in ENDING:
            signal.signal(each, signal.SIG_IGN)
        raise KeyboardInterrupt

    before = {each: signal.signal(each, interrupt) for each in ENDING}
    try:
        yield
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)


def _print(process: subprocess.Popen[bytes], ending: Event) -> None:
    """Pass on to stderr what the group prints, until it is to end; read it all the same, so that nobody has to wait."""
    while process.stdout is not None and (printed := os.read(process.stdout.fileno(), 65536)):
        if not ending.is_set():
            sys.stderr.buffer.write(printed)
            sys.stderr.flush()


def _end_group(process: subprocess.Popen[bytes], seconds: float) -> None:
    """End what is left of the process's group: on request, and after so many seconds by force."""
    deadline = time.monotonic() + seconds
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGTERM)
        while time.monotonic() < deadline:
            process.poll()  # once it has ended, it is no member of the group any more
            os.killpg(process.pid, 0)
            time.sleep(0.1)
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
