"""Asking for runs once: for one state of the input, and never while a run on it is under way.

Here: what both sensors share. Not here: why a run is needed.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import date
from typing import Any

import dagster as dg
from dagster._core.errors import DagsterDefinitionChangedDeserializationError
from dagster._core.execution.backfill import BulkActionsFilter, BulkActionStatus, PartitionBackfill

from feed_assets.partitions import days_between, is_day
from feed_assets.sensors.feeds import FeedGraph

MAX_REQUESTS = 20
"""Runs asked for in one tick; what is left over is still due in the next."""

UNDER_WAY = [
    dg.DagsterRunStatus.QUEUED,
    dg.DagsterRunStatus.NOT_STARTED,
    dg.DagsterRunStatus.STARTING,
    dg.DagsterRunStatus.STARTED,
    dg.DagsterRunStatus.CANCELING,
]
WHY_TAG = "feed_assets/why"
BACKFILL_TAG = "feed_assets/backfill"
"""On each run of a backfill in one process, which Dagster does not know as a whole: its days, `first/last`."""


@dataclass(frozen=True, slots=True)
class Need:
    """A partition that has to be computed again: `due` names for each asset the state of its input that makes it so.

    `along` are the assets downstream that go into the same run.
    """

    partition: str
    due: Mapping[dg.AssetKey, str]
    reason: str
    along: tuple[dg.AssetKey, ...] = ()

    @property
    def assets(self) -> tuple[dg.AssetKey, ...]:
        """All assets of the run."""
        return (*self.due, *self.along)

    @property
    def title(self) -> str:
        """The assets and the partition, for people."""
        return f"{', '.join(key.to_user_string() for key in self.assets)} of {self.partition}"


@dataclass(slots=True)
class Requests:
    """The requests of one tick.

    `made` is what earlier ticks asked for (asset and partition -> state), `kept` what the next tick has to know of it:
    only what is still due, so that the cursor stays small.
    """

    sensor: str
    made: Mapping[str, str]
    busy: Mapping[str, frozenset[dg.AssetKey]]
    runs: list[dg.RunRequest] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    kept: dict[str, str] = field(default_factory=dict)
    run_config: Mapping[str, Any] = field(default_factory=dict)
    left_over: int = 0

    @property
    def said(self) -> list[str]:
        """What was decided, for the log."""
        more = f"{self.left_over} more are due, left for the next tick: {MAX_REQUESTS} were requested"
        return [*self.notes, more] if self.left_over else self.notes

    def not_yet_made(self, partition: str, due: Mapping[dg.AssetKey, str]) -> dict[dg.AssetKey, str]:
        """Those that were not asked for in this state of their input."""
        fresh = {}
        for key, state in due.items():
            if self.made.get(_subject(key, partition)) == state:
                self.kept[_subject(key, partition)] = state
            else:
                fresh[key] = state
        return fresh

    def keep_unexamined(self, examined: Iterable[tuple[dg.AssetKey, str]]) -> None:
        """Keep what was asked for of partitions that this tick did not come to: a later one does."""
        seen = {_subject(key, partition) for key, partition in examined}
        self.kept.update({subject: state for subject, state in self.made.items() if subject not in seen})

    def add(self, need: Need) -> bool:
        """Ask for a run, unless one is under way or the tick has asked for enough; False where it is still due."""
        if self.busy.get(need.partition, frozenset()) & set(need.assets):
            self.notes.append(f"{need.title}: a run on it is under way, looked at again afterwards ({need.reason})")
            return False
        if len(self.runs) >= MAX_REQUESTS:
            self.left_over += 1
            return False
        states = {_subject(key, need.partition): state for key, state in need.due.items()}
        self.kept.update(states)
        self.notes.append(f"{need.title}: run requested ({need.reason})")
        self.runs.append(
            dg.RunRequest(
                run_key=f"{self.sensor}:" + ",".join(f"{subject}:{state}" for subject, state in sorted(states.items())),
                run_config=dict(self.run_config),
                partition_key=need.partition,
                asset_selection=list(need.assets),
                tags={WHY_TAG: need.reason[:250]},
            )
        )
        return True


def busy_partitions(instance: dg.DagsterInstance, feeds: FeedGraph) -> dict[str, frozenset[dg.AssetKey]]:
    """The partitions that runs under way are computing, and that backfills are going to, each with its assets.

    A run that was started without a selection computes everything.
    """
    busy: dict[str, set[dg.AssetKey]] = {}
    for run in instance.get_runs(dg.RunsFilter(statuses=UNDER_WAY)):
        for partition in _partitions(run.tags):
            busy.setdefault(partition, set()).update(
                feeds.assets if run.asset_selection is None else run.asset_selection
            )
        first, _, last = run.tags.get(BACKFILL_TAG, "").partition("/")
        for partition in _range(first, last):
            busy.setdefault(partition, set()).update(feeds.assets)
    for backfill in instance.get_backfills(filters=BulkActionsFilter(statuses=[BulkActionStatus.REQUESTED])):
        for key, partition in _still_to_come(backfill, feeds):
            busy.setdefault(partition, set()).add(key)
    return {partition: frozenset(assets) for partition, assets in busy.items()}


def _still_to_come(backfill: PartitionBackfill, feeds: FeedGraph) -> Iterator[tuple[dg.AssetKey, str]]:
    """What a backfill has neither made nor given up yet; Dagster starts its stages one after the other."""
    if not backfill.is_asset_backfill:
        return
    try:
        data = backfill.get_asset_backfill_data(feeds.graph)
    except DagsterDefinitionChangedDeserializationError:
        return  # of assets that are not, or not any more, of this code location
    left = data.target_subset - data.materialized_subset - data.failed_and_downstream_subset
    for each in left.iterate_asset_partitions():
        if each.partition_key is not None:
            yield each.asset_key, each.partition_key


def load_cursor(text: str | None) -> dict[str, object]:
    """The cursor's content; one that cannot be read starts afresh: storage and run keys keep that harmless."""
    try:
        content = json.loads(text or "{}")
    except ValueError:
        return {}
    return content if isinstance(content, dict) else {}


def state_of(update: str | None, inputs: str) -> str:
    """The state that a request answers: what is in force, and the inputs as they are.

    Inputs that are what they were some time ago are another state, where something else was made since.
    """
    return f"{update or 'none'}/{inputs}"


def requested(cursor: Mapping[str, object]) -> dict[str, str]:
    """What earlier ticks asked for, as far as the cursor tells it legibly."""
    made = cursor.get("requested")
    return {str(key): str(value) for key, value in made.items()} if isinstance(made, dict) else {}


def _subject(key: dg.AssetKey, partition: str) -> str:
    return f"{key.to_user_string()}@{partition}"


def _partitions(tags: Mapping[str, str]) -> list[str]:
    """The partitions of a run, from the tags by which Dagster knows them; ranges are of days."""
    if single := tags.get("dagster/partition"):
        return [single]
    ends = (tags.get(f"dagster/asset_partition_range_{end}", "") for end in ("start", "end"))
    return _range(*(end[:10] for end in ends))


def _range(first: str, last: str) -> list[str]:
    """The days from first to last; none where these are no days."""
    if not is_day(first) or not is_day(last):
        return []
    return days_between(date.fromisoformat(first), date.fromisoformat(last))
