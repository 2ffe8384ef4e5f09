"""The sensor for the quality of slots: it has unusual partitions checked, and shows in Dagster's catalog which are bad.

Here: the cursor, the requests of deeper checks, and the events for Dagster. Not here: what is bad (`dependencies`), the
checks (`checks.deeper_checks`), and what starts (`starts`).
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from typing import Any

import dagster as dg

from feed_assets.assets.external import raw_key
from feed_assets.checks.deeper_checks import DEEPER
from feed_assets.datasets.containment import base_set
from feed_assets.datasets.dataset import Dataset
from feed_assets.datasets.errors import DatasetError
from feed_assets.datasets.slots import Slot, parse_slot
from feed_assets.dependencies.declared.loading import DeclaredDataset
from feed_assets.dependencies.errors import EventsGoneError
from feed_assets.dependencies.quality.marks import QualityState, SlotProfile
from feed_assets.dependencies.service import Dependencies
from feed_assets.partitions.slots import partition_of
from feed_assets.resources.storage import BlackboardResource, StateResource
from feed_assets.sensors.asset_graph import AssetFeedGraph
from feed_assets.sensors.flows import Flows, slots_of
from feed_assets.sensors.raw_facts import raw_name
from feed_assets.sensors.ticks import MAX_EVENTS, WHY_TAG, load_cursor
from feed_assets.sources.spec import Source

SLOT_QUALITY = "slot_quality"
MOST_CHECKS = 20
"""Runs of deeper checks that a tick requests."""


def slot_quality(
    sources: Sequence[Source],
    *,
    first_day: date,
    datasets: Sequence[DeclaredDataset] = (),
    interval_seconds: int,
    run_config: Mapping[str, Any],
) -> dg.SensorDefinition:
    """Requests deeper checks of unusual partitions, and reports each partition that becomes bad, or good again."""

    @dg.sensor(
        name=SLOT_QUALITY,
        asset_selection=dg.AssetSelection.all(),  # as `target`, all assets would have to share their partitions
        minimum_interval_seconds=interval_seconds,
        default_status=dg.DefaultSensorStatus.RUNNING,
        description=(
            "Runs the deeper checks of partitions whose profile is unusual. Reports each partition that marks make "
            "bad, and each that is no longer bad, as an observation with the reason."
        ),
    )
    def sensor(
        context: dg.SensorEvaluationContext, blackboard: BlackboardResource, state: StateResource
    ) -> dg.SensorResult:
        feeds = AssetFeedGraph.of(context.repository_def)
        flows = Flows.of(feeds, sources, first_day, datasets)
        states = flows.states(state.store, blackboard.blackboard)
        states.refresh()
        cursor = load_cursor(context.cursor)
        requests, asked = _checks(flows, states, set(_texts(cursor.get("asked"))), run_config)
        shown = _Shown(flows, states, sources, {*_texts(cursor.get("bad"))})
        seen, open_slots = shown.looked_for(cursor.get("events"), _texts(cursor.get("open")))
        observed = [*shown.changes(open_slots[:MAX_EVENTS])]
        left = open_slots[MAX_EVENTS:]
        content = {"events": seen, "asked": sorted(asked), "bad": sorted(shown.bad), "open": [*map(str, left)]}
        for each in observed:
            context.log.info(f"{each.asset_key.to_user_string()} {each.partition or ''}: {each.description}")
        return dg.SensorResult(
            run_requests=requests,
            asset_events=observed,
            skip_reason=None if requests else f"{len(observed)} events reported, no check needed.",
            cursor=json.dumps(content),
        )

    return sensor


def _checks(
    flows: Flows, states: Dependencies, asked: set[str], run_config: Mapping[str, Any]
) -> tuple[list[dg.RunRequest], set[str]]:
    """Requests of deeper checks, each once for a revision, and the keys of all that are still to have a result."""
    feeds = flows.feeds
    known: dict[str, frozenset[str]] = {}
    for key in feeds.graph.asset_check_keys:
        location = feeds.locations.get(key.asset_key)
        if location is not None and flows.knows(location) and feeds.graph.get_check_spec(key).metadata.get(DEEPER):
            known[location] = known.get(location, frozenset()) | {key.name}
    requests: list[dg.RunRequest] = []
    pending: set[str] = set()
    for profile, names in states.quality.to_check(known) if known else ():
        run_key = f"{profile.on} {', '.join(sorted(names))}"
        if run_key in asked:
            pending.add(run_key)
        elif len(requests) < MOST_CHECKS:
            pending.add(run_key)
            requests.append(_request(flows, profile, names, run_key, run_config))
    return requests, pending


def _request(
    flows: Flows, profile: SlotProfile, names: Iterable[str], run_key: str, run_config: Mapping[str, Any]
) -> dg.RunRequest:
    location = profile.on.slot.dataset
    key = flows.feeds.keys[location]
    return dg.RunRequest(
        run_key=run_key,
        partition_key=partition_of(flows.feeds.partitions(location), profile.on.slot),
        asset_selection=[],
        asset_check_keys=[dg.AssetCheckKey(key, name) for name in sorted(names)],
        run_config=run_config,
        tags={WHY_TAG: "; ".join(profile.unusual)[:250] or "it was bad before"},
    )


@dataclass(slots=True)
class _Shown:
    """What Dagster shows: `bad` has the base slots that it shows as bad."""

    flows: Flows
    states: Dependencies
    sources: Sequence[Source]
    bad: set[str]

    def looked_for(self, known: object, left: Iterable[str]) -> tuple[int, list[Slot]]:
        """The number of the newest event, and the base slots to look at: those that events name, and those left over.

        The first tick, and one that missed events, look at all slots that marks reach, and at those shown as bad.
        """
        slots = dict.fromkeys(found for each in left if (found := _slot(each)) is not None)
        try:
            events = self.states.events(known) if isinstance(known, int) else None
        except EventsGoneError:
            events = None
        if events is None:
            newest = self.states.newest()
            slots |= dict.fromkeys(found for each in self.bad if (found := _slot(each)) is not None)
            for slot in self.states.quality.carriers():
                slots |= dict.fromkeys(self._bases(slot))
            return newest, [*slots]
        for event in events:
            dataset = self._dataset(str(event.details.get("dataset", "")))
            if dataset is not None:
                for slot in slots_of(event, dataset):
                    slots |= dict.fromkeys(self._bases(slot))
        return events[-1].sequence if events else int(str(known)), [*slots]

    def changes(self, slots: Iterable[Slot]) -> Iterator[dg.AssetObservation]:
        """An observation for each of these base slots that became bad, or good again."""
        for slot in slots:
            is_bad = self.states.quality.state(slot) is QualityState.BAD
            if is_bad == (str(slot) in self.bad) or (place := self._place(slot)) is None:
                continue
            key, partition = place
            if is_bad:
                self.bad.add(str(slot))
                why = "; ".join(each.sentence for each in self.states.quality.why_bad(slot))
            else:
                self.bad.discard(str(slot))
                why = "no mark reaches it any more"
            quality = "bad" if is_bad else str(self.states.quality.state(slot))
            yield dg.AssetObservation(
                asset_key=key,
                partition=partition,
                description=f"{quality}: {why}",
                metadata={"quality": quality, "why": why, "revision": self.states.answer(slot).revision},
            )

    def _dataset(self, name: str) -> Dataset | None:
        declared = self.flows.datasets.get(name)
        return declared.dataset if declared is not None else None

    def _bases(self, slot: Slot) -> Iterator[Slot]:
        dataset = self._dataset(slot.dataset)
        if dataset is not None:
            yield from base_set(dataset, slot)

    def _place(self, slot: Slot) -> tuple[dg.AssetKey, str | None] | None:
        """The asset and the partition that Dagster has for a base slot."""
        if slot.dataset in self.flows.feeds.feeds:
            partition = partition_of(self.flows.feeds.partitions(slot.dataset), slot)
            has = self.flows.feeds.can_have(slot.dataset, partition)
            return (self.flows.feeds.keys[slot.dataset], partition) if has else None
        for source in self.sources:
            if (raw_name(source.kind), source.name) == (slot.dataset, slot.member):
                key = raw_key(source)
                if self.flows.feeds.graph.has(key):
                    return key, partition_of(self.flows.feeds.graph.get(key).partitions_def, slot)
        return None


def _slot(text: str) -> Slot | None:
    try:
        return parse_slot(text)
    except DatasetError:
        return None


def _texts(value: object) -> list[str]:
    return [each for each in value if isinstance(each, str)] if isinstance(value, list) else []
