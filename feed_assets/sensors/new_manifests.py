"""The sensor for feeds: reports new and invalidated updates, and runs derived partitions that are stale.

Here: the cursor, the limits of a tick, and run requests. Not here: which updates have changed (`file_feed.watching`),
their asset events (`update_events`), which partitions a change affects (`starts.graph`), and which are stale
(`late_data.staleness`).
"""

import json
import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime, timedelta
from typing import Any

import dagster as dg

from feed_assets.blackboard.port import Blackboard
from feed_assets.datasets.slots import Slot
from feed_assets.dependencies.declared.loading import DeclaredDataset
from feed_assets.dependencies.facts import Published
from feed_assets.dependencies.service import Dependencies
from feed_assets.file_feed.changes import log_page
from feed_assets.file_feed.control import read_record
from feed_assets.file_feed.errors import FeedError
from feed_assets.file_feed.feed import Update
from feed_assets.file_feed.reading import latest
from feed_assets.file_feed.watching import Look, Watch, continue_scan, look_at_logged
from feed_assets.file_feed.wording import counted
from feed_assets.late_data.catching_up import plan_stale
from feed_assets.late_data.turns import Turns
from feed_assets.partitions.slots import partition_of
from feed_assets.resources.settings import Clock
from feed_assets.resources.storage import BlackboardResource, StateResource
from feed_assets.sensors.asset_graph import AssetFeedGraph
from feed_assets.sensors.flows import Flows
from feed_assets.sensors.record_contents import content_of
from feed_assets.sensors.ticks import (
    MAX_EVENTS,
    TICK_SECONDS,
    HandOver,
    known_versions,
    load_cursor,
    requests_of_tick,
    run_all,
    run_requests,
)
from feed_assets.sensors.update_events import UpdateEvents
from feed_assets.sources.spec import Source
from feed_assets.starts.graph import FeedNode, affected
from feed_assets.state.store import Store

SCAN_SECONDS = 10.0
"""Time limit for the scans of a tick, so that they do not delay the change logs."""
BATCH = 100
"""Entries of a change log that a tick reads before it checks the time."""
NEWLY_TOUCHED = 200
"""A tick's scans stop after they have touched this many partitions: the tick compares each with its inputs."""
MOST_TOUCHED = 1_000
"""Partitions beyond the lookback that the cursor keeps for later. The next scan finds the rest again."""


def new_manifests(
    sources: Sequence[Source],
    *,
    first_day: date,
    datasets: Sequence[DeclaredDataset] = (),
    lookback_days: int,
    interval_seconds: int,
    scan_seconds: int,
    run_config: Mapping[str, Any],
    hand_over: HandOver = run_all,
) -> dg.SensorDefinition:
    """Watches every feed of the code location, and requests runs with `run_config`.

    A tick compares derived partitions of the last `lookback_days`, and those of which an input has changed, with their
    inputs. It reads the change log of each feed. Every `scan_seconds` (0: at each tick) it begins a scan of all
    partitions, which finds the changes of programs that write no log.
    """

    @dg.sensor(
        name="new_manifests",
        asset_selection=dg.AssetSelection.all(),  # as `target`, all assets would have to share their partitions
        minimum_interval_seconds=interval_seconds,
        default_status=dg.DefaultSensorStatus.RUNNING,
        description=(
            "Reports each new valid update, each invalidation and each update that became valid late, once, as an "
            "asset event with the update as its data version. Runs the derived partitions that are behind their "
            "inputs. Reports the checks of updates that no run of this instance made, also of rejected ones. Updates "
            "that runs of this instance published are not reported again. A scan that begins every "
            f"{scan_seconds} seconds finds the changes of programs without feed_assets."
        ),
    )
    def sensor(
        context: dg.SensorEvaluationContext, blackboard: BlackboardResource, state: StateResource, clock: Clock
    ) -> dg.SensorResult:
        feeds, board = AssetFeedGraph.of(context.repository_def), blackboard.blackboard
        deadline = time.monotonic() + TICK_SECONDS
        events, flows = UpdateEvents(context, feeds, board), Flows.of(feeds, sources, first_day, datasets)
        tick = _Tick(context, feeds, board, state.store, clock.now(), deadline, events, flows, hand_over)
        return tick.result(lookback_days, timedelta(seconds=scan_seconds), run_config)

    return sensor


@dataclass(slots=True)
class _Tick:
    """One evaluation of the sensor. `now` is the installation's time, which may be fixed; `wall` is the real time."""

    context: dg.SensorEvaluationContext
    feeds: AssetFeedGraph
    board: Blackboard
    store: Store
    now: datetime
    deadline: float
    events: UpdateEvents
    flows: Flows
    hand_over: HandOver
    published: dict[Slot, Published] = field(default_factory=dict)
    wall: datetime = field(default_factory=lambda: datetime.now(UTC))
    touched: set[tuple[str, str]] = field(default_factory=set)

    def result(self, lookback_days: int, scan_interval: timedelta, run_config: Mapping[str, Any]) -> dg.SensorResult:
        cursor = load_cursor(self.context.cursor)
        last = cursor.get("feeds")
        last = last if isinstance(last, dict) else {}
        watches = {
            location: Watch.from_plain(last.get(location), now=self.wall).scanning(scan_interval, now=self.wall)
            for location in self.feeds.feeds
        }
        requests = requests_of_tick(self.context.instance, self.store, self.board, self.feeds, self.now)
        if self.flows.triggers:
            self._states.refresh()
        self.touched = self._touched(cursor.get("touched"))
        resume = self._read_logs(watches, cursor.get("resume"))
        self._scan(watches)
        if self.flows.triggers:
            self._look_at_newer_inputs()
            self._states.published([*self.published.values()], now=self.now)

        still_open, compare = plan_stale(
            requests,
            self.touched,
            lookback_days=lookback_days,
            out_of_time=self._out_of_time,
            warn=self._warn,
            first=cursor.get("compare"),
            among=lambda node: not self.flows.triggered(node.location),
        )
        runs = self.hand_over(
            self.context, run_requests("new_manifests", self.feeds, requests.put_on_record(), run_config)
        )
        for note in requests.decided:
            self.context.log.info(note)
        content = {
            "feeds": {location: watch.to_plain() for location, watch in watches.items()},
            "touched": sorted([self.feeds.feeds[feed].name, partition] for feed, partition in still_open),
            **({"resume": resume} if resume else {}),
            **({"compare": compare} if compare else {}),
        }
        reported, decided = counted(len(self.events.all), "event"), "; ".join(requests.decided[:3])
        return dg.SensorResult(
            run_requests=runs,
            asset_events=self.events.all,
            skip_reason=None if runs else f"{reported} reported, no run needed. {decided}",
            cursor=json.dumps(content, sort_keys=True),
        )

    def _warn(self, text: str) -> None:
        self.context.log.warning(text)  # Dagster makes a file for each tick that looks `log` up, even an empty one

    def _out_of_time(self) -> bool:
        return time.monotonic() > self.deadline

    def _touched(self, value: object) -> set[tuple[str, str]]:
        """The readable partitions that earlier ticks left in the cursor, each as asset and partition."""
        if not isinstance(value, list):
            return set()
        feeds = {node.name: location for location, node in self.feeds.feeds.items()}
        return {
            (feeds[each[0]], each[1])
            for each in value
            if isinstance(each, list) and [type(part) for part in each] == [str, str] and each[0] in feeds
        }

    def _read_logs(self, watches: dict[str, Watch], first: object) -> str | None:
        """Read the change logs, beginning with the feed `first`; returns the feed for the next tick to begin with."""
        turns = Turns(list(watches), first, over=lambda: self._out_of_time() or len(self.events.found) >= MAX_EVENTS)
        for location in turns:
            node, feed = self.feeds.feeds[location], self.feeds.feeds[location].declaration.on(self.board)
            page = log_page(feed, watches[location].position, now=self.wall)
            new = page.new
            while new and len(self.events.found) < MAX_EVENTS:
                some = new[: min(BATCH, MAX_EVENTS - len(self.events.found))]
                try:
                    known = self._known_versions(node, {entry.partition or "" for entry in some})
                    for look in look_at_logged(feed, some, known, now=self.now):
                        watches[location] = self._take(node, watches[location], look)
                    for entry in some:
                        if entry.act == "rejected":
                            self.events.report_rejected(node, entry)
                except FeedError as error:
                    self.context.log.warning(f"{location} cannot be read: {error}")
                new = new[len(some) :]
                if self._out_of_time():
                    break
            position = page.position_before(new[0] if new else None)
            watches[location] = replace(watches[location], position=position)
            if new:
                return location
        return turns.resume

    def _scan(self, watches: dict[str, Watch]) -> None:
        """Continue the scans under way, the oldest first, by at least one partition."""
        full, scanned = len(self.touched) + NEWLY_TOUCHED, 0
        if len(self.touched) < MOST_TOUCHED:
            full = min(full, MOST_TOUCHED)
        deadline = min(self.deadline, time.monotonic() + SCAN_SECONDS)

        def over() -> bool:
            late = len(self.touched) >= full or time.monotonic() > deadline
            return len(self.events.found) >= MAX_EVENTS or (scanned > 0 and late)

        under_way = sorted(
            (location for location, watch in watches.items() if watch.place is not None),
            key=lambda location: (not watches[location].place, watches[location].scan_begun),
        )
        for location in under_way:
            if over():
                return
            node = self.feeds.feeds[location]
            try:
                known = self._known_versions(node)
                for look in continue_scan(node.declaration.on(self.board), watches[location], known, now=self.now):
                    if over():
                        return
                    watches[location] = replace(self._take(node, watches[location], look), place=look.partition or "")
                    scanned += 1
            except FeedError as error:
                self.context.log.warning(f"{location} cannot be read: {error}")
            watches[location] = replace(watches[location], place=None)

    def _take(self, node: FeedNode, watch: Watch, look: Look) -> Watch:
        """Report the changes of a look, and note the partitions that they touch."""
        if not self.feeds.can_have(node.location, look.partition):
            for change in look.changes if look.touched else ():
                where = repr(look.partition) if look.partition is not None else "the feed itself"
                self.context.log.warning(
                    f"{node.location}: an update is ignored because {where} is not a partition of the asset "
                    f"{node.name} ({change.sentence()})."
                )
            return watch
        if self.flows.knows(node.location) and look.touched:
            self._publish(node, look.partition, look.update)
        for change in look.changes:
            self.events.report(node, change)
        if look.touched:
            places = affected(self.feeds, node, look.partition)
            if len(self.touched) < MOST_TOUCHED:
                self.touched |= places
            elif not places <= self.touched:
                return replace(watch, cut_short=True)
        return watch

    def _publish(self, node: FeedNode, partition: str | None, update: Update | None) -> None:
        """Note what is in force. For a new update of our own, its record says what it was computed from."""
        slot = self.flows.slot(node.location, partition)
        name = update.name if update else None
        if name is not None and self._in_force(slot) == name:
            return
        self.published[slot] = Published(slot, name)
        if update and node.made_here and (record := read_record(update.feed, update.partition, update.name)):
            read = self.flows.read(node.location, partition, record)
            digest, profile = content_of(record)
            self.published[slot] = Published(slot, name, digest, read, record.facts.run_id, profile)

    def _look_at_newer_inputs(self) -> None:
        """Note the updates that runs have read and this tick has not seen yet: a LIST each.

        A log that the tick read first does not tell what was published since; a scan may not have come there.
        """
        waiting = [*self.published.values()]
        for fact in waiting:
            for read in fact.read:
                if self._out_of_time() or not read.update or read.update <= (self._in_force(read.slot) or ""):
                    continue
                node = self.feeds.feeds[read.slot.dataset]
                partition = partition_of(self.feeds.partitions(node.location), read.slot)
                update = latest(node.declaration.on(self.board), partition, now=self.now)
                if update is not None and update.name != self._in_force(read.slot):
                    self._publish(node, partition, update)
                    waiting.append(self.published[read.slot])

    def _in_force(self, slot: Slot) -> str | None:
        """The update of a slot that is known to be in force."""
        return self.published[slot].update if slot in self.published else self._states.update_of(slot)

    @property
    def _states(self) -> Dependencies:
        return self.flows.states(self.store, self.board)

    def _known_versions(self, node: FeedNode, partitions: Collection[str] | None = None) -> dict[str, str]:
        key = self.feeds.keys[node.location]
        return known_versions(self.context.instance, key, partitioned=node.partitioned, partitions=partitions)
