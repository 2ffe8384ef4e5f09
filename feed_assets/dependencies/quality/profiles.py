"""Profiles of slots, and what is unusual in one, by those of the same hours of recent weeks.

Here: pure statistics. Not here: counting (`engine`), the values (`marks`), and what follows from an anomaly: a deeper
check, then perhaps a mark (`quality`).

The usual value is the median; the usual distance from it is the median distance, scaled to the standard deviation of a
normal distribution. A few bad weeks move neither. The scale has a floor, so that numbers that never changed allow for a
little change.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from math import log, sqrt
from statistics import median
from typing import Final

from feed_assets.datasets.dataset import Dataset
from feed_assets.datasets.errors import SlotError
from feed_assets.datasets.grains import Grain, moved
from feed_assets.datasets.slots import Slot
from feed_assets.dependencies.quality.marks import ColumnProfile, Number, Profile

_TO_DEVIATION: Final = 1.4826
"""The standard deviation of a normal distribution, in median distances."""
_WEEK_SECONDS: Final = 7 * 86_400


@dataclass(frozen=True, slots=True)
class Limits:
    """From when on a number is unusual: `deviations` away from the median, with at least `weeks` numbers to compare.

    `share` is the change that a number may always have, as a share of itself: of rows and distinct values; for nulls,
    as a share of the rows; for the smallest and the largest value, as a share of the usual spread.
    """

    deviations: float = 6.0
    share: float = 0.01
    weeks: int = 4


@dataclass(frozen=True, slots=True)
class Anomaly:
    """A number that is unusual. `what` is `rows`, or `nulls`, `distinct`, `smallest` or `largest` with its column.

    `usual` is the median of `compared` numbers, `deviations` the distance from it.
    """

    what: str
    value: float
    usual: float
    deviations: float
    compared: int

    def __str__(self) -> str:
        return (
            f"{self.what}: {self.value:,.6g}, usually {self.usual:,.6g} (median of {self.compared}); "
            f"{self.deviations:,.1f} deviations away"
        )


DEFAULT_LIMITS: Final = Limits()


def comparable_slots(dataset: Dataset, slot: Slot, count: int = 8) -> list[Slot]:
    """The slots to compare a slot with, newest first: those at the same time of earlier weeks.

    Below a day: whole weeks before, in seconds. Days: the same weekday. Longer slots: those before. Slots that the
    dataset does not have are left out. Callers leave out the profiles of slots that are bad.

    >>> from datetime import date
    >>> ads = Dataset.flat("raw/ads", Grain.HOUR, first=date(2026, 11, 14))
    >>> [str(each) for each in comparable_slots(ads, ads.slot("2026-11-27T15"))]
    ['raw/ads - hour 2026-11-20T15:00Z']
    """
    dataset.check(slot)
    if slot.grain is Grain.WHOLE:
        return []
    a_week = _WEEK_SECONDS // slot.grain.seconds if slot.grain.seconds else 7
    step = 1 if slot.grain in {Grain.WEEK, Grain.MONTH, Grain.QUARTER} else a_week
    earlier = (slot._replace(start=moved(slot.grain, slot.start, -step * number)) for number in range(1, count + 1))
    return [each for each in earlier if _exists(dataset, each)]


def since(profile: Profile, begin: int) -> Profile:
    """A profile whose times are seconds since this instant, so that it can be compared with one of another week."""

    def moved_by(value: Number | None) -> Number | None:
        return None if value is None else value - begin

    columns = {
        name: replace(each, smallest=moved_by(each.smallest), largest=moved_by(each.largest)) if each.time else each
        for name, each in profile.columns.items()
    }
    return replace(profile, columns=columns)


def anomalies(profile: Profile, recent: Sequence[Profile], limits: Limits = DEFAULT_LIMITS) -> list[Anomaly]:
    """What is unusual in a profile, by recent ones; most unusual first.

    Empty if there are fewer than `limits.weeks` recent profiles: nothing can be said. Rows and distinct values are
    compared by their ratio: half is as unusual as double. Nulls are compared as a share of the rows. A column without
    enough recent profiles is not compared.

    >>> usual = [Profile(rows) for rows in (1000, 1040, 980, 1010, 1020)]
    >>> [str(each) for each in anomalies(Profile(430), usual)]
    ['rows: 430, usually 1,010 (median of 5); 27.1 deviations away']
    >>> anomalies(Profile(950), usual)
    []
    """
    found = [*_by_ratio("rows", profile.rows, [each.rows for each in recent], limits)]
    for name, column in profile.columns.items():
        others = [(each.rows, each.columns[name]) for each in recent if name in each.columns]
        distinct = [each.distinct for _, each in others]
        found += _by_ratio(f"distinct {name}", column.distinct, distinct, limits)
        shares = [each.nulls / rows for rows, each in others if rows]
        if profile.rows:
            found += _by_distance(f"nulls {name}", column.nulls / profile.rows, shares, limits, limits.share)
        found += _of_range(name, column, [each for _, each in others], limits)
    return sorted(found, key=lambda each: (-each.deviations, each.what))


def _of_range(name: str, column: ColumnProfile, others: Sequence[ColumnProfile], limits: Limits) -> Iterator[Anomaly]:
    """The smallest and the largest value. What they may always change is a share of the usual range of values."""
    known = [(each.smallest, each.largest) for each in others if each.smallest is not None and each.largest is not None]
    if column.smallest is None or column.largest is None or not known:
        return
    slack = limits.share * median(largest - smallest for smallest, largest in known)
    yield from _by_distance(f"smallest {name}", column.smallest, [each for each, _ in known], limits, slack)
    yield from _by_distance(f"largest {name}", column.largest, [each for _, each in known], limits, slack)


def _by_ratio(what: str, value: int, others: Sequence[int], limits: Limits) -> Iterator[Anomaly]:
    """Compare counts by their ratio. Small counts vary by their square root, as counts of independent events do."""
    if len(others) < limits.weeks:
        return
    usual = median(others)
    floor = max(limits.share, 1 / sqrt(usual + 1))
    for each in _by_distance(what, log(value + 1), [log(other + 1) for other in others], limits, floor):
        yield Anomaly(what, value, usual, each.deviations, len(others))


def _by_distance(what: str, value: Number, others: Sequence[Number], limits: Limits, floor: float) -> Iterator[Anomaly]:
    if len(others) < limits.weeks:
        return
    usual = median(others)
    scale = max(_TO_DEVIATION * median(abs(other - usual) for other in others), floor)
    if scale == 0:
        scale = limits.share * max(abs(usual), 1)
    deviations = abs(value - usual) / scale
    if deviations > limits.deviations:
        yield Anomaly(what, value, usual, deviations, len(others))


def _exists(dataset: Dataset, slot: Slot) -> bool:
    try:
        dataset.check(slot)
    except SlotError:
        return False
    return True
