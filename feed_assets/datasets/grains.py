"""The lengths of slots, and the periods of batch dates: weeks, months, quarters.

Not here: when a period begins as an instant (`calendars`).
"""

from __future__ import annotations

from datetime import date
from enum import StrEnum
from typing import Final, Self

from feed_assets.datasets.errors import GrainError
from feed_assets.datasets.instants import FIRST_DAY, LAST_DAY, date_of


class Grain(StrEnum):
    """The length of a slot: `5min, 10min, hour, day, week, month, quarter`, or `-` for a dataset without partitions.

    `seconds` is the length of a grain below a day, in seconds; 0 for a day and above, whose lengths vary. Weeks begin
    on Monday, as in ISO 8601. A dataset without partitions has one slot, of the grain `Grain.WHOLE`.

    >>> Grain("10min").seconds, Grain.DAY.seconds
    (600, 0)
    """

    seconds: int

    FIVE_MINUTES = "5min", 300
    TEN_MINUTES = "10min", 600
    HOUR = "hour", 3600
    DAY = "day", 0
    WEEK = "week", 0
    MONTH = "month", 0
    QUARTER = "quarter", 0
    WHOLE = "-", 0

    def __new__(cls, text: str, seconds: int) -> Self:
        """A member with its text and its length in seconds."""
        grain = str.__new__(cls, text)
        grain._value_ = text
        grain.seconds = seconds
        return grain

    @classmethod
    def named(cls, text: str) -> Grain:
        """The grain of this name. Raises GrainError, which lists the names.

        >>> Grain.named("hour")
        <Grain.HOUR: 'hour'>
        """
        found = next((each for each in cls if each == text), None)
        if found is None:
            known = ", ".join(each for each in cls if each is not cls.WHOLE)
            raise GrainError(f"{text!r} is no grain: use {known}; or - for a dataset without partitions.")
        return found

    def divides(self, coarser: Grain) -> bool:
        """Whether each slot of `coarser` is a set of whole slots of this grain. A grain divides itself.

        >>> Grain.HOUR.divides(Grain.MONTH), Grain.WEEK.divides(Grain.MONTH)
        (True, False)
        """
        return coarser in _DIVIDED[self]

    @property
    def and_coarser(self) -> tuple[Grain, ...]:
        """The grain itself and all that it divides, finest first.

        >>> [str(each) for each in Grain.DAY.and_coarser]
        ['day', 'week', 'month', 'quarter']
        """
        return _DIVIDED[self]


_ORDER: Final = tuple(Grain)
_DIVIDED: Final[dict[Grain, tuple[Grain, ...]]] = {
    Grain.WEEK: (Grain.WEEK,),
    Grain.WHOLE: (Grain.WHOLE,),
    **{
        each: tuple(other for other in _ORDER[place:-1] if each is not Grain.MONTH or other is not Grain.WEEK)
        for place, each in enumerate(_ORDER)
        if each not in {Grain.WEEK, Grain.WHOLE}
    },
}


def period_start(grain: Grain, day: int) -> int:
    """The first day of the period that contains a day. `grain` is a day or coarser.

    >>> date_of(period_start(Grain.QUARTER, 20784)).isoformat()
    '2026-10-01'
    """
    match grain:
        case Grain.DAY:
            return day
        case Grain.WEEK:
            return day - (day + 3) % 7  # 1970-01-01 was a Thursday
        case Grain.WHOLE:
            return FIRST_DAY
        case _:
            found = date_of(day)
            months = 1 if grain is Grain.MONTH else 3
            return _first_of_month(found.year, (found.month - 1) // months * months)


def moved(grain: Grain, start: int, count: int) -> int:
    """The start of the period or window `count` further on; before it, if `count` is negative.

    `start` is the start of a slot of the grain: an instant below a day, else a day.

    >>> date_of(moved(Grain.MONTH, 20758, -2)).isoformat()
    '2026-09-01'
    """
    if grain.seconds:
        return start + count * grain.seconds
    match grain:
        case Grain.DAY:
            return start + count
        case Grain.WEEK:
            return start + 7 * count
        case Grain.WHOLE:
            return start + count * (LAST_DAY + 1)
        case _:
            found = date_of(start)
            return _first_of_month(found.year, found.month - 1 + count * (1 if grain is Grain.MONTH else 3))


def _first_of_month(year: int, months: int) -> int:
    """The day of the first of a month: `months` after January of the year. Weeks may begin before 1970."""
    return date(year + months // 12, months % 12 + 1, 1).toordinal() - date(1970, 1, 1).toordinal()
