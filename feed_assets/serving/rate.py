"""How much each of many names may spend in a second. Not here: what is counted, and who waits."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field


@dataclass(slots=True)
class Rate:
    """A token bucket for each name, which holds what it may spend in a second; 0 a second is no limit.

    The last spending may exceed what is left: the bucket owes it then. For one thread.
    """

    a_second: float
    clock: Callable[[], float] = time.monotonic
    _buckets: dict[str, tuple[float, float]] = field(default_factory=dict)
    """What each name had left, and when."""

    def wait(self, name: str) -> float | None:
        """Seconds until the name owes nothing; None if it may spend now."""
        left = self._left(name)
        return None if left > 0 else -left / self.a_second

    def spend(self, name: str, amount: float) -> None:
        """Take an amount out of the name's bucket, also if it is empty."""
        if self.a_second:
            self._buckets[name] = self._left(name) - amount, self.clock()

    def _left(self, name: str) -> float:
        if not self.a_second:
            return 1.0
        now = self.clock()
        left, since = self._buckets.get(name, (self.a_second, now))
        return min(left + (now - since) * self.a_second, self.a_second)
