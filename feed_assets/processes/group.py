"""Run a program until Ctrl-C; then end it quietly, with every process that it started.

Here: running a program in its own process group, and ending the group. Not here: which program that is. A terminal
sends Ctrl-C to all processes of its foreground group, and each would print a stack trace. In their own group the
processes get no signal from the terminal, and the program ends them in its order. After Ctrl-C nothing they print
reaches the terminal.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from threading import Event, Thread

from feed_assets.processes.signals import ended_by_signals

GRACE = 15.0
"""Seconds that the program, and then the rest of its group, have to end before SIGKILL."""

START_AGAIN_AFTER = 60.0
"""Seconds between two starts of the program beside it."""


def run_until_interrupted(
    command: Sequence[str], beside: Sequence[str] | None = None, *, say: Callable[[str], None]
) -> int | None:
    """Run the command, and the one beside it; end all their processes when it ends.

    If the one beside it fails, it starts again, at most once a minute, and `say` gets a sentence. Returns the exit
    code of the command; None if a signal ended it.
    """
    with ended_by_signals():
        reading, writing = os.pipe()
        process = _started(command, 0, writing)
        other = _started(beside, process.pid, writing) if beside else None
        ending = Event()
        printing = Thread(target=_print, args=(reading, ending), daemon=True)
        printing.start()
        try:
            started = time.monotonic()
            while (code := _waited(process)) is None:
                if beside and other and other.poll() and time.monotonic() - started > START_AGAIN_AFTER:
                    say(f"{' '.join(beside)} ended with exit code {other.returncode}, and starts again.")
                    started, other = time.monotonic(), _started(beside, process.pid, writing)
        except KeyboardInterrupt:
            ending.set()
            process.terminate()
            with suppress(subprocess.TimeoutExpired):
                process.wait(timeout=GRACE)
            code = None
        finally:
            os.close(writing)
            _end_group([each for each in (process, other) if each])
            printing.join(GRACE)
    return code


def _started(command: Sequence[str], group: int, output: int) -> subprocess.Popen[bytes]:
    return subprocess.Popen(  # noqa: S603 - the caller's own command
        command, process_group=group, stdout=output, stderr=subprocess.STDOUT
    )


def _waited(process: subprocess.Popen[bytes]) -> int | None:
    """The exit code of a process that ends within a second."""
    try:
        return process.wait(timeout=1)
    except subprocess.TimeoutExpired:
        return None


def _print(reading: int, ending: Event) -> None:
    """Copy the group's output to stderr until `ending`; then drop it, so that no process blocks on a full pipe."""
    with open(reading, "rb", buffering=0) as output:
        while printed := output.read(65536):
            if not ending.is_set():
                sys.stderr.buffer.write(printed)
                sys.stderr.flush()


def _end_group(processes: Sequence[subprocess.Popen[bytes]]) -> None:
    """End the rest of the group of the first process: with SIGTERM, and after GRACE with SIGKILL."""
    deadline, group = time.monotonic() + GRACE, processes[0].pid
    with suppress(ProcessLookupError):
        os.killpg(group, signal.SIGTERM)
        while time.monotonic() < deadline:
            for each in processes:
                each.poll()  # reap it, or the group never becomes empty
            os.killpg(group, 0)
            time.sleep(0.1)
        os.killpg(group, signal.SIGKILL)
    for each in processes:
        each.wait()
