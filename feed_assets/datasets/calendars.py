"""The calendar of a member: which instants a batch date has, and on which dates nothing is delivered.

Here: names of zones, fixed offsets, holidays, stored windows, and whether a grain fits. Not here: how the days of a
zone are found (`zone_days`).

Zone data: Python takes the operating system's, else that of the package `tzdata`. This project requires `tzdata`,
because slim containers have no zone data of their own. Two machines may have different zone data. Stored windows make
them agree on each day that has facts.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from datetime import date
from difflib import get_close_matches
from functools import lru_cache
from typing import Final, NamedTuple
from zoneinfo import available_timezones

from feed_assets.datasets.errors import CalendarError, GrainError
from feed_assets.datasets.grains import Grain
from feed_assets.datasets.instants import FIRST_DAY, LAST_DAY, date_of, day_of
from feed_assets.datasets.zone_days import DayRuns, check_windows, days_of_offset, days_of_zone, with_windows

_OFFSET: Final = re.compile(r"(?:UTC)?(?P<sign>[+-])(?P<hours>[0-9]{1,2})(?::?(?P<minutes>[0-5][0-9]))?")
_WIDEST: Final = 18 * 60
"""The largest fixed offset, in minutes."""

_OF_THE_MACHINE: Final = "localtime"
"""A name in the zone data of Linux that means another zone on each machine."""


class DayWindow(NamedTuple):
    """The window of a batch date: `day` is days since 1970-01-01, `start` and `end` are instants, without `end` itself.

    A service stores it with the first fact of the day, under the zone of the calendar, and gives it back to
    `Calendar.keeping`. So new zone data changes days without facts only.
    """

    day: int
    start: int
    end: int


@dataclass(frozen=True)
class Calendar:
    """A zone with holidays. `zone` is an IANA name such as `Europe/Paris`, `UTC`, or an offset: `UTC+05:30`.

    Each batch date has one window. It begins at the first instant of the local date, which is not always midnight, and
    ends where the next date begins: after 23, 23.5, 24, 24.5, 25 or other hours. A date that the zone skips does not
    exist. `holidays` are dates on which nothing is delivered: they exist, and zero records are final for them.
    `windows` are stored windows, which go before the zone data.

    Raises CalendarError if the zone does not exist, or if stored windows contradict each other.

    >>> paris = Calendar("Europe/Paris")
    >>> window = paris.window(day_of(date(2026, 10, 25)))
    >>> (window.end - window.start) / 3600
    25.0
    >>> Calendar("UTC+8").zone
    'UTC+08:00'
    """

    zone: str = "UTC"
    holidays: frozenset[date] = frozenset()
    windows: tuple[DayWindow, ...] = ()
    days: DayRuns = field(init=False, repr=False, compare=False)
    _holiday_days: frozenset[int] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        zone, days = _zone(self.zone)
        windows = tuple(sorted({DayWindow(*each) for each in self.windows}))
        check_windows(windows, zone)
        changed = {"zone": zone, "windows": windows, "days": with_windows(days, windows)}
        changed["holidays"] = frozenset(self.holidays)
        changed["_holiday_days"] = frozenset(day_of(each) for each in self.holidays)
        for name, value in changed.items():
            object.__setattr__(self, name, value)

    def keeping(self, windows: Iterable[DayWindow]) -> Calendar:
        """A calendar with these stored windows. The days between and after them come from the zone data.

        A day next to a stored window begins or ends where the window does, so days still have no gap and no overlap.
        """
        return replace(self, windows=(*self.windows, *windows))

    def day_at(self, instant: int) -> int:
        """The batch date that contains an instant. Raises CalendarError outside the years 1970 to 2099.

        >>> date_of(Calendar("Asia/Tokyo").day_at(1795794900)).isoformat()
        '2026-11-28'
        """
        return self.days.day_at(instant)

    def window(self, day: int) -> DayWindow:
        """The window of a batch date. Raises CalendarError if the zone skips the date."""
        if not self.days.exists(day):
            raise CalendarError(self.missing(day))
        return DayWindow(day, self.days.begins(day), self.days.begins(day + 1))

    def exists(self, day: int) -> bool:
        """Whether the zone has this date. `Pacific/Apia` has no 2011-12-30."""
        return self.days.exists(day)

    def existing(self, first: int, last: int) -> Sequence[int]:
        """The dates from first to last, both included, without those that the zone skips."""
        return self.days.existing(first, last)

    def is_holiday(self, day: int) -> bool:
        """Whether nothing is delivered on this date."""
        return day in self._holiday_days

    def holiday_days(self) -> frozenset[int]:
        """The dates on which nothing is delivered, as days."""
        return self._holiday_days

    def missing(self, day: int) -> str:
        """The message that a date does not exist here."""
        if FIRST_DAY <= day <= LAST_DAY:
            return f"{self.zone} has no {date_of(day)}: its clocks skip the date. Use the date before or after it."
        return f"{day} days since 1970-01-01 is outside the years of calendars, 1970 to 2099."

    def phase(self, grain: Grain, first: int = FIRST_DAY, last: int = LAST_DAY) -> int:
        """By how many seconds its slots begin after UTC's multiples of the grain. `grain` is shorter than a day.

        0 where the offsets allow it: the slots align to UTC. Else the slots align to local time: hours in
        `Asia/Kolkata` begin at half past in UTC. Raises GrainError if the days from `first` to `last` are no whole
        numbers of slots.

        >>> Calendar("Asia/Kolkata").phase(Grain.HOUR), Calendar("Asia/Kolkata").phase(Grain.TEN_MINUTES)
        (1800, 0)
        """
        if odd := self.days.odd_day(grain.seconds, first, last):
            day, length = odd
            fitting = [each for each in Grain if each.seconds and not self.days.odd_day(each.seconds, first, last)]
            choices = [*fitting, "day"]
            if not self.days.odd_day(grain.seconds, day + 1, last):
                choices.append("a first batch date after it")
            raise GrainError(
                f"{self.zone} has no slots of the grain {grain}: {date_of(day)} is {length / 3600:g} h long there, "
                f"which {grain} does not divide. Use {', '.join(choices)}, or an offset such as UTC+10:30."
            )
        return self.days.begins(first) % grain.seconds


@lru_cache(maxsize=1)
def _names() -> frozenset[str]:
    """The names of all zones on this machine."""
    return frozenset(available_timezones()) - {_OF_THE_MACHINE}


def _zone(text: object) -> tuple[str, DayRuns]:
    """The canonical name of a zone, and its days."""
    if not isinstance(text, str):
        raise CalendarError(f"{text!r} is no zone but {type(text).__name__}: write a text such as 'UTC+10:00'.")
    if text == "UTC":
        return text, days_of_offset(0)
    if found := _OFFSET.fullmatch(text):
        minutes = int(found["hours"]) * 60 + int(found["minutes"] or 0)
        if minutes > _WIDEST:
            raise CalendarError(f"{text!r} is no offset: the widest is 18 hours.")
        if minutes == 0:
            return "UTC", days_of_offset(0)
        seconds = minutes * 60 if found["sign"] == "+" else -minutes * 60
        return f"UTC{found['sign']}{minutes // 60:02}:{minutes % 60:02}", days_of_offset(seconds)
    if text not in _names():
        raise CalendarError(f"{text!r} is no time zone: {_suggestion(text)}")
    return text, days_of_zone(text)


def _suggestion(text: str) -> str:
    """The advice: what to write instead of `text`."""
    if not _names():
        return "this machine has no zone data; install the package tzdata."
    if text == _OF_THE_MACHINE:
        return "its meaning depends on the machine; name a zone such as Europe/Paris."
    if _OFFSET.fullmatch(offset := text.removeprefix("GMT")):
        return f"write UTC{offset}. The zones named Etc/GMT+1 and so on have the opposite sign."
    city = text.replace(" ", "_").lower()
    same_city = sorted((name for name in _names() if name.lower().rpartition("/")[2] == city), key=len)
    close = same_city or get_close_matches(text, sorted(_names()), n=1, cutoff=0.7)
    return f"did you mean {close[0]}?" if close else "use a name such as Europe/Paris, or an offset such as UTC+08:00."
