"""What history and running steps say to programs: the JSON of `feed-assets health` and `running`, and of the page.

Durations are in seconds, days are UTC. Not here: the figures (`overlap`, `capacity`), and sentences (`health`).
"""

from __future__ import annotations

from datetime import date, datetime

import msgspec

from feed_assets.engine.progress import Progress
from feed_assets.run_history.capacity import Forecast
from feed_assets.run_history.health import Health
from feed_assets.run_history.live import LiveStep
from feed_assets.run_history.overlap import TIGHT, Overlap


class OverlapSays(msgspec.Struct, frozen=True):
    """The usual interval between runs, and what 95 of 100 runs take of it; above the share `limit` there is a warning.

    `days` has the usual share of each day.
    """

    interval: float
    delay: float
    duration: float
    share: float
    limit: float
    days: dict[str, float]


class DeadlineSays(msgspec.Struct, frozen=True):
    """A deadline, a time of day in UTC, and the forecast; without enough days, that is null and has no days.

    `taken` has the time of each day from when the run was wanted to its end, `expected` that of the days ahead: as
    expected, and the least and the most of 90 of 100 such days. The deadline is at `limit`.
    """

    time: str
    missed_on: str | None = None
    weekly_growth: float | None = None
    limit: float | None = None
    taken: dict[str, float] = {}
    expected: dict[str, tuple[float, float, float]] = {}


class TasksSay(msgspec.Struct, frozen=True):
    """How long 95 of 100 tasks wait before their start, and take."""

    delay: float
    duration: float


class SeriesSays(msgspec.Struct, frozen=True):
    """A series, such as the runs of a schedule: what there is to say of it, with a sentence for each kind of warning.

    `waiting` are the partitions of its ticks that wait for a run to end. Only the tasks of a type have `tasks`.
    """

    series: str
    executions: int
    warnings: dict[str, str]
    sentences: list[str]
    waiting: list[str]
    overlap: OverlapSays | None
    deadline: DeadlineSays | None
    tasks: TasksSay | None


class StepSays(msgspec.Struct, frozen=True):
    """A step that runs, and how far it was when somebody looked last (`seen`); null before its first job of Spark."""

    run: str
    step: str
    feeds: list[str]
    first: str | None
    last: str | None
    partitions: int
    process: str
    started: datetime
    seen: datetime
    changed: datetime
    ended: datetime | None
    progress: Progress | None
    state: str
    sentence: str


def step_says(found: LiveStep, now: datetime) -> StepSays:
    """The answer about a step."""
    values = {name: getattr(found, name) for name in LiveStep.__dataclass_fields__}
    return StepSays(**{**values, "feeds": list(found.feeds)}, state=found.state(now), sentence=found.sentence(now))


def says_of(found: Health) -> SeriesSays:
    """The answer about a series."""
    return SeriesSays(
        found.series,
        found.executions,
        dict(found.warnings),
        found.sentences,
        list(found.waiting),
        None if found.overlap is None else _overlap(found.overlap),
        None if found.deadline is None else _deadline(f"{found.deadline:%H:%M}", found.forecast),
        None
        if found.tasks is None
        else TasksSay(found.tasks.delay.total_seconds(), found.tasks.duration.total_seconds()),
    )


def _overlap(found: Overlap) -> OverlapSays:
    return OverlapSays(
        found.interval.total_seconds(),
        found.delay.total_seconds(),
        found.duration.total_seconds(),
        round(found.share, 4),
        TIGHT,
        {str(day): round(share, 4) for day, share in found.shares.items()},
    )


def _deadline(at: str, made: Forecast | None) -> DeadlineSays:
    if made is None:
        return DeadlineSays(at)
    return DeadlineSays(
        at,
        None if made.missed_on is None else str(made.missed_on),
        round(made.growth, 4),
        made.limit.total_seconds(),
        {str(day): round(each.total_seconds(), 1) for day, each in made.taken.items()},
        {str(day): _triple(made, day) for day in made.expected},
    )


def _triple(made: Forecast, day: date) -> tuple[float, float, float]:
    expected, low, high = (
        round((made.delay + each).total_seconds(), 1) for each in (made.expected[day], *made.band[day])
    )
    return expected, low, high
