"""Which process this is, for others on the same machine who ask whether it still lives.

A number alone does not tell: numbers are used again, and containers count their own. Not here: what follows from a
death.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from uuid import uuid4


@dataclass(frozen=True, slots=True)
class Identity:
    """A process: where its number counts, its number, and when it started (in the kernel's ticks, "" if unknown)."""

    machine: str
    pid: int
    started: str


@cache
def this_boot() -> str:
    """Identifies this start of the machine: its processes share `time.monotonic`."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="utf-8").strip()
    except OSError:  # a system that shows none: each process counts as a machine
        return uuid4().hex


def this_process() -> Identity:
    """The identity of the process that asks."""
    return Identity(_machine(), os.getpid(), _started(os.getpid()) or "")


def is_dead(process: Identity) -> bool:
    """Whether the process has certainly ended. False if it may run on another machine, or in another container."""
    return bool(process.started) and process.machine == _machine() and _started(process.pid) != process.started


def _machine() -> str:
    try:
        return f"{this_boot()} {Path('/proc/self/ns/pid').readlink()}"
    except OSError:
        return this_boot()


def _started(pid: int) -> str | None:
    """When the process with this number started; None if there is none, or nothing is left but its exit code."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
    except OSError:
        return None
    return None if state[0] in {"Z", "X"} else state[19]
