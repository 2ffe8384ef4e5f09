"""Whether the executions of a series come so close that one will begin before the last has ended.

Here: the figures, by series and by day, and the warning. Not here: what a schedule does when that happens.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, date, timedelta
from itertools import pairwise
from statistics import median_low
from typing import Final

from feed_assets.run_history.executions import Execution, usual

TIGHT: Final = 0.8
"""The share of the interval from which on there is a warning."""
DAYS: Final = 28
"""The days before now that are looked at."""
FEWEST: Final = 8
"""The fewest executions for figures."""
RECENT: Final = 7
FULL: Final = 3
"""Of the last RECENT days with executions, FULL have to be tight: one day on a slow machine is no warning."""


@dataclass(frozen=True, slots=True)
class Overlap:
    """How much of its interval a series takes: usual delay and usual duration, each of 95 in 100 executions.

    `shares` has the usual share of each day (UTC) on which an execution was wanted.
    """

    series: str
    executions: int
    interval: timedelta
    delay: timedelta
    duration: timedelta
    shares: dict[date, float]

    @property
    def share(self) -> float:
        """The part of the interval that is taken; from 1 on, executions overlap."""
        return (self.delay + self.duration) / self.interval

    @property
    def is_tight(self) -> bool:
        """Whether there is a warning: usually, and still."""
        recent = list(self.shares.values())[-RECENT:]
        return self.share > TIGHT and sum(each > TIGHT for each in recent) >= FULL

    @property
    def sentence(self) -> str:
        """The figures."""
        parts = f"95 of 100 runs start within {in_words(self.delay)} and take up to {in_words(self.duration)}"
        return (
            f"{self.series}: {parts}, together {100 * self.share:.0f} % of the {in_words(self.interval)} between runs."
        )


def overlap(series: str, executions: Iterable[Execution], today: date) -> Overlap | None:
    """The figures of a series over DAYS up to `today`; None if there are too few executions.

    Of a partition, only the first execution counts: the others repeat it, and are no tick. The interval is the median
    of the times between when executions were wanted.
    """
    found = _ticks(executions, today)
    wanted = sorted({each.wanted for each in found})
    if len(wanted) < FEWEST:
        return None
    interval = median_low(later - earlier for earlier, later in pairwise(wanted))
    return Overlap(
        series,
        len(found),
        interval,
        usual(each.delay for each in found),
        usual(each.duration for each in found),
        _shares_by_day(found, interval),
    )


def _ticks(executions: Iterable[Execution], today: date) -> list[Execution]:
    first = today - timedelta(days=DAYS)
    seen, found = set[str](), []
    for each in sorted(executions, key=lambda each: each.wanted):
        if each.partition is not None and each.partition in seen:
            continue
        seen.add(each.partition or "")
        if first < each.wanted.astimezone(UTC).date() <= today:
            found.append(each)
    return found


def _shares_by_day(executions: Sequence[Execution], interval: timedelta) -> dict[date, float]:
    by_day: dict[date, list[timedelta]] = {}
    for each in executions:
        by_day.setdefault(each.wanted.astimezone(UTC).date(), []).append(each.delay + each.duration)
    return {day: usual(taken) / interval for day, taken in sorted(by_day.items())}


def in_words(duration: timedelta) -> str:
    """A duration in words: 45 s, 12 min, 1 h 30 min."""
    seconds = round(duration.total_seconds())
    if seconds < 120:  # noqa: PLR2004 - two minutes
        return f"{seconds} s"
    hours, minutes = divmod(round(seconds / 60), 60)
    if not hours:
        return f"{minutes} min"
    return f"{hours} h {minutes} min" if minutes else f"{hours} h"
