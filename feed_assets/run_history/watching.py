"""Watches a step while it runs: a thread looks every few seconds how far it is, says so, and keeps it.

Here: when it looks, and what it leaves. Not here: what Spark says (`engine.job_progress`), the rows (`tables`), and
Dagster (`io_manager.live_steps`). A watch never fails its step: what it cannot learn or keep is missing.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from threading import Event, Lock, Thread
from typing import Final

from py4j.protocol import Py4JError
from pyspark.sql import SparkSession

from feed_assets.engine.job_progress import JobProgress
from feed_assets.engine.progress import Progress
from feed_assets.run_history.live import EVERY, LiveStep
from feed_assets.run_history.tables import forget_live, keep_live
from feed_assets.state.address import StoreError
from feed_assets.state.store import Store

LONGER: Final = 1.5
"""The log gets new figures when the step has taken so many times as long as at the line before."""
AT_LEAST_EVERY: Final = timedelta(minutes=5)
"""The longest time between two lines in the log, also if nothing has changed."""


@dataclass(slots=True)
class Watch:
    """The watch of a step from `begin` to `end`; both are called by the thread that starts the step's jobs.

    Until it has taken `every`, nothing is asked of Spark, and nothing is written. `step` is what is known of it.
    `again` says that an earlier attempt at the step may have left a row.
    """

    step: LiveStep
    store: Callable[[], Store]
    base: str
    log: logging.Logger
    again: bool = False
    every: timedelta = EVERY
    _jobs: JobProgress | None = None
    _over: Event = field(default_factory=Event)
    _looking: Lock = field(default_factory=Lock)
    _kept: bool = False
    _refused: bool = False
    _said: LiveStep | None = None
    _thread: Thread | None = None

    def begin(self) -> None:
        """Begin to look."""
        self._thread = Thread(target=self._watch, name=f"watch {self.step.step}", daemon=True)
        self._thread.start()

    def session(self, spark: SparkSession) -> SparkSession:
        """The session, whose jobs from here on are those of the step. Only jobs of this thread are."""
        if self._jobs is None:
            jobs = JobProgress(spark, f"feed_assets run {self.step.run} step {self.step.step} {id(self):x}")
            jobs.begin()
            self._jobs = jobs
        return spark

    def end(self, *, succeeded: bool) -> LiveStep | None:
        """Look no more. Without success, what is known of the step stays: that is returned.

        None after success, and for a step that took less than `every`.
        """
        if self._over.is_set():
            return None
        self._over.set()
        with self._looking:
            lasted = _now() - self.step.started >= self.every
            last = self._ended() if lasted and not succeeded else None
            if last is not None:
                self._keep(last)
            elif self._kept or (self.again and succeeded):
                self._forget()
        self._release()
        return last

    def _watch(self) -> None:
        while not self._over.wait(self.every.total_seconds()):
            with self._looking:
                if not self._over.is_set():
                    self._look()

    def _look(self) -> None:
        now = _now()
        self.step = self._with(self._progress(), now)
        self._keep(self.step)
        if self._is_news():
            self._said = self.step
            self.log.info(self.step.sentence(now))

    def _is_news(self) -> bool:
        """Whether the log gets a line: for new figures now and then, for old ones when it has been quiet for long."""
        if self.step.progress is None or self._said is None:
            return self.step.progress is not None
        quiet = self.step.seen - self._said.seen
        longer = self.step.seen - self.step.started >= LONGER * (self._said.seen - self.step.started)
        return quiet >= AT_LEAST_EVERY or (longer and self.step.progress != self._said.progress)

    def _ended(self) -> LiveStep:
        now = _now()
        return replace(self._with(self._progress(last=True), now), ended=now)

    def _with(self, progress: Progress | None, now: datetime) -> LiveStep:
        changed = now if progress != self.step.progress else self.step.changed
        return replace(self.step, seen=now, changed=changed, progress=progress)

    def _progress(self, *, last: bool = False) -> Progress | None:
        """What Spark says; what it said before if its Java has ended, or if it is about to."""
        if self._jobs is None:
            return None
        try:
            return self._jobs.look(last=last)
        except (Py4JError, OSError):
            return self.step.progress

    def _keep(self, step: LiveStep) -> None:
        if self._refused:
            return
        try:
            keep_live(self.store(), self.base, step)
            self._kept = True
        except StoreError as error:
            self._refused = True
            self.log.warning(f"How far this step is, is not kept for others to see. {error}")

    def _forget(self) -> None:
        try:
            forget_live(self.store(), self.base, self.step.run, self.step.step)
        except StoreError as error:
            self.log.warning(f"This step succeeded, and looks as if it had been killed. {error}")

    def _release(self) -> None:
        if self._jobs is not None:
            with suppress(Py4JError, OSError):  # Java has ended, and its jobs with it
                self._jobs.end()


def _now() -> datetime:
    return datetime.now(UTC)
