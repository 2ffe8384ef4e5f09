"""A blackboard that kills or stops its own process at a step.

Here: counting the steps, and ending the process before or after one of them. Not here: who is killed when (see `run`).
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from signal import Signals
from typing import Final, TypeVar

from feed_assets.blackboard.port import Blackboard, Content, Entry, Page
from feed_assets_tests.chaos.history import History

_Answer = TypeVar("_Answer")


@dataclass(frozen=True, slots=True)
class PlannedSignal:
    """The signal that a worker sends itself, before or after the step number `step` (from 0) of its act number `act`.

    With `writing` only steps that write count. If that act has fewer steps, the steps of the following acts count on.
    """

    act: int
    step: int
    before: bool
    signal: Signals
    writing: bool


_READING: Final = frozenset({"page", "read", "download"})


class KillingBlackboard:
    """Passes requests on, notes claims and manifests before they are written, and sends itself its planned signal.

    `slowest` is the duration of the slowest step in seconds, without a step in which the process was stopped. With
    `one_by_one` each deletion is a step, as on a disk.
    """

    def __init__(self, inner: Blackboard, history: History, planned: PlannedSignal | None, *, one_by_one: bool) -> None:
        self._inner = inner
        self._history = history
        self._planned = planned
        self._one_by_one = one_by_one
        self._lock = threading.Lock()
        self._armed = False
        self.steps = 0
        self._writes = 0
        self.slowest = 0.0

    def begin_act(self, number: int) -> None:
        """The worker begins its act with this number (from 0)."""
        self.slowest = 0.0
        if not self._armed:
            self.steps = self._writes = 0
            self._armed = self._planned is not None and number >= self._planned.act

    def page(self, prefix: str, *, after: str = "", folders: bool = False) -> Page:
        """See `Blackboard.page`."""
        return self._step("page", prefix, lambda: self._inner.page(prefix, after=after, folders=folders))

    def read(self, key: str, *, limit: int | None = None) -> Content:
        """See `Blackboard.read`."""
        return self._step("read", key, lambda: self._inner.read(key, limit=limit))

    def download(self, key: str, target: Path) -> Entry:
        """See `Blackboard.download`."""
        return self._step("download", key, lambda: self._inner.download(key, target))

    def create(self, key: str, data: bytes) -> Entry:
        """See `Blackboard.create`."""
        if "/.feed/claims/" in f"/{key}":
            self._history.note("claiming", name=key.rpartition("/")[2])
        if key.endswith("/_SUCCESS") and data.isdigit():
            self._history.note("manifest")
        return self._step("create", key, lambda: self._inner.create(key, data))

    def replace(self, key: str, data: bytes, *, tag: str) -> Entry:
        """See `Blackboard.replace`."""
        return self._step("replace", key, lambda: self._inner.replace(key, data, tag=tag))

    def upload(self, key: str, source: Path) -> Entry:
        """See `Blackboard.upload`."""
        return self._step("upload", key, lambda: self._inner.upload(key, source))

    def copy(self, source: str, key: str) -> Entry:
        """See `Blackboard.copy`."""
        return self._step("copy", key, lambda: self._inner.copy(source, key))

    def delete(self, *keys: str) -> None:
        """See `Blackboard.delete`."""
        if not self._one_by_one:
            if keys:
                self._step("delete", keys[0], lambda: self._inner.delete(*keys))
            return
        for key in keys:
            self._step("delete", key, lambda: self._inner.delete(key))  # noqa: B023 - called at once

    def abort_uploads(self, prefix: str, *, before: datetime) -> int:
        """See `Blackboard.abort_uploads`."""
        return self._step("abort_uploads", prefix, lambda: self._inner.abort_uploads(prefix, before=before))

    def flush(self, *keys: str) -> None:
        """See `Blackboard.flush`."""
        self._step("flush", keys[0] if keys else "", lambda: self._inner.flush(*keys))

    def tag_of(self, data: bytes) -> str | None:
        """See `Blackboard.tag_of`."""
        return self._inner.tag_of(data)

    def uri(self, key: str) -> str:
        """See `Blackboard.uri`."""
        return self._inner.uri(key)

    def _step(self, operation: str, key: str, request: Callable[[], _Answer]) -> _Answer:
        writes = operation not in _READING
        with self._lock:
            number, written = self.steps, self._writes
            self.steps += 1
            self._writes += writes
        planned = self._planned if self._armed else None
        if planned is not None and (
            planned.step != (written if planned.writing else number) or (planned.writing and not writes)
        ):
            planned = None
        if planned is not None and planned.before:
            self._send(planned, operation, key)
        begun = time.monotonic()
        answer = request()
        self.slowest = max(self.slowest, time.monotonic() - begun)
        if planned is not None and not planned.before:
            self._send(planned, operation, key)
        return answer

    def _send(self, planned: PlannedSignal, operation: str, key: str) -> None:
        self._history.note(planned.signal.name, before=planned.before, operation=operation, key=key)
        os.kill(os.getpid(), planned.signal)
