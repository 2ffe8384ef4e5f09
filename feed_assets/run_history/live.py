"""The steps that run now, and how far those were that did not succeed.

Here: what is known of a step, and its sentence; the answers for commands and pages. Not here: who looks (`watching`),
and the rows (`tables`). A step that takes less than EVERY leaves nothing, nor does one that succeeds.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from feed_assets.engine.progress import Progress
from feed_assets.run_history.overlap import in_words

EVERY: Final = timedelta(seconds=5)
"""The time between two looks at a step."""
SILENT_AFTER: Final = timedelta(seconds=60)
"""Without a sign for so long, the process of a step counts as killed."""


@dataclass(frozen=True, slots=True)
class LiveStep:
    """A step of a run, and its progress when somebody looked last (`seen`).

    `step` is Dagster's name; `feeds` are the locations of what it makes or checks. `first` and `last` are its first and
    last partition; None without partitions. `process` is where it runs. `changed` is when the progress was another one
    before. `ended` is None until the step ends without success. `progress` is None before the first job of Spark. Times
    are those of the machine, also where the project has a fixed clock.
    """

    run: str
    step: str
    feeds: tuple[str, ...]
    first: str | None
    last: str | None
    partitions: int
    process: str
    started: datetime
    seen: datetime
    changed: datetime
    ended: datetime | None = None
    progress: Progress | None = None

    @property
    def title(self) -> str:
        """The step and its partitions."""
        if self.first is None or self.last is None:
            return self.step
        several = f" to {self.last} ({self.partitions:,} partitions)" if self.partitions > 1 else ""
        return f"{self.step} {self.first}{several}"

    @property
    def figures(self) -> str:
        """How long it took and how far it was: `3 min: stage 2 of 3, 118 of 200 tasks`."""
        took = in_words((self.ended or self.seen) - self.started)
        return took if self.progress is None else f"{took}: {self.progress.sentence}"

    @property
    def still(self) -> str:
        """For how long nothing has changed; "" for less than a minute."""
        unchanged = self.seen - self.changed
        return f", unchanged for {in_words(unchanged)}" if unchanged >= timedelta(minutes=1) else ""

    def runs(self, now: datetime) -> bool:
        """Whether it runs: it has not ended, and gave a sign lately."""
        return self.ended is None and now - self.seen <= SILENT_AFTER

    def sentence(self, now: datetime) -> str:
        """What is known of the step."""
        if self.ended is not None:
            return f"{self.title} failed after {self.figures}."
        if self.runs(now):
            return f"{self.title} has run for {self.figures}{self.still}."
        return (
            f"{self.title} has given no sign since {self.seen:%Y-%m-%d %H:%M:%S}, after {self.figures}. Its process "
            f"({self.process}) was probably killed."
        )

    def has(self, feed: str, partition: str) -> bool:
        """Whether it makes or checks this partition of a feed. The partitions of a step are in a row."""
        within = self.first is not None and self.last is not None and self.first <= partition <= self.last
        return feed in self.feeds and within

    def state(self, now: datetime) -> str:
        """In a word: running, failed, or silent."""
        return "failed" if self.ended is not None else "running" if self.runs(now) else "silent"
