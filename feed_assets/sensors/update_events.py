"""The asset events of updates of feeds: published, invalidated, valid late, or rejected; each once.

Here: comparing a change with Dagster's events, and the events for a change that Dagster does not know: also those of
its checks, if no run of the instance made the update. Not here: finding changes (`new_manifests`).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import dagster as dg

from feed_assets.blackboard.port import Blackboard
from feed_assets.feed_events.materializations import INVALIDATED, REJECTED, has_event_about, still_in_force
from feed_assets.feed_events.metadata import DATA_VERSION_TAG
from feed_assets.feed_events.results import evaluations_without_run
from feed_assets.file_feed.changes import LogEntry
from feed_assets.file_feed.control import read_record
from feed_assets.file_feed.record import Record
from feed_assets.file_feed.watching import Change
from feed_assets.sensors.asset_graph import AssetFeedGraph
from feed_assets.sensors.busy import goes_on
from feed_assets.starts.graph import FeedNode

AssetEvent = dg.AssetMaterialization | dg.AssetObservation


@dataclass(slots=True)
class UpdateEvents:
    """The events of one tick: `found` in the order in which their changes were reported; `checked` has their checks."""

    context: dg.SensorEvaluationContext
    feeds: AssetFeedGraph
    board: Blackboard
    found: list[AssetEvent] = field(default_factory=list)
    checked: dict[tuple[str, str | None, str], list[dg.AssetCheckEvaluation]] = field(default_factory=dict)
    _reported: set[tuple[str, str | None, str]] = field(default_factory=set)

    @property
    def all(self) -> list[AssetEvent | dg.AssetCheckEvaluation]:
        """The events of assets, then those of checks, older updates first: the UI shows the last one of each check."""
        in_order = sorted(self.checked, key=lambda each: each[-1])
        return [*self.found, *(event for each in in_order for event in self.checked[each])]

    def report(self, node: FeedNode, change: Change) -> None:
        """Add the event of a change that Dagster does not know of."""
        place = (node.location, change.partition, change.name if change.kind != "invalidated" else "")
        if place in self._reported:
            return
        record = read_record(node.declaration.on(self.board), change.partition, change.name)
        if self._is_known(node, change, record):
            return
        if change.kind != "invalidated":
            self._report_checks(node, record)
        self._reported.add(place)
        key = self.feeds.keys[node.location]
        if change.kind == "invalidated":
            sentence, metadata = _loss(change, record)
            why = f"{sentence}."
            event: AssetEvent = still_in_force(
                self.context.instance, key, change.partition, change.update, why=why, metadata=metadata
            )
        else:
            sentence, event = change.sentence(), _event(key, node, change)
        self.context.log.info(f"{node.location} {sentence}")
        self.found.append(event)

    def report_rejected(self, node: FeedNode, entry: LogEntry) -> None:
        """Add the checks of an update that was rejected, unless a run of this instance has reported them."""
        self._report_checks(node, read_record(node.declaration.on(self.board), entry.partition, entry.update))

    def _report_checks(self, node: FeedNode, record: Record | None) -> None:
        if record is None or not node.made_here or self._run_of(record) is not None:
            return
        key = self.feeds.keys[node.location]
        if events := evaluations_without_run(self.context.instance, key, record):
            self.checked[node.location, record.partition, record.update] = events

    def _is_known(self, node: FeedNode, change: Change, record: Record | None) -> bool:
        """Whether Dagster knows of a change from the run that made it, or will know when that run or its retry ends."""
        key = self.feeds.keys[node.location]
        if change.kind == "older" and has_event_about(self.context.instance, key, change.partition, change.name):
            return True
        run = self._run_of(record) if record else None
        if record is None or run is None:
            return False
        if change.kind == "invalidated":
            # Dagster shows a staged update before it is in force, even if it never comes into force.
            return record.state in {"staged", "publishing", "rejected"} and goes_on(self.context.instance, run)
        return change.kind == "older" or goes_on(self.context.instance, run)

    def _run_of(self, record: Record) -> dg.DagsterRun | None:
        """The run of this instance that made an update."""
        return self.context.instance.get_run_by_id(record.facts.run_id) if record.facts.run_id else None


def _loss(change: Change, record: Record | None) -> tuple[str, dict[str, str]]:
    """Why an update that Dagster shows is not in force, with its metadata: it may never have been in force."""
    match record.state if record else None:
        case "staged":
            return f"Update {change.name} was staged, and its run ended before its checks decided", {}
        case "rejected":
            return f"Update {change.name} was rejected", {REJECTED: change.name}
        case _:
            return change.sentence(), {INVALIDATED: change.name}


def _event(key: dg.AssetKey, node: FeedNode, change: Change) -> AssetEvent:
    """The asset event of a change: an observation for an older update that became valid late, as it is not in force."""
    older, update = change.kind == "older", change.update
    reported = change.name if older or update is None else update.name
    metadata: dict[str, Any] = {"update": reported, "change": change.sentence(), "feed": node.location}
    if update is not None and not older:
        metadata |= {"path": dg.MetadataValue.path(update.uri), "files": len(update.files), "bytes": update.bytes}
    make = dg.AssetObservation if older or update is None else dg.AssetMaterialization
    return make(
        asset_key=key,
        partition=change.partition,
        description=change.sentence(),
        metadata=metadata,
        tags={DATA_VERSION_TAG: reported},
    )
