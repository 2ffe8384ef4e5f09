"""An execution of a series, and figures of several. Not here: where they are kept (`tables`)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from math import ceil
from typing import Final

ASSET: Final = "asset "
SCHEDULE: Final = "schedule "
TRIGGER: Final = "trigger "
TASK: Final = "task "
"""The beginnings of the names of series."""

USUAL: Final = 0.95
"""The share of executions that "usually" speaks of."""


@dataclass(frozen=True, slots=True)
class Execution:
    """A run, or a task of a workflow, that has ended. `bytes` and `rows` are what it published; None: nobody knows."""

    series: str
    run: str
    partition: str | None
    wanted: datetime
    started: datetime
    ended: datetime
    succeeded: bool
    rows: int | None = None
    bytes: int | None = None

    @property
    def delay(self) -> timedelta:
        """From when it was wanted to its start."""
        return max(timedelta(0), self.started - self.wanted)

    @property
    def duration(self) -> timedelta:
        """From its start to its end."""
        return self.ended - self.started


def usual(durations: Iterable[timedelta]) -> timedelta:
    """The 95th percentile: as many of a hundred were at most so long. Raises ValueError if there are none."""
    found = sorted(durations)
    if not found:
        raise ValueError("There are no durations.")
    return found[ceil(USUAL * len(found)) - 1]
