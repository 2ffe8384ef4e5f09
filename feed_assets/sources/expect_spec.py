"""How often a source is expected to send: the field `expect_every` of its YAML.

Not here: what arrived, and whether a source is silent (`arrivals`).
"""

from __future__ import annotations

import re
from datetime import datetime, timedelta
from typing import Annotated, Any, Final, Self

from pydantic import BaseModel, BeforeValidator, field_validator, model_validator

from feed_assets.datasets.durations import duration

LEARNT: Final = "learnt"
LEAST: Final = timedelta(hours=1)
DAYS: Final = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
_DURING: Final = re.compile(r"(?:(\w{3})(?:-(\w{3}))? )?([01]\d|2[0-4]):00-([01]\d|2[0-4]):00", re.ASCII)


class Expected(BaseModel, frozen=True, extra="forbid"):
    """How often something of the source lands. A text is short for `every`: `expect_every: 2h`.

    People are told once when the source has sent nothing for so long, or far less than usual, and once when it is back.
    Whole hours count: after a landing at 10:20, `2h` are over at 13:00.
    """

    every: str
    """A duration of whole hours or days, at least `1h`; or `learnt`: from the same hours of the last eight weeks, after
    three weeks."""

    during: str | None = None
    """When the partner sends, such as `Mon-Fri 06:00-22:00` or `06:00-22:00`, in the `time_zone` of the source. Other
    hours do not count. Without it, all do. Not with `learnt`."""

    @property
    def limit(self) -> timedelta | None:
        """The longest time without a landing; None if it is learnt."""
        return None if self.every == LEARNT else duration(self.every)

    def counts(self, hour: datetime) -> bool:
        """Whether the partner sends in this hour of its own zone."""
        if self.during is None:
            return True
        first, last, begin, end = _parts(self.during)
        days = range(first, last + 1) if first <= last else (*range(first, 7), *range(last + 1))
        # A window over midnight belongs to the day on which it begins.
        if begin < end:
            return hour.weekday() in days and begin <= hour.hour < end
        weekday = hour.weekday() if hour.hour >= begin else (hour.weekday() - 1) % 7
        return weekday in days and (hour.hour >= begin or hour.hour < end)

    @field_validator("every")
    @classmethod
    def _is_long_enough(cls, text: str) -> str:
        if text != LEARNT and (duration(text) < LEAST or duration(text) % LEAST):
            raise ValueError(f"{text!r} is not made of whole hours: write at least 1h, or learnt")
        return text

    @field_validator("during")
    @classmethod
    def _is_a_window(cls, text: str | None) -> str | None:
        if text is not None:
            _parts(text)
        return text

    @model_validator(mode="after")
    def _learnt_knows_its_hours(self) -> Self:
        if self.every == LEARNT and self.during is not None:
            raise ValueError("`learnt` finds the hours of the partner itself: leave `during` out, or write a duration")
        return self


def _parts(text: str) -> tuple[int, int, int, int]:
    """The first and the last weekday, and the first and the last hour. Raises ValueError."""
    found = _DURING.fullmatch(text)
    first, last = (found[1] or "Mon", found[2] or found[1] or "Sun") if found else ("", "")
    if found is None or first not in DAYS or last not in DAYS or found[3] == found[4]:
        raise ValueError(f"{text!r} is no time of the week: write full hours, such as 'Mon-Fri 06:00-22:00'")
    return DAYS.index(first), DAYS.index(last), int(found[3]), int(found[4])


def _short(value: Any) -> Any:
    return {"every": value} if isinstance(value, str) else value


ExpectEvery = Annotated[Expected, BeforeValidator(_short)]
