"""A cache for a process: answers that never change, such as what a record says."""

from __future__ import annotations

from typing import TypeVar

_Key = TypeVar("_Key")
_Value = TypeVar("_Value")


class BoundedCache(dict[_Key, _Value]):
    """A dictionary that is cleared before it would exceed `limit` values, so that a long-lived process does not grow.

    Threads may share it. As another may clear it at any time, catch the KeyError of `cache[key]` or call `get`; do not
    rely on `in`.
    """

    def __init__(self, limit: int) -> None:
        super().__init__()
        self._limit = limit

    def __setitem__(self, key: _Key, value: _Value) -> None:
        if len(self) >= self._limit:
            self.clear()
        super().__setitem__(key, value)
