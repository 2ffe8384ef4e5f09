"""Steps of a run while they run: watched, and if they fail, with their last figures in Dagster's metadata.

Here: a watch as a part of a step of Dagster. Not here: when it looks, and what it keeps (`run_history.watching`).
"""

from __future__ import annotations

import logging
import os
import socket
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from functools import cached_property
from typing import Any, Final

import dagster as dg
from dagster._core.events import EngineEventData  # the only event of a step that has ended with metadata

from feed_assets.datasets.declaration import Place
from feed_assets.feed_events.failures import PROGRESS, reason_of
from feed_assets.resources.storage import StateResource
from feed_assets.run_history.live import EVERY, LiveStep
from feed_assets.run_history.watching import Watch
from feed_assets.state.store import Store
from feed_assets.steps.run import Run

LIVE_STEPS: Final = "live_steps"
"""The key of the resource."""


@dataclass(eq=False)
class LiveSteps:
    """The watches of the steps of a run in this process; one step runs at a time."""

    state: StateResource
    base: str
    run: dg.DagsterRun
    instance: dg.DagsterInstance
    every: timedelta = EVERY
    _open: dict[str, tuple[Watch, set[Place]]] = field(default_factory=dict)
    """Each with the outputs that its step has not written yet."""

    def begin(self, step: str, places: Collection[Place], log: logging.Logger, *, attempts_before: int) -> Watch:
        """Watch a step that makes or checks these places, until each is `written`, or until it has `failed`.

        `step` is its key.
        """
        self.close()
        now, partitions = datetime.now(UTC), sorted({each for _, each in places if each is not None})
        known = LiveStep(
            run=self.run.run_id,
            step=step,
            feeds=tuple(sorted({feed for feed, _ in places})),
            first=partitions[0] if partitions else None,
            last=partitions[-1] if partitions else None,
            partitions=len(partitions),
            process=f"{socket.gethostname()}, process {os.getpid()}",
            started=now,
            seen=now,
            changed=now,
        )
        watch = Watch(known, lambda: self._store, self.base, log, again=attempts_before > 0, every=self.every)
        self._open[step] = watch, set(places)
        watch.begin()
        return watch

    def written(self, step: str, places: Collection[Place]) -> None:
        """End the watch of a step if these are the last places that it writes: it has succeeded."""
        if step in self._open:
            watch, left = self._open[step]
            left.difference_update(places)
            if not left:
                del self._open[step]
                watch.end(succeeded=True)

    @contextmanager
    def failing(self, step: str) -> Iterator[None]:
        """Give an error in here the last figures of the step, if it was watched for long enough to have some."""
        try:
            yield
        except dg.RetryRequested as request:
            if (last := self._failed(step)) is not None:
                request.__cause__ = failure_of(request.__cause__ or request, last)
            raise
        except Exception as error:
            if (last := self._failed(step)) is None:
                raise
            raise failure_of(error, last) from error
        except BaseException:  # the run is interrupted
            self._failed(step)
            raise

    @contextmanager
    def watching(
        self, step: str, places: Sequence[Place], log: logging.Logger, attempts_before: int
    ) -> Iterator[Watch]:
        """As `begin`; the step succeeds with the end of the block, or fails with its error."""
        watch = self.begin(step, places, log, attempts_before=attempts_before)
        with self.failing(step):
            yield watch
        self.written(step, places)

    def close(self) -> None:
        """End the watches of steps that have ended without a word, as one does whose own function fails.

        Dagster takes no metadata for the error of such a function, so an event has its figures.
        """
        while self._open:
            step, (watch, _) = self._open.popitem()
            if (last := watch.end(succeeded=self._has_succeeded(step))) is not None:
                sentence = last.sentence(last.seen)
                self.instance.report_engine_event(sentence, self.run, EngineEventData(figures(last)), step_key=step)

    def _failed(self, step: str) -> LiveStep | None:
        return self._open.pop(step)[0].end(succeeded=False) if step in self._open else None

    def _has_succeeded(self, step: str) -> bool:
        found = self.instance.all_logs(self.run.run_id, of_type=dg.DagsterEventType.STEP_SUCCESS)
        return any(entry.step_key == step for entry in found)

    @cached_property
    def _store(self) -> Store:
        return self.state.store


def live_steps(every: timedelta = EVERY) -> dg.ResourceDefinition:
    """The watches of a run, until its resources are torn down. They look `every` few seconds."""

    @dg.resource(required_resource_keys={"blackboard", "state"}, description="How far the steps of this run are.")
    def watches(context: dg.InitResourceContext) -> Iterator[LiveSteps]:
        given = context.resources
        if context.run is None or context.instance is None:
            raise dg.DagsterInvariantViolationError("The resource live_steps is that of a run: use it in a step.")
        base = given.blackboard.blackboard.uri("")
        found = LiveSteps(given.state, base, context.run, context.instance, every)
        try:
            yield found
        finally:
            found.close()

    return watches


def watched(run: Run, watch: Watch) -> Run:
    """The run, whose jobs of Spark are those of the watch's step."""
    return replace(run, spark=lambda: watch.session(run.spark()))


def figures(last: LiveStep) -> dict[str, Any]:
    """What is known of a step that has failed, in Dagster's metadata."""
    shown: dict[str, Any] = {
        PROGRESS: f"after {last.figures}",
        "seconds": round((last.seen - last.started).total_seconds(), 1),
    }
    if (made := last.progress) is not None:
        shown |= {
            "stages done": made.stages_done,
            "stages": made.stages,
            "tasks done": made.tasks_done,
            "tasks": made.tasks,
            "rows read": made.rows_read,
            "bytes read": made.bytes_read,
            "rows written": made.rows_written,
            "bytes written": made.bytes_written,
        }
    return shown


def failure_of(error: BaseException, last: LiveStep) -> dg.Failure:
    """The error of a step as a failure with its last figures; its cause is the error."""
    more = figures(last)
    if isinstance(error, dg.Failure):
        failure = dg.Failure(error.description, {**error.metadata, **more}, error.allow_retries)
    else:
        failure = dg.Failure(reason_of(error), more)
    failure.__cause__ = error
    return failure
