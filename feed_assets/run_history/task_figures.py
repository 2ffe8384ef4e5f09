"""How long the tasks of a type wait and take. They have no interval, so nothing is said of overlap.

Not here: runs (`overlap`, `capacity`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta

from feed_assets.run_history.executions import Execution, usual
from feed_assets.run_history.overlap import FEWEST, in_words


@dataclass(frozen=True, slots=True)
class TaskFigures:
    """Usual wait before the start, and usual duration, each of 95 in 100 tasks."""

    series: str
    delay: timedelta
    duration: timedelta

    @property
    def sentence(self) -> str:
        """The figures."""
        return (
            f"{self.series}: 95 of 100 tasks start within {in_words(self.delay)} and take up to "
            f"{in_words(self.duration)}."
        )


def task_figures(series: str, executions: Sequence[Execution]) -> TaskFigures | None:
    """The figures of all executions that are kept; None if they are too few."""
    if len(executions) < FEWEST:
        return None
    return TaskFigures(series, usual(each.delay for each in executions), usual(each.duration for each in executions))
