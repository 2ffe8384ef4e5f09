"""Whether a source has fallen silent, or sends far less than usual, by the hours in which something landed.

Here: the rule, in whole hours. With a duration, a source is silent when so many hours that count have passed without a
landing. With `learnt`, the hours without a landing are compared with those at the same time of day in the last weeks:

- Only weekdays on which the source usually sends count, and of a day's wait only the part since the last day without.
  If it sends more than twice a day, only hours of the day count in which it sends now and then: a night is no wait.
- The longest wait at that time of day is exceeded by FACTOR times its distance from the median wait, at least by
  MARGIN hours. So a source that is regular is missed at once, and one that comes by chance after a long time.
- The hours before and after count, too: clocks change, and partners come somewhat earlier or later.
- This must hold for a quarter of the usual time between two landings: a daily file may be some hours late.

Hours that nobody watched do not count. Not here: who is told.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from enum import StrEnum
from functools import cached_property, lru_cache
from itertools import accumulate, pairwise
from math import inf
from statistics import median
from typing import Final
from zoneinfo import ZoneInfo

from feed_assets.file_feed.wording import counted
from feed_assets.sources.expect_spec import Expected

HOUR: Final = timedelta(hours=1)
WEEK: Final = 168
WEEKS: Final = 8
"""How many weeks are learnt from."""
FEWEST_WEEKS: Final = 3
"""Weeks after the first landing in which nothing is learnt."""
FEWEST_DAYS: Final = 12
"""The fewest days on which the source sent."""
OFTEN: Final = 0.6
"""The share of a weekday's days on which the source sent, from which it usually sends on this weekday."""
NOW_AND_THEN: Final = 0.1
"""The share of the days on which the source sent, from which an hour of the day counts."""
SELDOM: Final = 2
"""The usual number of hours with a landing on a day on which it sends, up to which all hours of the day count."""
FACTOR: Final = 5
MARGIN: Final = 3
PATIENCE: Final = 0.25
"""The part of the usual time between two landings for which a wait must be unusual."""
VOLUME_HOURS: Final = 48
"""The hours whose records are compared with those of the same hours in weeks before."""
FAR_LESS: Final = 0.1
"""The share of the median of these weeks below which a volume is far less than usual."""
LESS_THAN_EVER: Final = 0.25
"""The share of the smallest of these volumes, of hours around, below which it must be, too."""
AGAIN: Final = 0.5
"""The share of the median from which a volume is usual again."""
SHIFTS: Final = (-1, 0, 1)
LONGEST: Final = 24 * 14
"""Hours of a silence in which the rule is asked: then it is silent, or never will be."""


class State(StrEnum):
    """How a source stands."""

    UNKNOWN = "unknown"
    """Nothing has landed yet, or too little is known."""
    USUAL = "usual"
    SILENT = "silent"
    LESS = "far less than usual"
    RECOVERING = "recovering"
    """More than far less than usual, but not yet usual: people are told nothing new."""


@dataclass(frozen=True, slots=True)
class Arrived:
    """What landed in an hour: landings, and records that they put into raw partitions."""

    landings: int
    records: int


@dataclass(frozen=True, slots=True)
class Standing:
    """How a source stands. `last` is the hour of its last landing."""

    state: State
    sentence: str
    last: datetime | None = None


def landed_in(last: datetime) -> str:
    """The sentence on the hour of the last landing."""
    return f"The last landing was between {last:%Y-%m-%d %H:%M} and {last + HOUR:%H:%M} UTC."


@dataclass(frozen=True)
class Arrivals:
    """The hours (UTC) in which something of a source landed, until `now`. Nobody watched before `watched_since`.

    `zone` is that of the source.
    """

    hours: Mapping[datetime, Arrived]
    now: datetime
    watched_since: datetime
    zone: ZoneInfo = field(default_factory=lambda: ZoneInfo("UTC"))

    def standing(self, expected: Expected) -> Standing:
        """How the source stands."""
        if not self.hours:
            return Standing(State.UNKNOWN, "Nothing has landed yet, so nothing is expected.")
        last = max(self.hours)
        limit = expected.limit
        silent = self._silent_at(expected, limit) if limit is not None else self._unusually_silent()
        if silent:
            return Standing(State.SILENT, silent, last)
        return self._volume(last) or Standing(
            State.USUAL if limit is not None or self.is_known else State.UNKNOWN,
            landed_in(last) + ("" if limit is not None or self.is_known else f" {self._still_learning}"),
            last,
        )

    @property
    def is_known(self) -> bool:
        """Whether enough is known to learn from."""
        return self._first_hour + FEWEST_WEEKS * WEEK <= self._end and len(self._days_sent) >= FEWEST_DAYS

    @property
    def _still_learning(self) -> str:
        until = self._at(self._first_hour + FEWEST_WEEKS * WEEK)
        return f"Its usual hours are known from {until:%Y-%m-%d} on, and from {FEWEST_DAYS} days on which it sent."

    def _silent_at(self, expected: Expected, limit: timedelta) -> str:
        """Why the source is silent by its own limit; "" if it is not."""
        start = max(max(self.hours) + HOUR, _next_hour(self.watched_since))
        hours = (start + number * HOUR for number in range(max(0, int((self.now - start) / HOUR))))
        waited = sum(expected.counts(hour.astimezone(self.zone)) for hour in hours)
        if waited * HOUR < limit:
            return ""
        within = f" of {expected.during}" if expected.during else ""
        waited_for = f"more than {counted(waited, 'hour')}{within}"
        return f"Nothing has landed for {waited_for}; {expected.every} are expected at most."

    def _unusually_silent(self) -> str:
        """Why the source is silent by what was learnt; "" if it is not."""
        if not self.is_known:
            return ""
        gap, watched, unusual = self._last_hour + 1, self._index(_next_hour(self.watched_since)), 0
        for hour in range(max(gap, watched), min(self._end, gap + LONGEST) + 1):
            weekday, of_day = self._local(hour)[1:]
            if weekday not in self._weekdays:
                continue
            longest, limit = self._limits.get(of_day, (0, inf))
            since_watched = self._counted[hour] - self._counted[max(0, watched)]
            unusual = unusual + 1 if min(self._waits[hour], since_watched) > limit else 0
            if unusual > PATIENCE * self._interval:
                last = self._at(self._last_hour)
                return (
                    f"Nothing has landed since {last:%a %Y-%m-%d %H}:59 UTC. At this time of day, the last landing was "
                    f"never more than {counted(longest + 1, 'hour')} of its usual hours ago on the last "
                    f"{counted(len(self._days_sent), 'day')} on which it sent."
                )
        return ""

    def _volume(self, last: datetime) -> Standing | None:
        """The standing of a source that sends less than usual; None if it does not, or if nobody knows."""
        if not self.is_known or self._end - self._index(_next_hour(self.watched_since)) < VOLUME_HOURS:
            return None
        weeks = [
            number
            for number in range(1, WEEKS + 1)
            if self._end - number * WEEK - VOLUME_HOURS - SHIFTS[-1] >= self._first_hour
        ]
        now, landings = self._sum(self._records, self._end), self._sum(self._landings, self._end)
        before = [self._sum(self._records, self._end - number * WEEK) for number in weeks]
        if len(before) < FEWEST_WEEKS or not landings or not (usual := median(before)) or now >= AGAIN * usual:
            return None
        # After a silence there are few landings: that is over, and not this.
        as_many = landings >= AGAIN * median(self._sum(self._landings, self._end - number * WEEK) for number in weeks)
        around = min(
            self._sum(self._records, self._end - number * WEEK + shift * 2) for number in weeks for shift in SHIFTS
        )
        said = (
            f"{counted(now, 'record')} landed in the last {VOLUME_HOURS} hours, {now / usual:.1%} of the usual "
            f"{usual:,.0f}."
        ).replace("%", " %")
        if as_many and now < FAR_LESS * usual and now < LESS_THAN_EVER * around:
            return Standing(State.LESS, said, last)
        return Standing(State.RECOVERING, said, last)

    # --- hours by number: 0 is the first that is looked at -----------------------------------------------------------

    @cached_property
    def _start(self) -> datetime:
        return max(min(self.hours), max(self.hours) - (WEEKS + 1) * WEEK * HOUR)

    @cached_property
    def _end(self) -> int:
        """The hour that is not over yet."""
        return self._index(self.now)

    @cached_property
    def _last_hour(self) -> int:
        return self._index(max(self.hours))

    @property
    def _first_hour(self) -> int:
        return 0

    def _index(self, moment: datetime) -> int:
        return int((moment - self._start) // HOUR)

    def _at(self, hour: int) -> datetime:
        return self._start + hour * HOUR

    def _local(self, hour: int) -> tuple[date, int, int]:
        """Day, weekday and hour of the day in the source's zone."""
        return _local(self.zone, self._at(hour))

    @cached_property
    def _landings(self) -> list[int]:
        """How many landings there were before each hour."""
        return self._before(lambda each: each.landings)

    @cached_property
    def _records(self) -> list[int]:
        return self._before(lambda each: each.records)

    def _before(self, number: Callable[[Arrived], int]) -> list[int]:
        found = (self.hours.get(self._at(hour)) for hour in range(self._end))
        return list(accumulate((number(each) if each else 0 for each in found), initial=0))

    def _sum(self, before: list[int], end: int) -> int:
        return before[end] - before[max(0, end - VOLUME_HOURS)]

    # --- what is learnt, from before the last landing ----------------------------------------------------------------

    @cached_property
    def _days(self) -> dict[date, bool]:
        """The whole days of the source's zone from the first to that of the last landing, and whether it sent."""
        days: dict[date, bool] = {}
        for hour in range(self._last_hour + 1):
            day = self._local(hour)[0]
            days[day] = days.get(day, False) or self._at(hour) in self.hours
        return days

    @cached_property
    def _days_sent(self) -> list[date]:
        return [day for day, sent in self._days.items() if sent]

    @cached_property
    def _weekdays(self) -> frozenset[int]:
        """The weekdays on which the source usually sends."""
        found = [[sent for day, sent in self._days.items() if day.weekday() == weekday] for weekday in range(7)]
        return frozenset(number for number, sent in enumerate(found) if sent and sum(sent) >= OFTEN * len(sent))

    @cached_property
    def _interval(self) -> float:
        """The usual hours between two hours with a landing."""
        sent = sorted(self._index(hour) for hour in self.hours if hour >= self._start)
        return median(after - before for before, after in pairwise(sent)) if len(sent) > 1 else 0

    @cached_property
    def _hours_of_day(self) -> frozenset[int]:
        """The hours of the day that count."""
        sent = [self._local(self._index(hour)) for hour in self.hours if hour >= self._start]
        by_day, by_hour = Counter(day for day, _, _ in sent), Counter(of_day for _, _, of_day in sent)
        if median(by_day.values()) <= SELDOM:
            return frozenset(range(24))
        return frozenset(of_day for of_day, days in by_hour.items() if days >= NOW_AND_THEN * len(by_day))

    @cached_property
    def _counted(self) -> list[int]:
        """How many hours that count there are before each hour."""
        hours = range(max(self._end, self._last_hour) + 1)
        return list(accumulate((self._local(hour)[2] in self._hours_of_day for hour in hours), initial=0))

    @cached_property
    def _waits(self) -> list[int]:
        """For each hour, how many whole hours before it had no landing, since the last weekday without any."""
        waits, wait = [], 0
        for hour in range(max(self._end, self._last_hour) + 1):
            _, weekday, of_day = self._local(hour)
            if of_day == 0 and (weekday - 1) % 7 not in self._weekdays:
                wait = 0
            waits.append(wait)
            wait = 0 if self._at(hour) in self.hours else wait + (of_day in self._hours_of_day)
        return waits

    @cached_property
    def _limits(self) -> dict[int, tuple[int, float]]:
        """For each hour of the day, the longest wait on days on which the source usually sends, and the limit."""
        found: dict[int, list[int]] = {}
        # The first day is left out: what came before it is not known.
        for hour in range(24, self._last_hour + 1):
            _, weekday, of_day = self._local(hour)
            if weekday in self._weekdays:
                for shift in SHIFTS:
                    found.setdefault((of_day + shift) % 24, []).append(self._waits[hour])
        return {
            of_day: (longest := max(waits), longest + max(MARGIN, FACTOR * (longest - median(waits))))
            for of_day, waits in found.items()
        }


@lru_cache(maxsize=20_000)
def _local(zone: ZoneInfo, hour: datetime) -> tuple[date, int, int]:
    local = hour.astimezone(zone)
    return local.date(), local.weekday(), local.hour


def _next_hour(moment: datetime) -> datetime:
    """The first full hour from this moment on."""
    moment = moment.astimezone(UTC)
    hour = moment.replace(minute=0, second=0, microsecond=0)
    return hour if hour == moment else hour + HOUR
