"""Times and dates as integers: an instant is whole seconds since 1970-01-01 00:00 UTC, a day is days since 1970-01-01.

Here: the conversions, and the limits. Not here: where a day begins (`calendars`). An instant is the same everywhere. A
day is the name of a batch date, and becomes instants only by a calendar.
"""

from __future__ import annotations

import math
from datetime import UTC, date, datetime
from typing import Final

from feed_assets.datasets.errors import CalendarError

DAY_SECONDS: Final = 86_400

FIRST_DAY: Final = 0
"""The first batch date that a calendar has: 1970-01-01."""

LAST_DAY: Final = (date(2099, 12, 31) - date(1970, 1, 1)).days
"""The last batch date that a calendar has: 2099-12-31."""

_EPOCH: Final = date(1970, 1, 1).toordinal()


def instant_of(moment: datetime) -> int:
    """The instant of an aware datetime; a part of a second is dropped, towards the past.

    Raises CalendarError if the datetime has no zone.

    >>> instant_of(datetime(2026, 11, 27, 15, 55, tzinfo=UTC))
    1795794900
    """
    if moment.tzinfo is None:
        raise CalendarError(f"{moment} has no zone, so it is no instant: pass an aware datetime.")
    return math.floor(moment.timestamp())


def moment_of(instant: int) -> datetime:
    """The datetime of an instant, in UTC.

    >>> moment_of(1795794900).isoformat()
    '2026-11-27T15:55:00+00:00'
    """
    return datetime.fromtimestamp(instant, UTC)


def day_of(batch_date: date) -> int:
    """The day of a batch date. Raises CalendarError before 1970 and after 2099.

    >>> day_of(date(2026, 11, 27))
    20784
    """
    day = batch_date.toordinal() - _EPOCH
    if not FIRST_DAY <= day <= LAST_DAY:
        raise CalendarError(f"{batch_date} is no batch date here: calendars have the years 1970 to 2099.")
    return day


def date_of(day: int) -> date:
    """The batch date of a day.

    >>> date_of(20784).isoformat()
    '2026-11-27'
    """
    return date.fromordinal(day + _EPOCH)
