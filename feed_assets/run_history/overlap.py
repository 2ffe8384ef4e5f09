"""Whether the executions of a series come so close that one will begin before the last has ended.

Here: the figures, by series and by day, and the warning. Not here: what a schedule does when that happens.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from typing import Final

from feed_assets.run_history.executions import Execution, usual

TIGHT: Final = 0.8
"""The share of the interval from which on there is a warning."""
FEWEST: Final = 5
"""Executions that say nothing yet, if there are less."""


@dataclass(frozen=True, slots=True)
class Overlap:
    """How much of its interval a series takes: usual delay and usual duration, each of 95 in 100 executions."""

    series: str
    executions: int
    interval: timedelta
    delay: timedelta
    duration: timedelta

    @property
    def share(self) -> float:
        """The part of the interval that is taken; from 1 on, executions overlap."""
        return (self.delay + self.duration) / self.interval

    @property
    def is_tight(self) -> bool:
        """Whether there is a warning."""
        return self.share > TIGHT

    @property
    def warning(self) -> str:
        """The warning, with its numbers."""
        parts = f"95 of 100 runs start within {told(self.delay)} and take up to {told(self.duration)}"
        return f"{self.series}: {parts}, {self.share:.0%} of the {told(self.interval)} between them."


def overlap(series: str, executions: Sequence[Execution], interval: timedelta) -> Overlap | None:
    """The figures of a series; None if there are too few executions."""
    if len(executions) < FEWEST:
        return None
    delay, duration = (usual(each.delay for each in executions), usual(each.duration for each in executions))
    return Overlap(series, len(executions), interval, delay, duration)


def shares_by_day(executions: Sequence[Execution], interval: timedelta) -> dict[date, float]:
    """The largest share of the interval that an execution took, by the day on which it was wanted (UTC)."""
    found: dict[date, float] = {}
    for each in executions:
        day, share = each.wanted.date(), (each.delay + each.duration) / interval
        found[day] = max(share, found.get(day, 0.0))
    return dict(sorted(found.items()))


def told(duration: timedelta) -> str:
    """A duration in words: 45 s, 12 min, 1 h 30 min."""
    seconds = round(duration.total_seconds())
    if seconds < 120:  # noqa: PLR2004 - two minutes
        return f"{seconds} s"
    hours, minutes = divmod(round(seconds / 60), 60)
    if not hours:
        return f"{minutes} min"
    return f"{hours} h {minutes} min" if minutes else f"{hours} h"
