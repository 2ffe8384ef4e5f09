"""When a process that ended starts again: after pauses that double, so that a broken one does not busy the machine."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

_DOUBLED: Final = 64
"""How often a pause doubles at most: no number is large enough for a process that fails for days."""


@dataclass(slots=True)
class Restarts:
    """The pauses of one process: `first` seconds, then twice as long each time, at most `most`."""

    first: float
    most: float
    clock: Callable[[], float] = time.monotonic
    failures: int = 0
    """How often it ended since it last worked."""
    _due: float = 0.0

    @property
    def is_due(self) -> bool:
        """Whether it may start now."""
        return self.clock() >= self._due

    def ended(self) -> None:
        """Note that it ended; the pause begins."""
        self._due = self.clock() + min(self.first * 2 ** min(self.failures, _DOUBLED), self.most)
        self.failures += 1

    def worked(self) -> None:
        """Note that it did what it is for: its next pause is the first again."""
        self.failures = 0
