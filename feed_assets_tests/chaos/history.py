"""Histories: what each worker did, and when, in a file of its own that survives the worker.

Here: writing and reading them. Not here: what the events mean (see `acts`), and whether they are allowed (see
`checker`). The times of all workers are comparable: they come from one monotonic clock.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

Event = dict[str, Any]
"""`event` is its kind, `at` its time in seconds, `worker` and `act` tell whose it is; the rest depends on the kind."""


class History:
    """The history of one worker; every event is on the disk when `note` returns."""

    def __init__(self, folder: Path, worker: str) -> None:
        self._worker = worker
        self._file = os.open(folder / f"{worker}.jsonl", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        self.act = 0

    def close(self) -> None:
        """The worker notes nothing more."""
        os.close(self._file)

    def begin(self, kind: str, **fields: Any) -> None:
        """A new act begins; the following events belong to it."""
        self.act += 1
        self.note("begin", kind=kind, **fields)

    def note(self, event: str, **fields: Any) -> None:
        """Add an event to the act under way."""
        line = {"event": event, "at": time.monotonic(), "worker": self._worker, "act": self.act, **fields}
        os.write(self._file, json.dumps(line).encode() + b"\n")
        os.fsync(self._file)


def read(folder: Path) -> list[Event]:
    """The events of all workers, in the order of their times."""
    return sorted((event for path in folder.glob("*.jsonl") for event in _events(path)), key=lambda each: each["at"])


def _events(path: Path) -> Iterator[Event]:
    for line in path.read_bytes().splitlines(keepends=True):
        if line.endswith(b"\n"):  # else the worker was killed while it wrote
            yield json.loads(line)
