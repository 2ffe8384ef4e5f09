"""Ctrl-C and the other signals that end a program.

Here: putting Ctrl-C off, sending it again where Python drops it, and one error for all signals that end a program. This
loads nothing large. Not here: what a command says when it ends (`cli.exit_codes`), and Ctrl-C while Spark starts
(`engine.session`).
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Event, Timer
from types import FrameType
from typing import Final

INTERRUPTS: Final = {"KeyboardInterrupt", "DagsterExecutionInterruptedError"}
"""The errors that Python and Dagster raise for Ctrl-C. By name: importing Dagster takes a second."""
AGAIN_AFTER: Final = 0.05
"""Seconds after which the callback that dropped Ctrl-C has ended."""


ENDING: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
"""The signals that end a program: Ctrl-C, `kill`, and a closed terminal."""


@contextmanager
def ended_by_signals() -> Iterator[None]:
    """Turn the first of the signals that end a program into KeyboardInterrupt, and ignore those that follow."""

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


@contextmanager
def stopped_by_signals() -> Iterator[Event]:
    """An event that SIGTERM and Ctrl-C set while the block runs, for work that ends where it can."""
    stop = Event()
    before = {each: signal.signal(each, lambda *_: stop.set()) for each in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield stop
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)


@contextmanager
def interrupts_blocked() -> Iterator[None]:
    """Block Ctrl-C while processes are started. They inherit that, and unblock it when they can handle it."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


@contextmanager
def lost_interrupts_repeated() -> Iterator[None]:
    """Send Ctrl-C once more if Python drops it inside this block; never after the block.

    Python drops errors in callbacks: many run while modules load, and one for each Java object that is released.
    """
    before, repetitions = sys.unraisablehook, list[Timer]()

    def repeat(lost: sys.UnraisableHookArgs) -> None:
        if lost.exc_type.__name__ in INTERRUPTS:
            # To the process: a signal of the timer's thread would not wake the main thread while it waits.
            repetitions.append(Timer(AGAIN_AFTER, os.kill, [os.getpid(), signal.SIGINT]))
            repetitions[-1].start()
        else:
            before(lost)

    sys.unraisablehook = repeat
    try:
        yield
    finally:
        sys.unraisablehook = before
        for each in repetitions:
            each.cancel()
