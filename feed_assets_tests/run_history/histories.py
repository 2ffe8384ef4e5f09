"""Histories of a daily run that are made up: growth, weekly seasons, noise, outliers, and a day on a slow machine.

Here: what happened, and the day on which a deadline is missed in truth. It knows nothing of the forecast.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta

from feed_assets.run_history.executions import Execution

FIRST = date(2026, 3, 2)
WANTED = time(4, 0)
DEADLINE = time(6, 0)


@dataclass(frozen=True, slots=True)
class History:
    """A run at 04:00 that takes `seconds` for each GB; `growth` is the part by which its data grows each week."""

    seed: int
    gigabytes: float = 10.0
    seconds: float = 400.0
    growth: float = 0.0
    slower: float = 0.0
    """The part by which a GB takes longer each week."""
    noise: float = 0.05
    weekend: float = 0.6
    """The volume of Saturdays and Sundays, beside that of other days."""
    outliers: int = 1
    slow_days: int = 1
    knows_bytes: bool = True

    def duration(self, number: int) -> float:
        """Seconds of a day without noise."""
        return self._volume(number) * self._speed(number)

    def missed_on(self) -> int | None:
        """The number of the first day after which no working day is in time."""
        limit = (datetime.combine(FIRST, DEADLINE) - datetime.combine(FIRST, WANTED)).total_seconds() - 60
        return next((number for number in range(600) if self.duration(number) > limit), None)

    def executions(self, days: int) -> Iterator[Execution]:
        """The first days."""
        dice = random.Random(self.seed)
        odd = dice.sample(range(days), min(days, self.outliers + self.slow_days))
        for number in range(days):
            volume = self._volume(number) * dice.lognormvariate(0, self.noise)
            seconds = self._speed(number) * dice.lognormvariate(0, self.noise)
            if number in odd[: self.outliers]:
                volume *= dice.choice([0.1, 3.0])
            if number in odd[self.outliers :]:
                seconds *= 4
            wanted = datetime.combine(FIRST + timedelta(days=number), WANTED, UTC)
            started = wanted + timedelta(seconds=dice.uniform(5, 60))
            yield Execution(
                "prices", f"run-{number}", str(wanted.date()), wanted, started,
                started + timedelta(seconds=volume * seconds), succeeded=True, rows=None,
                bytes=round(volume * 1e9) if self.knows_bytes else None,
            )  # fmt: skip

    def _volume(self, number: int) -> float:
        is_weekend = (FIRST + timedelta(days=number)).weekday() > 4
        return self.gigabytes * (1 + self.growth * number / 7) * (self.weekend if is_weekend else 1.0)

    def _speed(self, number: int) -> float:
        return self.seconds * (1 + self.slower * number / 7)
