"""When a daily series will miss its deadline, if its data goes on to grow.

Here: a forecast from the days up to now. The volume of a day and the seconds a GB each have a trend: the median of the
slopes between days that are whole weeks apart, so that weekly seasons, single outliers and one slow day do not count.
Not here: who has which deadline, and who is told.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta
from statistics import median, quantiles
from typing import Final

from feed_assets.run_history.executions import Execution, usual

DAYS: Final = 28
"""The days before now that are looked at."""
AHEAD: Final = 14
"""The days before a miss on which there is a warning."""
HORIZON: Final = 365
"""The days ahead that are forecast."""
WEEK: Final = 7
FEWEST: Final = 15
"""Days that say nothing yet, if there are less: two of each weekday, and one."""
MOSTLY: Final = 0.7
"""The share of the slopes that have to rise: else it is noise."""
GB: Final = 1e9


@dataclass(frozen=True, slots=True)
class Forecast:
    """What is expected of a series with a deadline, a time of day (UTC).

    `wanted` is the usual time of day at which it is wanted. `low` and `high` say when nine of ten days end.
    """

    series: str
    deadline: time
    wanted: time
    delay: timedelta
    expected: Mapping[date, timedelta]
    low: float
    high: float
    missed_on: date | None
    """The first day on which it is expected to end after its deadline."""
    growth: float
    """The part by which it takes longer, each week."""

    def is_due(self, today: date) -> bool:
        """Whether there is a warning."""
        return self.missed_on is not None and self.missed_on <= today + timedelta(days=AHEAD)

    @property
    def warning(self) -> str:
        """The warning, with its numbers. Only for a forecast that has a day."""
        if self.missed_on is None:
            raise ValueError(f"{self.series} keeps its deadline.")
        duration = self.expected[self.missed_on]
        end, low, high = (self._end(self.missed_on, duration * factor) for factor in (1.0, self.low, self.high))
        return (
            f"{self.series} will miss its deadline {self.deadline:%H:%M} UTC on {self.missed_on}: it takes "
            f"{self.growth:.0%} longer each week, and is expected to end at {end:%H:%M}, between {low:%H:%M} and "
            f"{high:%H:%M}."
        )

    def _end(self, day: date, duration: timedelta) -> datetime:
        return datetime.combine(day, self.wanted) + self.delay + duration


def forecast(series: str, executions: Sequence[Execution], deadline: time, today: date) -> Forecast | None:
    """The forecast of a series from its successful executions, one for each day; None if there are too few.

    A deadline that is earlier than the time of day at which it is wanted is of the day after.
    """
    first = today - timedelta(days=DAYS)
    days = {each.wanted.date(): each for each in executions if each.succeeded and first <= each.wanted.date() <= today}
    if len(days) < FEWEST:
        return None
    volumes = {_at(day): (each.bytes or 0) / GB for day, each in days.items()}
    if not all(volumes.values()):  # nobody knows, or nothing was there: the seconds alone
        volumes = dict.fromkeys(volumes, 1.0)
    seconds = {_at(day): max(1.0, each.duration.total_seconds()) for day, each in days.items()}
    volume, speed = _Trend.of(volumes), _Trend.of({day: seconds[day] / volumes[day] for day in seconds})

    def duration(day: int) -> float:
        return volume.at(day) * speed.at(day)

    ratios = [seconds[day] / max(1.0, duration(day)) for day in seconds]
    low, *_, high = quantiles(ratios, n=20)
    wanted = _time_of_day(days)
    delay = usual(each.delay for each in days.values())
    expected = {
        today + timedelta(days=ahead): timedelta(seconds=duration(_at(today) + ahead)) for ahead in range(1, HORIZON)
    }
    limit = datetime.combine(today, deadline) - datetime.combine(today, wanted)
    limit += timedelta(days=1) if limit <= timedelta(0) else timedelta(0)
    grows = volume.rises or speed.rises
    missed = next((day for day, each in expected.items() if delay + each > limit), None) if grows else None
    now, week = duration(_at(today)), duration(_at(today) + WEEK)
    return Forecast(series, deadline, wanted, delay, expected, low, high, missed, week / now - 1)


@dataclass(frozen=True, slots=True)
class _Trend:
    """A line for each weekday, all with one slope. `rises`: most pairs of days agree that it does."""

    slope: float
    levels: Mapping[int, float]
    rises: bool

    @classmethod
    def of(cls, values: Mapping[int, float]) -> _Trend:
        """The trend of a value by day."""
        slope = median(_slopes(values, WEEK))
        # Without its weekday's level, each day can be compared with each other one.
        levels = _levels(values, slope)
        slopes = _slopes({day: value - levels[day % WEEK] for day, value in values.items()}, 1)
        slope = median(slopes)
        rises = sum(each > 0 for each in slopes) / len(slopes) >= MOSTLY
        return cls(slope, _levels(values, slope), rises)

    def at(self, day: int) -> float:
        """The value that is expected on a day; never below zero."""
        return max(0.0, self.levels[day % WEEK] + self.slope * day)


def _slopes(values: Mapping[int, float], step: int) -> list[float]:
    """The slopes between days that are at least a week, and a multiple of `step`, apart."""
    return [
        (values[later] - values[earlier]) / (later - earlier)
        for earlier in values
        for later in range(earlier + WEEK, max(values) + 1, step)
        if later in values
    ] or [0.0]


def _levels(values: Mapping[int, float], slope: float) -> dict[int, float]:
    """The value of each weekday without the slope."""
    at_zero = {day: value - slope * day for day, value in values.items()}
    usually = median(at_zero.values())
    return {
        weekday: median([value for day, value in at_zero.items() if day % WEEK == weekday] or [usually])
        for weekday in range(WEEK)
    }


def _at(day: date) -> int:
    return day.toordinal()


def _time_of_day(days: Mapping[date, Execution]) -> time:
    minutes = median(each.wanted.hour * 60 + each.wanted.minute for each in days.values())
    return (datetime.min + timedelta(minutes=minutes)).time()
