"""A worker in a thread of the demo, which uses the demo's Spark.

Here: the thread, and what became of its tasks. Not here: what a worker does (`workflow.worker`).
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from types import TracebackType
from typing import Final, Self

from feed_assets.workflow.flow import Stage
from feed_assets.workflow.worker import Worker

HANGS: Final = 300.0
"""Seconds without an outcome after which the demo fails."""
WAIT: Final = 0.5
"""Seconds for which the worker waits for a task, and at its end the demo for the worker."""

Outcome = tuple[int, str]
"""The unit of a task, and what became of it."""


class WorkerThread:
    """As a context, a worker works until its end; `make` makes it, and gets who hears of each task."""

    def __init__(self, make: Callable[[Callable[[Stage, int, str], None]], Worker]) -> None:
        self._outcomes: queue.SimpleQueue[Outcome | Exception] = queue.SimpleQueue()
        self._worker = make(lambda _, unit, outcome: self._outcomes.put((unit, outcome)))
        self._over = threading.Event()
        # A daemon: Ctrl-C does not wait for Spark.
        self._thread = threading.Thread(target=self._work, name="worker", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._over.set()
        if error is None:
            self._thread.join()

    def outcome(self) -> Outcome:
        """The next outcome. Raises what the worker raised, or RuntimeError if nothing comes."""
        try:
            found = self._outcomes.get(timeout=HANGS)
        except queue.Empty:
            raise RuntimeError(f"The worker has done nothing for {HANGS:g} s.") from None
        if isinstance(found, Exception):
            raise found
        return found

    def _work(self) -> None:
        try:
            while not self._over.is_set():
                self._worker.once(WAIT)
        except Exception as error:  # noqa: BLE001 - the demo raises it
            self._outcomes.put(error)
