"""Durations as people write them: `6h`. Not here: shifts, which may be months (`dependencies.gate.written`)."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Final

_DURATION: Final = re.compile(r"([0-9]+)(s|min|h|d|w)", re.ASCII)
SECONDS: Final = {"s": 1, "min": 60, "h": 3600, "d": 86_400, "w": 604_800}


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
        return timedelta(seconds=int(found[1]) * SECONDS[found[2]])
    except OverflowError:
        raise ValueError(f"{text!r} is too long for a duration") from None


def duration_text(given: timedelta) -> str:
    """A duration as a person writes it, in the longest unit of which it is a whole number.

    >>> duration_text(timedelta(hours=6)), duration_text(timedelta(minutes=90)), duration_text(timedelta(days=2))
    ('6h', '90min', '2d')
    """
    seconds = int(given.total_seconds())
    unit = next(name for name, each in reversed(SECONDS.items()) if seconds % each == 0)
    return f"{seconds // SECONDS[unit]}{unit if seconds else 's'}"
