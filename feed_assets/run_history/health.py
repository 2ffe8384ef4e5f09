"""What the history of each series says: whether its runs will overlap, and whether it will miss its deadline.

Here: one answer for commands, checks and notices. Not here: which series there are, and who is told.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date, time
from typing import Final

from feed_assets.run_history.capacity import FEWEST, Forecast, deadline_warning, forecast
from feed_assets.run_history.executions import ASSET, SCHEDULE, TASK, Execution
from feed_assets.run_history.overlap import Overlap, overlap
from feed_assets.run_history.tables import executions_of, remembered
from feed_assets.run_history.task_figures import TaskFigures, task_figures
from feed_assets.state.store import Store

OVERLAP: Final = "overlap"
DEADLINE: Final = "deadline"


@dataclass(frozen=True, slots=True)
class Health:
    """A series: its figures, and its forecast if it has a deadline. `warnings` has a sentence for each kind.

    `waiting` are the partitions of its ticks that wait until the run before has ended. Tasks have figures of their own.
    """

    series: str
    executions: int
    overlap: Overlap | None
    deadline: time | None
    forecast: Forecast | None
    warnings: Mapping[str, str]
    waiting: tuple[str, ...] = ()
    tasks: TaskFigures | None = None

    @property
    def sentences(self) -> list[str]:
        """What there is to say: the warnings, or else the figures; and the ticks that wait."""
        waiting = f"{self.series}: remembered until its run has ended: {', '.join(self.waiting)}."
        return [*(self.warnings.values() or self._figures()), *([waiting] if self.waiting else [])]

    @property
    def of_deadline(self) -> str:
        """What is expected of a series with a deadline; "" without one."""
        if self.forecast is not None:
            return self.forecast.sentence
        if self.deadline is None:
            return ""
        return (
            f"{self.series}: its deadline {self.deadline:%H:%M} UTC has no forecast yet, which needs {FEWEST} days "
            "with a successful run."
        )

    def _figures(self) -> Iterator[str]:
        if self.overlap is not None:
            yield self.overlap.sentence
        if self.deadline is not None:
            yield self.of_deadline
        if self.tasks is not None:
            yield self.tasks.sentence
        if self.overlap is None and self.deadline is None and self.tasks is None:
            yield f"{self.series}: too few {'tasks' if self.series.startswith(TASK) else 'runs'} for figures."


def health_of(series: str, executions: Sequence[Execution], deadline: time | None, today: date) -> Health:
    """What the executions of a series say. An asset can miss its deadline; what starts runs can make them overlap."""
    if series.startswith(TASK):
        return Health(series, len(executions), None, None, None, {}, tasks=task_figures(series, executions))
    found = overlap(series, executions, today)
    warnings = {}
    if found is not None and found.is_tight and not series.startswith(ASSET):
        warnings[OVERLAP] = found.sentence
    made = None
    if deadline is not None:
        due = deadline_warning(series, executions, deadline, today)
        made = due or forecast(series, executions, deadline, today)
        if due is not None:
            warnings[DEADLINE] = due.sentence
    return Health(series, len(executions), found, deadline, made, warnings)


def health(store: Store, base: str, deadlines: Mapping[str, time], today: date) -> list[Health]:
    """The answers on all series, those with warnings first. `deadlines` are those of series. Raises StoreError."""
    known, waiting = executions_of(store, base), dict[str, tuple[str, ...]]()
    for tick in remembered(store, base):
        series = f"{SCHEDULE}{tick.schedule}"
        waiting[series] = (*waiting.get(series, ()), tick.partition)
    found = [
        replace(health_of(each, known.get(each, []), deadlines.get(each), today), waiting=waiting.get(each, ()))
        for each in {**known, **deadlines, **waiting}
    ]
    return sorted(found, key=lambda each: (not each.warnings, each.series))
