"""How far the jobs of a step are, as Spark's own status says. Not here: when somebody looks, and who is told."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Final

from py4j.protocol import Py4JError
from pyspark.sql import SparkSession

from feed_assets.engine.jvm import java_session, job_status, wait_for_events
from feed_assets.engine.progress import Progress

RUNNING: Final = "RUNNING"
SUCCEEDED: Final = "SUCCEEDED"
NOT_BEGUN: Final = frozenset({"PENDING", "SKIPPED"})
ENDED: Final = frozenset({"COMPLETE", "FAILED", "SKIPPED"})
CATCHES_UP: Final = 1_000
"""Milliseconds within which Spark's status takes in the last events before it is asked for the last time."""


@dataclass(frozen=True, slots=True)
class _Stage:
    ended: bool
    done: bool
    tasks_done: int
    tasks: int
    rows_read: int = 0
    bytes_read: int = 0
    rows_written: int = 0
    bytes_written: int = 0


@dataclass(slots=True)
class JobProgress:
    """The progress of the jobs with a tag. Any thread may look, one at a time.

    Spark forgets old jobs and stages; what was seen of them stays. A stage that has ended is read once.
    """

    spark: SparkSession
    tag: str
    _ended: set[int] = field(default_factory=set)
    """Jobs."""
    _stages: dict[int, _Stage] = field(default_factory=dict)
    _computed: set[str] = field(default_factory=set)
    """The RDDs of each stage that is complete. A stage of a later job with the same RDDs is going to be skipped."""

    def begin(self) -> None:
        """Let jobs that this thread starts have the tag, and the jobs that these start."""
        self.spark.sparkContext.addJobTag(self.tag)

    def end(self) -> None:
        """Let later jobs of this thread not have the tag."""
        self.spark.sparkContext.removeJobTag(self.tag)

    def look(self, *, last: bool = False) -> Progress | None:
        """The sums; None before the first job. With `last`, waits for events that are on their way.

        Raises py4j's errors, and OSError, if Java has ended.
        """
        if last:
            with suppress(Py4JError):  # Spark is busy: its status is a little older
                wait_for_events(self.spark, CATCHES_UP)
        store = job_status(self.spark)
        for job in sorted(java_session(self.spark).sparkContext().statusTracker().getJobIdsForTag(self.tag)):
            if job not in self._ended:
                self._look_at(store, job)
        return self._sums()

    def _look_at(self, store: Any, number: int) -> None:
        if (job := _found(store.job, number)) is None:
            return
        status, ids = str(job.status().toString()), str(job.stageIds().mkString(","))
        for stage in sorted(int(each) for each in ids.split(",") if each):
            known = self._stages.get(stage)
            if known is None or not known.ended:
                self._look_at_stage(store, stage, status)
        if status != RUNNING:
            self._ended.add(number)

    def _look_at_stage(self, store: Any, number: int, job_status: str) -> None:
        if (stage := _found(store.lastStageAttempt, number)) is None:
            return
        status, rdds = str(stage.status().toString()), str(stage.rddIds().mkString(","))
        tasks = int(stage.numTasks())
        if status in NOT_BEGUN:
            if job_status == SUCCEEDED or rdds in self._computed:
                self._stages.pop(number, None)
            else:
                self._stages[number] = _Stage(ended=job_status != RUNNING, done=False, tasks_done=0, tasks=tasks)
            return
        if status == "COMPLETE":
            self._computed.add(rdds)
        self._stages[number] = _Stage(
            ended=status in ENDED,
            done=status == "COMPLETE",
            tasks_done=int(stage.numCompleteTasks()),
            tasks=tasks,
            rows_read=int(stage.inputRecords()),
            bytes_read=int(stage.inputBytes()),
            rows_written=int(stage.outputRecords()),
            bytes_written=int(stage.outputBytes()),
        )

    def _sums(self) -> Progress | None:
        stages = self._stages.values()
        if not stages:
            return None
        return Progress(
            stages_done=sum(each.done for each in stages),
            stages=len(stages),
            tasks_done=sum(each.tasks_done for each in stages),
            tasks=sum(each.tasks for each in stages),
            rows_read=sum(each.rows_read for each in stages),
            bytes_read=sum(each.bytes_read for each in stages),
            rows_written=sum(each.rows_written for each in stages),
            bytes_written=sum(each.bytes_written for each in stages),
        )


def _found(look: Any, number: int) -> Any:
    """A job or a stage; None if Spark has forgotten it."""
    try:
        return look(number)
    except Py4JError as error:
        if "NoSuchElementException" in str(error):
            return None
        raise
