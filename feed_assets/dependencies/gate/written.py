"""What people write in a trigger, as values: `-1h`, one of several words. Not here: what it is for, and durations."""

from __future__ import annotations

import re
from enum import StrEnum
from typing import Final, NamedTuple, TypeVar

from feed_assets.datasets.durations import SECONDS
from feed_assets.datasets.grains import Grain

_Choice = TypeVar("_Choice", bound=StrEnum)

_SHIFT: Final = re.compile(r"([+-]?[0-9]+)(min|h|d|w|month|quarter)", re.ASCII)
_UNITS: Final = {"d": Grain.DAY, "w": Grain.WEEK, "month": Grain.MONTH, "quarter": Grain.QUARTER}


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
            seconds = self.number * SECONDS[self.unit]
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
