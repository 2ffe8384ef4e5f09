"""The runs of Dagster that have ended, as executions of series: of schedules, of triggers, and of the feeds' assets.

Here: one page of runs after a cursor. Not here: what is kept of them, and what follows (`run_history`).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime, time, timedelta
from typing import Any, Final

import dagster as dg

from feed_assets.feed_events.declarations import declared_deadline
from feed_assets.feed_events.metadata import UPDATE
from feed_assets.feed_events.scheduled import SCHEDULE_TAG, WANTED_TAG
from feed_assets.feed_events.triggers import BACKFILL_TAG, DAGSTERS_BACKFILL_TAG, REVISIONS_TAG, attempt_tag
from feed_assets.run_history.executions import ASSET, SCHEDULE, TRIGGER, Execution
from feed_assets.sensors.asset_graph import AssetFeedGraph

PAGE: Final = 50
"""The runs of a page: a query for all, and one for each run that computed feeds."""
OVERLAPPING: Final = timedelta(minutes=2)
"""A run may be stored later than one with a later time: the next page looks so far back."""
ENDED: Final = [dg.DagsterRunStatus.SUCCESS, dg.DagsterRunStatus.FAILURE]

SCHEDULE_TAGS: Final = ("dagster/schedule_name", SCHEDULE_TAG)
WANTED_TAGS: Final = (WANTED_TAG, ".dagster/scheduled_execution_time")
"""The time of a schedule's tick, in ISO 8601: by our tag, also of a tick that was remembered."""
SEVERAL_PARTITIONS: Final = (DAGSTERS_BACKFILL_TAG, "dagster/asset_partition_range_start", BACKFILL_TAG)
"""Tags of runs that compute earlier days, or several at once: they say nothing of the daily run of an asset."""
VOLUMES: Final = ("raw bytes", "bytes")
"""What an asset read, else what it published."""


@dataclass(frozen=True, slots=True)
class Cursor:
    """The place after the runs that were read: a time, and the runs near it. `is_behind`: there are more runs."""

    after: datetime
    seen: tuple[str, ...] = ()
    is_behind: bool = True

    @classmethod
    def from_plain(cls, stored: object, first: datetime) -> Cursor:
        """The cursor as `to_plain` stored it; else one that begins with the runs since `first`."""
        try:
            after, *seen = map(str, stored if isinstance(stored, list) else [""])
            return cls(max(datetime.fromisoformat(after), first), tuple(seen))
        except ValueError:
            return cls(first)

    def to_plain(self) -> list[str]:
        """The cursor as JSON takes it."""
        return [self.after.isoformat(), *self.seen]


def ended_page(
    instance: dg.DagsterInstance, schedules: Collection[str], feeds: AssetFeedGraph, cursor: Cursor
) -> tuple[list[Execution], Cursor]:
    """The executions of the next runs that ended, at most PAGE runs, and the place after them.

    `schedules` are the names of the code location's own. Canceled runs are left out: how long they took says nothing.
    """
    records = instance.get_run_records(
        dg.RunsFilter(statuses=ENDED, updated_after=cursor.after - OVERLAPPING),
        limit=PAGE + len(cursor.seen),
        order_by="update_timestamp",
        ascending=True,
    )
    new = [each for each in records if each.dagster_run.run_id not in cursor.seen][:PAGE]
    found = [each for record in new for each in _executions(instance, schedules, feeds, record)]
    after = max([cursor.after, *(_aware(each.update_timestamp) for each in new)])
    near = [each for each in records if _aware(each.update_timestamp) > after - OVERLAPPING]
    taken = {*cursor.seen, *(each.dagster_run.run_id for each in new)}
    seen = tuple(run for each in near if (run := each.dagster_run.run_id) in taken)
    return found, Cursor(after, seen, is_behind=len(new) == PAGE)


def deadlines(feeds: AssetFeedGraph) -> dict[str, time]:
    """The deadlines of the assets that have one, by their series."""
    found = {key: declared_deadline(feeds.metadata(location)) for location, key in feeds.keys.items()}
    return {series_of(key): each for key, each in found.items() if each is not None}


def series_of(key: dg.AssetKey) -> str:
    """The series of an asset's executions."""
    return f"{ASSET}{key.to_user_string()}"


def _executions(
    instance: dg.DagsterInstance, schedules: Collection[str], feeds: AssetFeedGraph, record: dg.RunRecord
) -> Iterator[Execution]:
    """The executions of a run, one for each of its series."""
    run, tags = record.dagster_run, record.dagster_run.tags
    if record.start_time is None or record.end_time is None:
        return  # it failed before it started
    started = datetime.fromtimestamp(record.start_time, UTC)
    whole = Execution(
        series="",
        run=run.run_id,
        partition=tags.get("dagster/partition"),
        # A run of another instance, which was copied, is created after its start.
        wanted=_wanted(tags) or min(started, _aware(record.create_timestamp)),
        started=started,
        ended=datetime.fromtimestamp(record.end_time, UTC),
        succeeded=run.status is dg.DagsterRunStatus.SUCCESS,
    )
    if (schedule := next((tags[each] for each in SCHEDULE_TAGS if each in tags), None)) in schedules:
        yield replace(whole, series=f"{SCHEDULE}{schedule}")
    keys = [key for key in sorted(run.asset_selection or ()) if key in feeds.locations]
    for key in keys if REVISIONS_TAG in tags else ():
        if attempt_tag(feeds.locations[key]) in tags:
            yield replace(whole, series=f"{TRIGGER}{key.to_user_string()}")
    if keys and not any(each in tags for each in SEVERAL_PARTITIONS):
        yield from _of_assets(instance, whole, keys)


def _of_assets(instance: dg.DagsterInstance, whole: Execution, keys: Iterable[dg.AssetKey]) -> Iterator[Execution]:
    """The executions of the assets of a run. Each ends when the run last told of it: the run may go on with others."""
    if not whole.succeeded:
        yield from (replace(whole, series=series_of(key)) for key in keys)
        return
    events = _last_events(instance, whole.run)
    for key in keys:
        if key in events:
            at, metadata = events[key]
            yield replace(
                whole,
                series=series_of(key),
                ended=datetime.fromtimestamp(at, UTC),
                rows=_number(metadata, ["dagster/row_count"]),
                bytes=_number(metadata, VOLUMES),
            )


def _last_events(instance: dg.DagsterInstance, run: str) -> dict[dg.AssetKey, tuple[float, Mapping[str, Any]]]:
    """When the run last told of each asset, and the metadata of the update that it published."""
    found: dict[dg.AssetKey, tuple[float, Mapping[str, Any]]] = {}
    for record in instance.get_records_for_run(run, of_type=dg.DagsterEventType.ASSET_MATERIALIZATION).records:
        event = record.asset_materialization
        if event is not None and UPDATE in event.metadata:
            found[event.asset_key] = record.timestamp, event.metadata
    return found


def _number(metadata: Mapping[str, Any], names: Iterable[str]) -> int | None:
    values = (metadata[name].value for name in names if name in metadata)
    return next((each for each in values if isinstance(each, int)), None)


def _wanted(tags: Mapping[str, str]) -> datetime | None:
    stored = next((tags[each] for each in WANTED_TAGS if each in tags), "")
    try:
        return datetime.fromisoformat(stored)
    except ValueError:
        return None


def _aware(at: datetime) -> datetime:
    return at if at.tzinfo else at.replace(tzinfo=UTC)
