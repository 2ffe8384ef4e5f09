"""The sensor for feeds: updates that others published, invalidations, and what has fallen behind them.

Here: asset events, the cursor, the time that a tick has, and run requests. Not here: what counts as news
(`file_feed.consumption`), what a change touches (`dependencies.graph`) and what is behind (`dependencies.staleness`).
"""

import json
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import dagster as dg

from feed_assets.blackboard import Blackboard
from feed_assets.dependencies.catching_up import plan_stale
from feed_assets.dependencies.graph import FeedNode, affected
from feed_assets.file_feed import Change, Cursor, FeedError, news, read_record
from feed_assets.file_feed.wording import counted
from feed_assets.io_manager.asset_events import INVALIDATED, still_in_force
from feed_assets.io_manager.metadata import DATA_VERSION_TAG
from feed_assets.resources import BlackboardResource, Clock, StateResource
from feed_assets.sensors.asset_graph import AssetFeedGraph
from feed_assets.sensors.ticks import MAX_EVENTS, TICK_SECONDS, load_cursor, requests_of_tick, run_requests
from feed_assets.state import Store


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
    def sensor(
        context: dg.SensorEvaluationContext, blackboard: BlackboardResource, state: StateResource, clock: Clock
    ) -> dg.SensorResult:
        feeds = AssetFeedGraph.of(context.repository_def)
        deadline = time.monotonic() + TICK_SECONDS
        tick = _Tick(context, feeds, blackboard.blackboard, state.store, clock.now(), deadline)
        return tick.result(lookback_days, run_config)

    return sensor


@dataclass(slots=True)
class _Tick:
    """One evaluation: what it may use, and how long."""

    context: dg.SensorEvaluationContext
    feeds: AssetFeedGraph
    board: Blackboard
    store: Store
    now: datetime
    deadline: float

    def result(self, lookback_days: int, run_config: Mapping[str, Any] | None) -> dg.SensorResult:
        cursor = load_cursor(self.context.cursor)
        held = cursor.get("feeds")
        cursors: dict[str, Any] = dict(held) if isinstance(held, dict) else {}
        requests = requests_of_tick(self.context.instance, self.store, self.board, self.feeds, self.now)

        events: list[dg.AssetMaterialization | dg.AssetObservation] = []
        touched = self._touched(cursor.get("touched"))
        resume = None
        for place, node in enumerate(_from(self.feeds.feeds.values(), cursor.get("resume"))):
            if (place and self._out_of_time()) or len(events) >= MAX_EVENTS:
                resume = node.location
                break
            changes = self._news(node, cursors, MAX_EVENTS - len(events))
            events.extend(self._events(node, changes))
            touched |= {each for change in changes for each in affected(self.feeds, node, change.partition)}

        still_open = plan_stale(
            requests,
            touched,
            lookback_days=lookback_days,
            out_of_time=self._out_of_time,
            warn=self.context.log.warning,
        )
        runs = run_requests("new_manifests", self.feeds, requests.put_on_record(), run_config)
        for note in requests.decided:
            self.context.log.info(note)
        content = {
            "feeds": cursors,
            "touched": sorted([self.feeds.feeds[feed].name, partition] for feed, partition in still_open),
            **({"resume": resume} if resume else {}),
        }
        return dg.SensorResult(
            run_requests=runs,
            asset_events=events,
            skip_reason=None
            if runs
            else f"{counted(len(events), 'event')} reported, no run needed. " + "; ".join(requests.decided[:3]),
            cursor=json.dumps(content, sort_keys=True),
        )

    def _out_of_time(self) -> bool:
        return time.monotonic() > self.deadline

    def _touched(self, value: object) -> set[tuple[str, str]]:
        """The partitions that an earlier tick left open, as far as the cursor names them legibly, by its assets."""
        if not isinstance(value, list):
            return set()
        feeds = {node.name: location for location, node in self.feeds.feeds.items()}
        return {
            (feeds[each[0]], each[1])
            for each in value
            if isinstance(each, list) and [type(part) for part in each] == [str, str] and each[0] in feeds
        }

    def _news(self, node: FeedNode, cursors: dict[str, Any], limit: int) -> list[Change]:
        """What is new in a feed. One that cannot be read, or a partition with an odd name, holds up no other."""
        location = node.location
        feed = node.declaration.on(self.board)
        try:
            changes, cursor = news(feed, Cursor.from_json(str(cursors.get(location, ""))), now=self.now, limit=limit)
        except FeedError as error:
            self.context.log.warning(f"{location} cannot be looked at: {error}")
            return []
        cursors[location] = cursor.to_json()
        known = []
        for change in changes:
            if self.feeds.can_have(location, change.partition):
                known.append(change)
            else:
                where = repr(change.partition) if change.partition is not None else "the feed itself"
                self.context.log.warning(
                    f"{location}: an update in {where} is passed over, which is no partition of the asset "
                    f"{node.name} ({change.sentence()})."
                )
        return known

    def _events(self, node: FeedNode, changes: list[Change]) -> Iterator[dg.AssetMaterialization | dg.AssetObservation]:
        """What Dagster does not know of these changes. An update that a run of ours published it has seen already."""
        if not changes:
            return
        known = self._known_versions(node)
        for change in changes:
            if change.kind != "invalidated" and self._is_known(node, change, known.get(change.partition or "", "")):
                continue
            self.context.log.info(change.sentence())
            if change.kind == "invalidated":
                # Dagster goes on from the update before, or from nothing, as every reader does.
                yield still_in_force(
                    self.context.instance,
                    self.feeds.keys[node.location],
                    change.partition,
                    change.update,
                    why=f"{change.sentence()}.",
                    metadata={INVALIDATED: change.name},
                )
            else:
                yield _event(self.feeds.keys[node.location], node, change)

    def _is_known(self, node: FeedNode, change: Change, version: str) -> bool:
        """Whether Dagster knows of an update from the run that computed it; it does not know of a loss since."""
        if change.kind == "published" and version == change.name:
            return True
        record = read_record(node.declaration.on(self.board), change.partition, change.name)
        run = self.context.instance.get_run_by_id(record.facts.run_id) if record and record.facts.run_id else None
        return run is not None and (change.kind == "older" or version > change.name or not run.is_finished)

    def _known_versions(self, node: FeedNode) -> dict[str, str]:
        """The data version that Dagster last saw of each partition, from one query."""
        if not node.partitioned:
            event = self.context.instance.get_latest_materialization_event(self.feeds.keys[node.location])
            materialization = event.asset_materialization if event else None
            tags = (materialization.tags if materialization else None) or {}
            return {"": tags[DATA_VERSION_TAG]} if DATA_VERSION_TAG in tags else {}
        storage = self.context.instance.event_log_storage
        tags_by_partition = storage.get_latest_tags_by_partition(
            self.feeds.keys[node.location], dg.DagsterEventType.ASSET_MATERIALIZATION, [DATA_VERSION_TAG]
        )
        return {partition: tags[DATA_VERSION_TAG] for partition, tags in tags_by_partition.items()}


def _event(key: dg.AssetKey, node: FeedNode, change: Change) -> dg.AssetMaterialization | dg.AssetObservation:
    """The asset event of a change. An older update that became valid late is observed: it is not what is in force."""
    older = change.kind == "older"
    update = change.update
    reported = change.name if older or update is None else update.name
    metadata: dict[str, Any] = {
        "update": reported,
        "change": change.sentence(),
        "feed": node.location,
    }
    if update is not None and not older:
        metadata |= {
            "path": dg.MetadataValue.path(update.uri),
            "files": len(update.files),
            "bytes": update.bytes,
        }
    make = dg.AssetObservation if older or update is None else dg.AssetMaterialization
    return make(
        asset_key=key,
        partition=change.partition,
        description=change.sentence(),
        metadata=metadata,
        tags={DATA_VERSION_TAG: reported},
    )


def _from(feeds: Iterable[FeedNode], location: object) -> list[FeedNode]:
    """The feeds, beginning with the one that the tick before did not get to any more."""
    all_of_them = list(feeds)
    at = next((place for place, node in enumerate(all_of_them) if node.location == location), 0)
    return [*all_of_them[at:], *all_of_them[:at]]
