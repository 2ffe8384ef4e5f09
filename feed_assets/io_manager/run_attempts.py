"""The attempts of a run: taken before a step claims, held while this process lives, ended with their result.

Here: a run of Dagster as the attempts that it is for, or that somebody forces. Not here: how attempts follow each other
(`starts`). A run that fails ends none: the next tick of the sensor `starts` sees that in Dagster.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from datetime import datetime

import dagster as dg

from feed_assets.datasets.declaration import Place
from feed_assets.feed_events.triggers import BACKFILL_TAG, DAGSTERS_BACKFILL_TAG, attempt_tag
from feed_assets.resources.storage import StateResource
from feed_assets.starts.attempt import Attempt, AttemptRefusedError, State
from feed_assets.starts.attempts import Attempts, Running
from feed_assets.state.address import StoreError

ATTEMPTS = "attempts"
"""The key of the resource."""
ROOT_RUN = "dagster/root_run_id"
"""The tag of the run that this run re-executes. The run of a job has it, too, and no other mark of its root."""


@dataclass(eq=False)
class RunAttempts:
    """The attempts that this process has taken. The database is opened for the first flow with a trigger."""

    state: StateResource
    base: str
    now: Callable[[], datetime]
    _held: ExitStack = field(default_factory=ExitStack)
    _running: dict[tuple[str, Place], Running] = field(default_factory=dict)

    def take(self, run: dg.DagsterRun, flows: Iterable[Place]) -> Mapping[Place, Attempt]:
        """The attempt for each of these outputs of the run, all or none; a thread renews their leases until `close`.

        Those that the gate requested are in the tags of the run. The others are forced. Raises Failure, which is not
        retried, if another attempt lives or follows; StoreError.
        """
        new = [each for each in flows if (run.run_id, each) not in self._running]
        asked = {place: key for place in new if (key := run.tags.get(attempt_tag(place[0])))}
        forced = [_slot(place) for place in new if place not in asked]
        root, by = root_of(run), _started_by(run)
        try:
            if asked:
                self._hold(run, asked, self._service.start(asked.values(), run=run.run_id, root=root))
            if forced:
                taken = self._service.force(forced, run=run.run_id, root=root, by=by)
                self._hold(run, (place for place in new if place not in asked), taken)
        except AttemptRefusedError as error:
            raise dg.Failure(description=str(error), allow_retries=False) from None
        return {place: self._running[run.run_id, place].attempts[_slot(place)] for place in flows}

    def end(self, run: dg.DagsterRun, place: Place, state: State, reason: str = "") -> None:
        """Record the result of the run's attempt at an output, if it has one. Raises StoreError."""
        flow, slot = _slot(place)
        if running := self._running.pop((run.run_id, place), None):
            running.end(flow, slot, state, reason)
            return
        newest = self._service.newest(flow, [slot]).get(slot)  # another process of the run has taken it
        if newest is not None and newest.alive and newest.root == root_of(run):
            self._service.end(newest.key, state, reason)

    def close(self) -> None:
        """Stop renewing, and give the leases back. An attempt without a result ends when its run has."""
        with suppress(StoreError):  # then they end by themselves
            self._held.close()

    @property
    def _service(self) -> Attempts:
        return Attempts(self.state.store, self.base, self.now)

    def _hold(self, run: dg.DagsterRun, places: Iterable[Place], running: Running) -> None:
        self._held.enter_context(running)
        self._running |= {(run.run_id, place): running for place in places}


@dg.resource(
    required_resource_keys={"blackboard", "state", "clock"},
    description="The attempts of this run at partitions of assets with a trigger.",
)
def run_attempts(context: dg.InitResourceContext) -> Iterator[RunAttempts]:
    """The attempts of a run, until its resources are torn down."""
    given = context.resources
    attempts = RunAttempts(given.state, given.blackboard.blackboard.uri(""), given.clock.now)
    try:
        yield attempts
    finally:
        attempts.close()


def root_of(run: dg.DagsterRun) -> str:
    """The first run of the chain of re-executions."""
    return run.root_run_id or run.tags.get(ROOT_RUN) or run.run_id


def _slot(place: Place) -> tuple[str, str]:
    flow, partition = place
    return flow, partition or ""


def _started_by(run: dg.DagsterRun) -> str:
    """Who started a run that the gate did not request."""
    if BACKFILL_TAG in run.tags or DAGSTERS_BACKFILL_TAG in run.tags:
        return "a backfill"
    for kind in ("schedule", "sensor"):
        if name := run.tags.get(f"dagster/{kind}_name"):
            return f"the {kind} {name}"
    return run.tags.get("user", "a person")
