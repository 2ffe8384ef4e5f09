"""Blackboards that let a test act, and look, around every single request.

Here: what tests of retention and of late writers stand on. Not here: what they check.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from feed_assets.blackboard.memory import MemoryBlackboard
from feed_assets.blackboard.port import Blackboard, Content, Entry, Page
from feed_assets_tests.blackboard.recording import RecordingBlackboard


class SteppingThrough(RecordingBlackboard):
    """Passes requests on to any blackboard, and calls `act` once, ahead of the request number `stop_before`."""

    def __init__(self, inner: Blackboard, *, stop_before: int, act: Callable[[], object]) -> None:
        super().__init__(inner)
        self._before, self._act = stop_before, act
        self.stopped = False

    def page(self, prefix: str, *, after: str = "", folders: bool = False) -> Page:
        self._step()
        return super().page(prefix, after=after, folders=folders)

    def read(self, key: str, *, limit: int | None = None) -> Content:
        self._step()
        return super().read(key, limit=limit)

    def create(self, key: str, data: bytes) -> Entry:
        self._step()
        return super().create(key, data)

    def replace(self, key: str, data: bytes, *, tag: str) -> Entry:
        self._step()
        return super().replace(key, data, tag=tag)

    def upload(self, key: str, source: Path) -> Entry:
        self._step()
        return super().upload(key, source)

    def delete(self, *keys: str) -> None:
        self._step()
        super().delete(*keys)

    def _step(self) -> None:
        if len(self.requests) == self._before:
            self.stopped = True
            self._act()


class SteppingBlackboard(MemoryBlackboard):
    """Calls `before` ahead of each operation and `after` behind it; keys are deleted one by one."""

    before: Callable[[], None] | None = None
    after: Callable[[], None] | None = None

    def page(self, prefix: str, *, after: str = "", folders: bool = False) -> Page:
        self._step(self.before)
        page = super().page(prefix, after=after, folders=folders)
        self._step(self.after)
        return page

    def read(self, key: str, *, limit: int | None = None) -> Content:
        self._step(self.before)
        content = super().read(key, limit=limit)
        self._step(self.after)
        return content

    def create(self, key: str, data: bytes) -> Entry:
        self._step(self.before)
        entry = super().create(key, data)
        self._step(self.after)
        return entry

    def replace(self, key: str, data: bytes, *, tag: str) -> Entry:
        self._step(self.before)
        entry = super().replace(key, data, tag=tag)
        self._step(self.after)
        return entry

    def delete(self, *keys: str) -> None:
        for key in keys:
            self._step(self.before)
            super().delete(key)
            self._step(self.after)

    def _step(self, act: Callable[[], None] | None) -> None:
        if act is None:
            return
        held, self.before, self.after = (self.before, self.after), None, None
        try:
            act()
        finally:
            self.before, self.after = held
