"""The sensor for feeds: updates that others published, invalidations, and what has fallen behind them.

Here: telling Dagster what happened on the blackboard, and asking for the runs that follow from it. Not here:
what counts as news (`file_feed.consumption`) or as behind (`staleness`).
"""

import json
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import dagster as dg

from feed_assets.blackboard import Blackboard
from feed_assets.file_feed import Change, Cursor, FeedError, news, read_record
from feed_assets.file_feed.wording import counted
from feed_assets.io_manager.asset_events import INVALIDATED, still_in_force
from feed_assets.resources import BlackboardResource, Clock
from feed_assets.sensors.busy import busy_partitions
from feed_assets.sensors.feeds import FeedAsset, FeedGraph
from feed_assets.sensors.requests import Need, Requests, load_cursor
from feed_assets.sensors.staleness import staleness

MAX_EVENTS = 200
"""Asset events reported in one tick; an event costs some milliseconds to store."""

TICK_SECONDS = 40.0
DATA_VERSION_TAG = "dagster/data_version"


def new_manifests(
    *, lookback_days: int, interval_seconds: int, run_config: Mapping[str, Any] | None = None
) -> dg.SensorDefinition:
    """Watches every feed of the code location.

    Derived feeds are kept up with their inputs over `lookback_days`, and beyond that wherever a change arrives;
    requested runs get `run_config`.
    """

    @dg.sensor(
        name="new_manifests",
        asset_selection=dg.AssetSelection.all(),  # as `target`, all assets would have to share their partitions
        minimum_interval_seconds=interval_seconds,
        default_status=dg.DefaultSensorStatus.RUNNING,
        description=(
            "Reports each new valid update, each invalidation and each update that became valid late, once, as an "
            "asset event with the update as its data version, and runs the derived partitions that are behind "
            "their inputs. "
            "Updates that runs of this instance published are known already and cause nothing."
        ),
    )
    def sensor(context: dg.SensorEvaluationContext, blackboard: BlackboardResource, clock: Clock) -> dg.SensorResult:
        tick = _Tick(context, blackboard.blackboard, clock.now(), time.monotonic() + TICK_SECONDS, run_config or {})
        return tick.result(lookback_days)

    return sensor


@dataclass(slots=True)
class _Tick:
    """One evaluation: what it may use, and how long."""

    context: dg.SensorEvaluationContext
    board: Blackboard
    now: datetime
    deadline: float
    run_config: Mapping[str, Any]

    def result(self, lookback_days: int) -> dg.SensorResult:
        if self.context.repository_def is None:
            message = "new_manifests needs the code location's definitions; evaluate it with `definitions`."
            raise dg.DagsterInvariantViolationError(message)
        feeds = FeedGraph.of(self.context.repository_def)
        cursor = load_cursor(self.context.cursor)
        held = cursor.get("feeds")
        cursors: dict[str, Any] = dict(held) if isinstance(held, dict) else {}
        busy = busy_partitions(self.context.instance, feeds)
        requests = Requests("new_manifests", self.board, feeds, busy, self.now, self.run_config)

        events: list[dg.AssetMaterialization | dg.AssetObservation] = []
        touched = _touched(cursor.get("touched"))
        resume = None
        for place, asset in enumerate(_from(feeds.assets.values(), cursor.get("resume"))):
            if (place and time.monotonic() > self.deadline) or len(events) >= MAX_EVENTS:
                resume = asset.declaration.location
                break
            changes = self._news(feeds, asset, cursors, MAX_EVENTS - len(events))
            events.extend(self._events(asset, changes))
            touched |= {child for change in changes for child in _affected(feeds, asset, change.partition)}

        open_ones = self._ask(feeds, requests, touched, lookback_days)
        for note in requests.decided:
            self.context.log.info(note)
        content = {
            "feeds": cursors,
            "touched": sorted([key.to_user_string(), partition] for key, partition in open_ones),
            **({"resume": resume} if resume else {}),
        }
        return dg.SensorResult(
            run_requests=requests.runs,
            asset_events=events,
            skip_reason=None
            if requests.runs
            else f"{counted(len(events), 'event')} reported, no run needed. " + "; ".join(requests.decided[:3]),
            cursor=json.dumps(content, sort_keys=True),
        )

    def _news(self, feeds: FeedGraph, asset: FeedAsset, cursors: dict[str, Any], limit: int) -> list[Change]:
        """What is new in a feed. One that cannot be read, or a partition with an odd name, holds up no other."""
        location = asset.declaration.location
        feed = asset.declaration.on(self.board)
        try:
            changes, cursor = news(feed, Cursor.from_json(str(cursors.get(location, ""))), now=self.now, limit=limit)
        except FeedError as error:
            self.context.log.warning(f"{location} cannot be looked at: {error}")
            return []
        cursors[location] = cursor.to_json()
        known = []
        for change in changes:
            if feeds.can_have(asset.key, change.partition):
                known.append(change)
            else:
                where = repr(change.partition) if change.partition is not None else "the feed itself"
                self.context.log.warning(
                    f"{location}: an update in {where} is passed over, which is no partition of the asset "
                    f"{asset.key.to_user_string()} ({change.sentence()})."
                )
        return known

    def _events(
        self, asset: FeedAsset, changes: list[Change]
    ) -> Iterator[dg.AssetMaterialization | dg.AssetObservation]:
        """What Dagster does not know of these changes. An update that a run of ours published it has seen already."""
        if not changes:
            return
        known = self._known_versions(asset)
        for change in changes:
            if change.kind != "invalidated" and self._is_known(asset, change, known.get(change.partition or "", "")):
                continue
            self.context.log.info(change.sentence())
            if change.kind == "invalidated":
                # Dagster goes on from the update before, or from nothing, as every reader does.
                yield still_in_force(
                    self.context.instance,
                    asset.key,
                    change.partition,
                    change.update,
                    why=f"{change.sentence()}.",
                    metadata={INVALIDATED: change.name},
                )
            else:
                yield _event(asset, change)

    def _is_known(self, asset: FeedAsset, change: Change, version: str) -> bool:
        """Whether Dagster was told of an update: by the run that made it, unless of its loss since."""
        if change.kind == "published" and version == change.name:
            return True
        record = read_record(asset.declaration.on(self.board), change.partition, change.name)
        run = self.context.instance.get_run_by_id(record.facts.run_id) if record and record.facts.run_id else None
        return run is not None and (change.kind == "older" or version > change.name or not run.is_finished)

    def _known_versions(self, asset: FeedAsset) -> dict[str, str]:
        """The data version that Dagster last saw of each partition, from one query."""
        if not asset.partitioned:
            event = self.context.instance.get_latest_materialization_event(asset.key)
            materialization = event.asset_materialization if event else None
            tags = (materialization.tags if materialization else None) or {}
            return {"": tags[DATA_VERSION_TAG]} if DATA_VERSION_TAG in tags else {}
        storage = self.context.instance.event_log_storage
        tags_by_partition = storage.get_latest_tags_by_partition(
            asset.key, dg.DagsterEventType.ASSET_MATERIALIZATION, [DATA_VERSION_TAG]
        )
        return {partition: tags[DATA_VERSION_TAG] for partition, tags in tags_by_partition.items()}

    def _ask(
        self,
        feeds: FeedGraph,
        requests: Requests,
        touched: set[tuple[dg.AssetKey, str]],
        lookback_days: int,
    ) -> set[tuple[dg.AssetKey, str]]:
        """Request what is stale; returns the touched partitions beyond the lookback that have to be looked at again."""
        today = datetime.combine(self.now.date(), datetime.min.time(), UTC)
        still_open = set()
        for asset in feeds.derived():
            watched = feeds.between(asset.key, today - timedelta(days=lookback_days), today)
            older = {partition for key, partition in touched if key == asset.key}
            try:
                answers = list(staleness(self.board, feeds, asset, watched | older, now=self.now))
            except FeedError as error:
                self.context.log.warning(f"{asset.key.to_user_string()} is not kept up with its inputs: {error}")
                still_open |= {(asset.key, partition) for partition in older - watched}
                continue
            for answer in answers:
                if not answer.stale:
                    continue
                place = (asset.key, answer.partition)
                if requests.full or time.monotonic() > self.deadline:
                    requests.left_over += 1
                elif due := requests.not_yet_asked(answer.partition, {asset.key: answer.state}):
                    requests.add(Need(answer.partition, due, answer.reason))
                if answer.partition not in watched and place not in requests.given_up:
                    still_open.add(place)
        return still_open


def _event(asset: FeedAsset, change: Change) -> dg.AssetMaterialization | dg.AssetObservation:
    """The asset event of a change. An older update that became valid late is observed: it is not what is in force."""
    older = change.kind == "older"
    update = change.update
    reported = change.name if older or update is None else update.name
    metadata: dict[str, Any] = {
        "update": reported,
        "change": change.sentence(),
        "feed": asset.declaration.location,
    }
    if update is not None and not older:
        metadata |= {
            "path": dg.MetadataValue.path(update.uri),
            "files": len(update.files),
            "bytes": update.bytes,
        }
    make = dg.AssetObservation if older or update is None else dg.AssetMaterialization
    return make(
        asset_key=asset.key,
        partition=change.partition,
        description=change.sentence(),
        metadata=metadata,
        tags={DATA_VERSION_TAG: reported},
    )


def _affected(feeds: FeedGraph, asset: FeedAsset, partition: str | None) -> set[tuple[dg.AssetKey, str]]:
    """What a change of this partition can make stale: what reads it, and its neighbours, which share with it."""
    affected = feeds.children(asset.key, partition)
    if partition is not None and asset.made_here and asset.upstream:
        affected |= {(asset.key, each) for each in feeds.neighbours(asset.key, partition).values()}
    return affected


def _from(assets: Iterable[FeedAsset], location: object) -> list[FeedAsset]:
    """The feeds, beginning with the one that the tick before did not get to any more."""
    all_of_them = list(assets)
    at = next((place for place, asset in enumerate(all_of_them) if asset.declaration.location == location), 0)
    return [*all_of_them[at:], *all_of_them[:at]]


def _touched(value: object) -> set[tuple[dg.AssetKey, str]]:
    """The partitions an earlier tick left open, as far as the cursor tells them legibly."""
    if not isinstance(value, list):
        return set()
    return {
        (dg.AssetKey.from_user_string(key), partition)
        for each in value
        if isinstance(each, list) and [type(part) for part in each] == [str, str]
        for key, partition in [each]
    }
