"""When a daily series will miss its deadline, if its data goes on to grow.

Here: a forecast from the days up to now. The volume of a day, and the seconds a GB, each have a trend in logarithms:
the median of the slopes between days at least a week apart (Theil-Sen), after each weekday's own level is removed. So
weekly seasons, single outliers and one slow day do not count. Not here: who has which deadline, and who is told.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from itertools import pairwise
from math import exp, log
from statistics import median, median_low
from typing import Final

from feed_assets.run_history.executions import Execution, usual

DAYS: Final = 28
"""The days before now that are looked at."""
AHEAD: Final = 14
"""The days before a miss on which there is a warning."""
HORIZON: Final = 90
"""The days ahead that are forecast."""
WEEK: Final = 7
FEWEST: Final = 22
"""The fewest days for a forecast: three of each weekday, and one."""
AGREEING: Final = 3
"""The forecasts of so many days, one after the other, have to agree before there is a warning."""
CAREFUL: Final = 0.45
"""The share of the slopes that are smaller than the slope of a forecast, if they rise.

The median has an error; this is three quarters of it below the median. Who looks each day sees each error once, and
the earliest warning is the one that people get: by the median, it comes weeks too early where growth is slow.
"""
DIFFERENT: Final = 4.0
"""Weekdays have levels of their own if these are at least so many standard errors apart."""
GB: Final = 1e9
SIGMA: Final = 1.4826
"""A standard deviation, in median absolute deviations of normal noise."""
NINETY: Final = 1.645
"""90 of 100 values of normal noise are so many standard deviations around the middle."""
FITTED: Final = 4
"""What the days have told the trends: two slopes, and about two levels of weekdays."""
ERROR_OF_MEDIAN: Final = 1.2533
"""The standard error of a median, in standard errors of the mean, of normal noise."""


@dataclass(frozen=True, slots=True)
class Forecast:
    """What is expected of a series with a deadline, a time of day (UTC).

    `wanted` is the usual time of day at which it is wanted. Durations are without the usual `delay`. 90 of 100 days
    take a duration within the `band` of the day. `growth` is the part by which it takes longer each week.
    """

    series: str
    deadline: time
    wanted: time
    delay: timedelta
    today: date
    taken: Mapping[date, timedelta]
    expected: Mapping[date, timedelta]
    band: Mapping[date, tuple[timedelta, timedelta]]
    missed_on: date | None
    """The first day on which it is expected to end after its deadline; None within HORIZON."""
    growth: float

    @property
    def limit(self) -> timedelta:
        """The time from when it is wanted to its deadline."""
        found = datetime.combine(self.today, self.deadline) - datetime.combine(self.today, self.wanted)
        return found if found > timedelta(0) else found + timedelta(days=1)

    def is_due(self, today: date) -> bool:
        """Whether the miss is at most AHEAD days away."""
        return self.missed_on is not None and self.missed_on <= today + timedelta(days=AHEAD)

    @property
    def sentence(self) -> str:
        """What is expected, with its numbers."""
        day = self.missed_on or self.today + timedelta(days=1)
        end, low, high = (self._end(day, each) for each in (self.expected[day], *self.band[day]))
        times = f"end at {end:%H:%M}, between {low:%H:%M} and {high:%H:%M} on 90 of 100 such days"
        takes = f"it takes {100 * self.growth:.1f} % longer each week" if self.growth > 0 else "it does not take longer"
        if self.missed_on is None:
            return (
                f"{self.series} will keep its deadline {self.deadline:%H:%M} UTC for {HORIZON} days: {takes}, and is "
                f"expected to {times}."
            )
        return (
            f"{self.series} will miss its deadline {self.deadline:%H:%M} UTC from {day} on: {takes}, and is expected "
            f"to {times}."
        )

    def _end(self, day: date, duration: timedelta) -> datetime:
        return datetime.combine(day, self.wanted) + self.delay + duration


def deadline_warning(series: str, executions: Sequence[Execution], deadline: time, today: date) -> Forecast | None:
    """The forecast of today, if there is a warning: it, and those of the days before, expect a miss soon.

    A forecast of an earlier day uses only what was known then. A single forecast is too noisy: if each day looks again,
    the earliest of them all decides.
    """
    made = forecast(series, executions, deadline, today)
    before = (forecast(series, executions, deadline, today - timedelta(days=ago)) for ago in range(1, AGREEING))
    if made is None or not made.is_due(today) or not all(each and each.is_due(today) for each in before):
        return None
    return made


def forecast(series: str, executions: Iterable[Execution], deadline: time, today: date) -> Forecast | None:
    """The forecast of a series from its successful executions up to `today`; None if there are too few days.

    Of a day, the execution of the newest partition counts: others repeat earlier days. A deadline that is earlier than
    the time of day at which the series is wanted is of the day after.
    """
    days = _days(executions, today)
    if len(days) < FEWEST:
        return None
    seconds = {day.toordinal(): max(1.0, each.duration.total_seconds()) for day, each in days.items()}
    volumes = {day.toordinal(): (each.bytes or 0) / GB for day, each in days.items()}
    if not all(volumes.values()):  # unknown, or nothing was there: the seconds alone
        volumes = dict.fromkeys(volumes, 1.0)
    volume, speed = _Trend.of(volumes), _Trend.of({day: each / volumes[day] for day, each in seconds.items()})

    def duration(day: int) -> float:
        return volume.at(day) * speed.at(day)

    now = today.toordinal()
    wanted, delay = _time_of_day(days.values()), usual(each.delay for each in days.values())
    error = _Error.of({day: log(each / duration(day)) for day, each in seconds.items()})
    expected, band = dict[date, timedelta](), dict[date, tuple[timedelta, timedelta]]()
    for ahead in range(1, HORIZON + 1):
        day, here = today + timedelta(days=ahead), duration(now + ahead)
        factor = error.factor(now + ahead, volume.grown(now + ahead) * speed.grown(now + ahead))
        expected[day], band[day] = _seconds(here), (_seconds(here / factor), _seconds(here * factor))
    made = Forecast(
        series,
        deadline,
        wanted,
        delay,
        today,
        {day: each.delay + each.duration for day, each in sorted(days.items())},
        expected,
        band,
        None,
        duration(now + WEEK) / duration(now) - 1,
    )
    first = next((day for day, each in expected.items() if delay + each > made.limit), None)
    return Forecast(**{name: getattr(made, name) for name in Forecast.__slots__} | {"missed_on": first})


@dataclass(frozen=True, slots=True)
class _Trend:
    """A line through the logarithms, with a level for each weekday.

    Growth is taken to add as much each week from `middle` on, the middle of what was looked at: it adds no interest.
    """

    slope: float
    levels: Mapping[int, float]
    middle: float

    @classmethod
    def of(cls, values: Mapping[int, float]) -> _Trend:
        """The trend of a value by day; each above zero."""
        logs = {day: log(each) for day, each in values.items()}
        middle = (min(logs) + max(logs)) / 2
        # First the slope within weekdays, then, without their levels, the slope between all days.
        levels = _levels(logs, median(_slopes(logs, WEEK)), middle)
        slopes = _slopes({day: each - levels[day % WEEK] for day, each in logs.items()}, 1)
        slope = _careful(slopes)
        return cls(slope, _levels(logs, slope, middle), middle)

    def at(self, day: int) -> float:
        """The value that is expected on a day; at least a hundredth of the usual one."""
        return exp(self.levels[day % WEEK]) * self.grown(day)

    def grown(self, day: int) -> float:
        """The value that is expected on a day, in values of the same weekday in the middle."""
        return max(0.01, 1 + self.slope * (day - self.middle))


@dataclass(frozen=True, slots=True)
class _Error:
    """How far single days are from what is expected: by noise, and by the slope's error, which grows with the days."""

    noise: float
    slope: float
    middle: float

    @classmethod
    def of(cls, residuals: Mapping[int, float]) -> _Error:
        """From the residuals in logarithms. Single outliers do not count."""
        middle = (min(residuals) + max(residuals)) / 2
        noise = SIGMA * median(map(abs, residuals.values())) * (len(residuals) / (len(residuals) - FITTED)) ** 0.5
        return cls(noise, noise / sum((day - middle) ** 2 for day in residuals) ** 0.5, middle)

    def factor(self, day: int, grown: float) -> float:
        """90 of 100 days are within the expected value divided by this, and multiplied by it."""
        # The slope is a part of the value in the middle, which has grown since.
        return exp(NINETY * (self.noise**2 + (self.slope * (day - self.middle) / grown) ** 2) ** 0.5)


def _careful(slopes: Sequence[float]) -> float:
    """The slope that is nearest to zero, of those within the error of the median."""
    ordered, error = sorted(slopes), int(CAREFUL * len(slopes))
    return median([ordered[error], 0.0, ordered[-1 - error]])


def _slopes(values: Mapping[int, float], step: int) -> list[float]:
    """The slopes between days that are at least a week, and a multiple of `step`, apart."""
    last = max(values)
    return [
        (values[later] - values[earlier]) / (later - earlier)
        for earlier in values
        for later in range(earlier + WEEK, last + 1, step)
        if later in values
    ] or [0.0]


def _levels(values: Mapping[int, float], slope: float, middle: float) -> dict[int, float]:
    """The level of each weekday without the slope; weekdays that do not differ by more than noise share one.

    Else the busiest of five equal weekdays, a median of four days, would be too high.
    """
    flat = {day: value - slope * (day - middle) for day, value in values.items()}
    by_weekday = {weekday: [each for day, each in flat.items() if day % WEEK == weekday] for weekday in range(WEEK)}
    # Of four days, two may be outliers.
    own = {weekday: median_low(each) for weekday, each in by_weekday.items() if each}
    noise = SIGMA * median(abs(each - own[day % WEEK]) for day, each in flat.items())
    apart = DIFFERENT * ERROR_OF_MEDIAN * noise / (len(flat) / len(own)) ** 0.5
    ordered = sorted(own, key=own.__getitem__)
    groups = [ordered[:1]]
    for lower, higher in pairwise(ordered):
        if own[higher] - own[lower] > apart:
            groups.append([])
        groups[-1].append(higher)
    usually = median(flat.values())
    levels = dict.fromkeys(range(WEEK), usually)
    for group in groups:
        levels |= dict.fromkeys(group, median(each for weekday in group for each in by_weekday[weekday]))
    return levels


def _days(executions: Iterable[Execution], today: date) -> dict[date, Execution]:
    first = today - timedelta(days=DAYS)
    found: dict[date, Execution] = {}
    for each in executions:
        day = each.wanted.astimezone(UTC).date()
        if not each.succeeded or not first < day <= today:
            continue
        known = found.get(day)
        if known is None or (each.partition or "", known.wanted) > (known.partition or "", each.wanted):
            found[day] = each
    return found


def _seconds(value: float) -> timedelta:
    return timedelta(seconds=min(value, timedelta(days=WEEK).total_seconds()))


def _time_of_day(executions: Iterable[Execution]) -> time:
    times = [each.wanted.astimezone(UTC) for each in executions]
    hours, minutes = divmod(int(median(each.hour * 60 + each.minute for each in times)), 60)
    return time(hours, minutes)
