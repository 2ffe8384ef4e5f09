"""Round-robin within a tick's time limit. The next tick resumes where this one stopped.

Not here: the limits of a tick (`sensors.ticks`), and what it looks at.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass


@dataclass(slots=True)
class Turns:
    """Iterates over names in a cycle that begins with `first`, until it is `over`; one name at least has its turn.

    `left` are then the names that had none. The next tick begins with `resume`.
    """

    names: Sequence[str]
    first: object
    over: Callable[[], bool]
    left: Sequence[str] = ()

    def __iter__(self) -> Iterator[str]:
        at = self.names.index(self.first) if isinstance(self.first, str) and self.first in self.names else 0
        in_turn = [*self.names[at:], *self.names[:at]]
        for place, name in enumerate(in_turn):
            if place and self.over():
                self.left = in_turn[place:]
                return
            yield name

    @property
    def resume(self) -> str | None:
        """The first of the names that had no turn; None if all had theirs."""
        return self.left[0] if self.left else None
