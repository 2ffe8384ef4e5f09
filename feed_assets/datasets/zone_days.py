"""The days of a zone as runs of days of one length, computed once for each zone.

Here: where each local date of the years 1970 to 2099 begins. Not here: names of zones, holidays, stored windows
(`calendars`).

A date begins at the first instant of that local date, which is not always midnight. It ends where the next date begins.
If the clock goes back over midnight, the repeated minutes belong to the newer date. A date that a zone skips is in no
run. A zone has about four runs a year, UTC has one in all, so a lookup is a search among few numbers.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime, timedelta
from functools import lru_cache
from itertools import pairwise
from typing import Final
from zoneinfo import ZoneInfo

from feed_assets.datasets.errors import CalendarError
from feed_assets.datasets.instants import DAY_SECONDS, FIRST_DAY, LAST_DAY, date_of

_PROBE: Final = timedelta(days=3)
"""How far apart offsets are read. A change that is undone before the next reading would be missed: since 1970 no zone
undid a change in less than 6.9 days; a test looks at the data of all zones."""

_BEGIN: Final = (FIRST_DAY - 3) * DAY_SECONDS
_END: Final = (LAST_DAY + 4) * DAY_SECONDS

_SECOND: Final = timedelta(seconds=1)
_EPOCH: Final = datetime(1970, 1, 1)  # noqa: DTZ001 - local times of any zone


class DayRuns:
    """The days of a zone from 1970-01-01 to 2099-12-31. All times are instants, all days are days since 1970-01-01."""

    __slots__ = ("_counts", "_days", "_lengths", "_skipped", "_starts", "begin", "end")

    def __init__(self, runs: Iterable[tuple[int, int, int, int]]) -> None:
        """Days from runs without gaps: first day, its first instant, number of days, length of each in seconds.

        Days outside the limits and runs of length 0 are left out; runs that continue each other are joined.
        """
        self._days: list[int] = []
        self._starts: list[int] = []
        self._counts: list[int] = []
        self._lengths: list[int] = []
        for day, start, count, length in runs:
            self._add(day, start, count, length)
        self._skipped = _days_between(self._days, self._counts)
        self.begin: Final = self._starts[0]
        self.end: Final = self._starts[-1] + self._counts[-1] * self._lengths[-1]

    def day_at(self, instant: int) -> int:
        """The day that contains an instant. Raises CalendarError outside the years 1970 to 2099."""
        if not self.begin <= instant < self.end:
            raise CalendarError(f"{instant} s since 1970 is outside the years of calendars, 1970 to 2099.")
        place = bisect_right(self._starts, instant) - 1
        return self._days[place] + (instant - self._starts[place]) // self._lengths[place]

    def begins(self, day: int) -> int:
        """The first instant of a day. A skipped day begins with the next; `LAST_DAY + 1` begins at the last end."""
        place = bisect_right(self._days, day) - 1
        if place < 0:
            return self.begin
        past = min(day - self._days[place], self._counts[place])
        return self._starts[place] + past * self._lengths[place]

    def exists(self, day: int) -> bool:
        """Whether the zone has this day."""
        return FIRST_DAY <= day <= LAST_DAY and self.begins(day) < self.begins(day + 1)

    def existing(self, first: int, last: int) -> Sequence[int]:
        """The days of the zone from `first` to `last`, both included: a range, if none of them is skipped."""
        first, last = max(first, FIRST_DAY), min(last, LAST_DAY)
        skipped = [day for day in self._skipped if first <= day <= last]
        days = range(first, last + 1)
        return tuple(day for day in days if day not in skipped) if skipped else days

    def since(self, day: int) -> list[tuple[int, int, int, int]]:
        """The runs from a day on: day, start, number of days, length of each in seconds."""
        place = max(bisect_right(self._days, day) - 1, 0)
        cut = min(max(day - self._days[place], 0), self._counts[place])
        runs = [*zip(self._days, self._starts, self._counts, self._lengths, strict=True)][place:]
        day, start, count, length = runs[0]
        kept = (day + cut, start + cut * length, count - cut, length)
        return runs[1:] if cut == count else [kept, *runs[1:]]

    def odd_day(self, seconds: int, first: int, last: int) -> tuple[int, int] | None:
        """The first day from `first` to `last` whose length is no multiple of `seconds`, with its length, if any."""
        return next(
            ((day, length) for day, _, _, length in self.since(first) if day <= last and length % seconds != 0), None
        )

    def same_days(self, other: DayRuns, first: int) -> bool:
        """Whether both have equal windows for each day from `first` on."""
        return self is other or self.since(first) == other.since(first)

    def starts(self) -> list[int]:
        """The start of each day from the first to one after the last; a skipped day has the start of the next."""
        return [self.begins(day) for day in range(FIRST_DAY, LAST_DAY + 2)]

    def _add(self, day: int, start: int, count: int, length: int) -> None:
        """Append days, without those outside the limits; to the last run, if they continue it."""
        before = max(FIRST_DAY - day, 0)
        count = min(count - before, LAST_DAY + 1 - day - before)
        if count <= 0 or length == 0:
            return
        day, start = day + before, start + before * length
        if self._days and self._lengths[-1] == length and self._days[-1] + self._counts[-1] == day:
            self._counts[-1] += count
            return
        self._days.append(day)
        self._starts.append(start)
        self._counts.append(count)
        self._lengths.append(length)


@lru_cache(maxsize=1024)
def days_of_zone(name: str) -> DayRuns:
    """The days of an IANA zone, which exists. Takes 10 to 20 ms the first time."""
    return DayRuns(_runs([*_changes(ZoneInfo(name))]))


@lru_cache(maxsize=1024)
def days_of_offset(seconds: int) -> DayRuns:
    """The days of a fixed offset, east of UTC, in seconds."""
    return DayRuns(_runs([(_BEGIN, seconds)]))


def with_windows(runs: DayRuns, windows: Sequence[tuple[int, int, int]]) -> DayRuns:
    """The days of a zone in which some days have stored windows: day, start, end; in the order of the days.

    Other days take what is left, so all days still have neither gap nor overlap. The windows are those that
    `check_windows` takes.
    """
    if all((runs.begins(day), runs.begins(day + 1)) == (start, end) for day, start, end in windows):
        return runs
    starts = runs.starts()
    for day, start, end in windows:
        for earlier in range(day - 1, -1, -1):
            if starts[earlier] <= start:
                break
            starts[earlier] = start
        starts[day : day + 2] = start, end
        for later in range(day + 2, len(starts)):
            if starts[later] >= end:
                break
            starts[later] = end
    return DayRuns((day, start, 1, end - start) for day, (start, end) in enumerate(pairwise(starts)))


def check_windows(windows: Sequence[tuple[int, int, int]], zone: str) -> None:
    """Raise CalendarError if stored windows overlap, are empty, or leave a gap between two neighbouring days."""
    for day, start, end in windows:
        if not FIRST_DAY <= day <= LAST_DAY or start >= end:
            raise _window_error(zone, day, "ends before it begins, or is outside the years 1970 to 2099")
    for (day, _, end), (later, later_start, _) in pairwise(windows):
        if later == day or later_start < end:
            raise _window_error(zone, day, f"overlaps that of {date_of(later)}")
        if later == day + 1 and later_start > end:
            raise _window_error(zone, day, f"leaves a gap before that of {date_of(later)}")


def _window_error(zone: str, day: int, fault: str) -> CalendarError:
    return CalendarError(f"{zone}: the stored window of {date_of(day)} {fault}. Repair the stored windows.")


def _changes(zone: ZoneInfo) -> Iterator[tuple[int, int]]:
    """The offset of a zone in seconds at `_BEGIN`, and each later change with its instant.

    The search goes by local times without a zone, whose offset Python finds ten times as fast as that of an instant. A
    local time that a change leaves out or repeats has the offset before the change. So the offset differs from the
    local time on that the clock shows at the change, in the larger of both offsets.
    """
    local = _EPOCH + _BEGIN * _SECOND
    offset = _offset(zone, local)
    yield _BEGIN, offset // _SECOND
    last = _EPOCH + _END * _SECOND
    while local < last:
        probe = local + _PROBE
        while zone.utcoffset(probe) != offset:
            after = probe
            while (seconds := (after - local) // _SECOND) > 1:
                middle = local + seconds // 2 * _SECOND
                local, after = (middle, after) if zone.utcoffset(middle) == offset else (local, middle)
            local, before, offset = after, offset, _offset(zone, after)
            yield (local - _EPOCH - max(before, offset)) // _SECOND, offset // _SECOND
        local = probe


def _offset(zone: ZoneInfo, local: datetime) -> timedelta:
    return zone.utcoffset(local) or timedelta()


def _runs(changes: Sequence[tuple[int, int]]) -> Iterator[tuple[int, int, int, int]]:
    """The runs of days of offsets: pairs of an instant and the offset in seconds from then on, from `_BEGIN` on."""
    for (day, start, count), (_, following, _) in pairwise([*_pieces(changes), (0, _END, 0)]):
        last_start = start + (count - 1) * DAY_SECONDS
        yield day, start, count - 1, DAY_SECONDS
        yield day + count - 1, last_start, 1, following - last_start


def _pieces(changes: Sequence[tuple[int, int]]) -> Iterator[tuple[int, int, int]]:
    """Days that begin 24 h apart: first day, its start, number of days. The first day after a change stands alone."""
    newest = (_BEGIN + changes[0][1]) // DAY_SECONDS - 1
    for (begin, offset), (end, _) in pairwise([*changes, (_END, 0)]):
        first = max((begin + offset) // DAY_SECONDS, newest + 1)
        last = (end - 1 + offset) // DAY_SECONDS
        if first > last:
            continue
        yield first, max(begin, first * DAY_SECONDS - offset), 1
        if last > first:
            yield first + 1, (first + 1) * DAY_SECONDS - offset, last - first
        newest = last


def _days_between(days: Sequence[int], counts: Sequence[int]) -> tuple[int, ...]:
    """The days in no run: those that the zone skips."""
    ends = [FIRST_DAY, *(day + count for day, count in zip(days, counts, strict=True))]
    return tuple(day for end, begin in zip(ends, [*days, LAST_DAY + 1], strict=True) for day in range(end, begin))
