"""A blackboard in memory that lets a test act, and look, around every single change of it.

Here: what tests of retention stand on. Not here: what they check.
"""

from __future__ import annotations

from collections.abc import Callable

from feed_assets.blackboard import Content, Entry, Page
from feed_assets.blackboard.memory import MemoryBlackboard


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
