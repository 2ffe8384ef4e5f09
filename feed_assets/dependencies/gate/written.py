"""What people write in a trigger, as values: `6h`, `-1h`, one of several words. Not here: what it is for."""

from __future__ import annotations

import re
from datetime import timedelta
from enum import StrEnum
from typing import Final, NamedTuple, TypeVar

from feed_assets.datasets.grains import Grain

_Choice = TypeVar("_Choice", bound=StrEnum)

_DURATION: Final = re.compile(r"([0-9]+)(s|min|h|d|w)", re.ASCII)
_SECONDS: Final = {"s": 1, "min": 60, "h": 3600, "d": 86_400, "w": 604_800}
_SHIFT: Final = re.compile(r"([+-]?[0-9]+)(min|h|d|w|month|quarter)", re.ASCII)
_UNITS: Final = {"d": Grain.DAY, "w": Grain.WEEK, "month": Grain.MONTH, "quarter": Grain.QUARTER}


def duration(text: str | timedelta) -> timedelta:
    """The duration that a person writes. Raises ValueError.

    >>> duration("6h")
    datetime.timedelta(seconds=21600)
    """
    if isinstance(text, timedelta):
        return text
    found = _DURATION.fullmatch(text) if isinstance(text, str) else None
    if found is None:
        raise ValueError(f"{text!r} is no duration: write a number and s, min, h, d or w, such as 6h")
    try:
        return timedelta(seconds=int(found[1]) * _SECONDS[found[2]])
    except OverflowError:
        raise ValueError(f"{text!r} is too long for a duration") from None


def duration_text(given: timedelta) -> str:
    """A duration as a person writes it, in the longest unit of which it is a whole number.

    >>> duration_text(timedelta(hours=6)), duration_text(timedelta(minutes=90)), duration_text(timedelta(days=2))
    ('6h', '90min', '2d')
    """
    seconds = int(given.total_seconds())
    unit = next(name for name, each in reversed(_SECONDS.items()) if seconds % each == 0)
    return f"{seconds // _SECONDS[unit]}{unit if seconds else 's'}"


class Shift(NamedTuple):
    """A number of minutes, hours, days, weeks, months or quarters; negative: into the past. `text` is as written."""

    number: int
    unit: str
    text: str

    @classmethod
    def of(cls, text: str) -> Shift:
        """The shift that a person writes: `-1h`, `-7d`, `1month`. Raises ValueError."""
        found = _SHIFT.fullmatch(text)
        if found is None:
            raise ValueError(
                f"{text!r} is no shift: write a number and min, h, d, w, month or quarter, such as -1h or -7d"
            )
        return cls(int(found[1]), found[2], text)

    def steps(self, grain: Grain) -> tuple[int, Grain]:
        """The shift of slots of a grain, as a number of units. Raises ValueError if it is no multiple of the grain."""
        if self.unit not in _UNITS:
            seconds = self.number * _SECONDS[self.unit]
            if not grain.seconds or seconds % grain.seconds:
                raise ValueError(f"{self.text} is no number of whole {grain}s")
            return seconds // grain.seconds, grain
        if grain.seconds:
            raise ValueError(f"{self.text} is no fixed number of {grain}s: write it in hours")
        return self.number, _UNITS[self.unit]


def one_of(kind: type[_Choice], text: str, name: str) -> _Choice:
    """The value of an enumeration. Raises ValueError, which lists the values; `name` is what it is for."""
    found = next((each for each in kind if each == text), None)
    if found is None:
        raise ValueError(f"{name} is {text!r}: it is one of {', '.join(kind)}")
    return found
