"""The phases of a day for a source: when the day may be processed, and how long sensors look at it.

Not here: whether its raw data has changed (`raw_growth`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, date, datetime, timedelta
from enum import StrEnum

from feed_assets.datasets.days import ONE_DAY, midnight
from feed_assets.sources.spec import Source

DEFAULT_LOOKBACK_DAYS = 7
"""The days for which sensors keep derived feeds up to date with their inputs, if no source says so."""
SWEEP_DAYS = 3
"""Days for which a day is still checked after it has left the lookback. Longer if no sensor has settled it yet."""


class Phase(StrEnum):
    """The phase of a day for a source."""

    OPEN = "open"
    """The day, or the source's buffer after its last hour, is not over."""
    WATCHED = "watched"
    """The day is in the lookback: growth by the threshold makes it run again."""
    LEAVING = "leaving"
    """The day has left the lookback and is not settled: any growth since it was processed makes it run once."""
    SETTLED = "settled"
    """Sensors ignore the day."""


def lookback_days(sources: Sequence[Source]) -> int:
    """The longest lookback of the sources, in days."""
    return max((source.lookback_days for source in sources), default=DEFAULT_LOOKBACK_DAYS)


def watched_days(
    sources: Sequence[Source], now: datetime, settled: Mapping[str, date] | None = None
) -> tuple[date, date]:
    """The first and the last day that is watched or leaving the lookback for any of these sources.

    `settled` is the last settled day of each source (see `sweeping`).
    """
    buffer = max(source.buffer_hours for source in sources)
    longest = max(*(source.lookback_days for source in sources), buffer // 24 + 2)
    first = now.date() - (longest + SWEEP_DAYS) * ONE_DAY
    not_yet = [each + ONE_DAY for each in (settled or {}).values() if each < first]
    return min([first, *not_yet]), now.date() - ONE_DAY


def phase(
    day: str, source: Source, sources: Sequence[Source], now: datetime, settled: Mapping[str, date] | None = None
) -> Phase:
    """The phase of the day for a source; `sources` are all of its kind: a day waits for the longest buffer.

    A day after the last one `settled` is not settled by time alone.
    """
    if now < due_from(day, sources):
        return Phase.OPEN
    if now < leaves_at(day, source, sources):
        return Phase.WATCHED
    last = (settled or {}).get(source.key)
    if last is not None and date.fromisoformat(day) > last:
        return Phase.LEAVING
    return Phase.LEAVING if now < _later(leaves_at(day, source, sources), SWEEP_DAYS * ONE_DAY) else Phase.SETTLED


def due_from(day: str, sources: Sequence[Source]) -> datetime:
    """When the day may first be processed: after its last hour and the longest buffer of its sources."""
    return _later(_midnight(day), ONE_DAY + timedelta(hours=max(source.buffer_hours for source in sources)))


def leaves_at(day: str, source: Source, sources: Sequence[Source]) -> datetime:
    """When the day leaves the source's lookback: at least a day after it is due."""
    return max(
        _later(_midnight(day), (source.lookback_days + 1) * ONE_DAY),
        _later(due_from(day, sources), ONE_DAY),
    )


def _later(moment: datetime, span: timedelta) -> datetime:
    """The moment plus the span, at most the last moment of the calendar."""
    last = datetime.max.replace(tzinfo=UTC)
    return moment + span if span < last - moment else last


def _midnight(day: str) -> datetime:
    return midnight(date.fromisoformat(day))
