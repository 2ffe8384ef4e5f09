"""The flows of a code location: the feeds with a trigger, the datasets they read, and what is known of their slots.

Here: Dagster's assets and partitions as the gate's cases. Not here: the decision (`dependencies.gate`), and starting
a run (`starts`).
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date

import dagster as dg

from feed_assets.blackboard.port import Blackboard
from feed_assets.datasets.dataset import Dataset
from feed_assets.datasets.errors import DatasetError
from feed_assets.datasets.grains import Grain, moved
from feed_assets.datasets.instants import moment_of
from feed_assets.datasets.names import NO_MEMBER
from feed_assets.datasets.slots import Slot, parse_start
from feed_assets.dependencies.facts import Read
from feed_assets.dependencies.gate import Case, InputState
from feed_assets.dependencies.inputs import input_state
from feed_assets.dependencies.marks import Accepts
from feed_assets.dependencies.rules import Basis, Declared, Rule
from feed_assets.dependencies.service import Dependencies
from feed_assets.dependencies.trigger import Trigger
from feed_assets.feed_events.triggers import declared_trigger
from feed_assets.file_feed.record import FeedInput, Record
from feed_assets.file_feed.start_objects import REVISIONS
from feed_assets.partitions.slots import NoSlotsError, feed_dataset, partition_of, slot_of
from feed_assets.partitions.time_windows import time_window
from feed_assets.sensors.asset_graph import AssetFeedGraph
from feed_assets.sensors.raw_facts import raw_datasets, raw_name
from feed_assets.sources.spec import Source
from feed_assets.starts.graph import FeedNode, affected
from feed_assets.state.event_log import Event
from feed_assets.state.store import Store

_STATES: dict[tuple[str, str], Dependencies] = {}
_LOCK = threading.Lock()


@dataclass(frozen=True, slots=True)
class Flows:
    """The triggers by location, and all datasets by name; both are empty in a project without a trigger."""

    feeds: AssetFeedGraph
    triggers: Mapping[str, Trigger]
    datasets: Mapping[str, Declared]

    @classmethod
    def of(cls, feeds: AssetFeedGraph, sources: Sequence[Source], first_day: date) -> Flows:
        """The flows of a code location. Raises DagsterInvalidDefinitionError for a trigger that cannot work."""
        triggers = {
            location: found
            for location in feeds.feeds
            if (found := declared_trigger(feeds.metadata(location))) is not None
        }
        if not triggers:
            return cls(feeds, {}, {})
        read = {each for location in triggers for each in (location, *feeds.feeds[location].upstream)}
        try:
            datasets = {location: _of_feed(feeds, location) for location in sorted(read)}
            datasets |= {each.dataset.name: each for each in raw_datasets(sources, first_day)}
        except DatasetError as error:
            raise dg.DagsterInvalidDefinitionError(str(error)) from None
        flows = cls(feeds, triggers, datasets)
        for location, trigger in triggers.items():
            flows._check(location, trigger)
        return flows

    def _check(self, location: str, trigger: Trigger) -> None:
        """Raise DagsterInvalidDefinitionError if a flow would wait for ever, or has nothing to wait for."""
        node = self.feeds.feeds[location]
        if not node.made_here:
            raise dg.DagsterInvalidDefinitionError(f"{node.name} has a trigger, but nothing here makes it: remove it.")
        read = [*node.upstream, *raw_inputs(node)]
        if not read:
            raise dg.DagsterInvalidDefinitionError(
                f"{node.name} has a trigger, but reads no feed with partitions and no raw data: schedule it instead."
            )
        if trigger.quality is Accepts.PASSED and (unchecked := [n for n in read if not self.datasets[n].checked]):
            raise dg.DagsterInvalidDefinitionError(
                f"{node.name} takes inputs that passed their checks, and {', '.join(unchecked)} has none: it would "
                "wait for ever. Audit it, or use trigger(quality='not_bad')."
            )

    def triggered(self, location: str) -> bool:
        """Whether the gate decides on this feed."""
        return location in self.triggers

    def knows(self, location: str) -> bool:
        """Whether the gate asks about this feed: a flow, or an input of one."""
        return location in self.datasets

    def reads(self, location: str) -> list[str]:
        """The datasets of which a feed is made, as far as they have slots."""
        node = self.feeds.feeds[location]
        return [each for each in (*raw_inputs(node), *node.upstream) if each in self.datasets]

    def states(self, store: Store, board: Blackboard) -> Dependencies:
        """What is known of the slots of these datasets. A process keeps it in memory."""
        url, base = str(store.url), board.uri("")
        with _LOCK:
            known = _STATES.get((url, base))
            if known is None or known.datasets != self.datasets:
                known = _STATES[url, base] = Dependencies(store, base, self.datasets)
            return known

    def slot(self, feed: str, partition: str | None) -> Slot:
        """The slot of a partition of a feed."""
        return slot_of(self.datasets[feed].dataset, self.feeds.partitions(feed), partition)

    def read(self, feed: str, partition: str | None, record: Record) -> tuple[Read, ...]:
        """The slots that an update was computed from, as its record says.

        Feeds by the updates that were read; raw data by the revisions for which the gate started the run, if it did.
        """
        node, own = self.feeds.feeds[feed], self.slot(feed, partition)
        by_gate = {str(name): revision for name, revision in (record.facts.details.get(REVISIONS) or {}).items()}
        found: dict[Slot, str | None] = {own._replace(dataset=name): None for name in raw_inputs(node)}
        for each in record.facts.inputs:
            if not isinstance(each, FeedInput) or each.update is None:
                continue
            if self.knows(each.feed) and self.feeds.can_have(each.feed, each.partition):
                found[self.slot(each.feed, each.partition)] = each.update
        return tuple(Read(slot, update, by_gate.get(str(slot), 0)) for slot, update in found.items())

    def case(self, states: Dependencies, feed: str, partition: str, *, in_force: str | None, behind: str) -> Case:
        """What is known of a partition of a flow. `behind` says what has changed since the update in force."""
        window = time_window(self.feeds.partitions(feed), partition)
        begins = window.start.astimezone(UTC) if window else moment_of(0)
        inputs = [*self._inputs(states, feed, partition)]
        if in_force and behind and self._has_read(states, feed, partition, in_force, inputs):
            behind = ""
        return Case(self.feeds.feeds[feed].name, self.slot(feed, partition), inputs, in_force, behind, begins)

    def _has_read(
        self, states: Dependencies, feed: str, partition: str, in_force: str, inputs: Sequence[InputState]
    ) -> bool:
        """Whether the update in force was made from updates with the content that is in force now.

        Then newer updates of the inputs have equal digests. What is made of raw data is compared with that.
        """
        slot = self.slot(feed, partition)
        if self.feeds.feeds[feed].raw_sources or states.update_of(slot) != in_force:
            return False
        return states.quality.was_read(slot, (each.slot for each in inputs if each.complete))

    def _inputs(self, states: Dependencies, feed: str, partition: str) -> Iterator[InputState]:
        node, own = self.feeds.feeds[feed], self.slot(feed, partition)
        for name in raw_inputs(node):
            yield input_state(states, own._replace(dataset=name))
        for parent in self.feeds.parents(feed, partition):
            if parent.feed in self.datasets:
                slot = self.slot(parent.feed, parent.partition)
                yield input_state(states, slot, optional=not parent.required)


def has_trigger(feeds: AssetFeedGraph, location: str) -> bool:
    """Whether the gate decides on this feed, and no other sensor."""
    return declared_trigger(feeds.metadata(location)) is not None


def raw_inputs(node: FeedNode) -> list[str]:
    """The datasets of the raw data that a feed is made of."""
    return sorted({raw_name(source.partition("/")[0]) for source in node.raw_sources})


def _of_feed(feeds: AssetFeedGraph, location: str) -> Declared:
    try:
        dataset = feed_dataset(location, feeds.partitions(location))
    except NoSlotsError as error:
        raise dg.DagsterInvalidDefinitionError(str(error)) from None
    return Declared(dataset, Rule(Basis.PUBLISHED), checked=feeds.feeds[location].declaration.audited)


def changed_places(flows: Flows, events: Iterable[Event]) -> set[tuple[str, str]]:
    """The partitions of flows that read a slot of a feed which these events name: completed, reopened, marked, ..."""
    found: set[tuple[str, str]] = set()
    for each in events:
        name = str(each.details.get("dataset", ""))  # events of attempts are about none
        if name not in flows.feeds.feeds or not flows.knows(name):
            continue
        dataset = flows.datasets[name].dataset
        for slot in slots_of(each, dataset):
            if slot.grain is not dataset.base:
                continue
            partition = partition_of(flows.feeds.partitions(name), slot)
            if flows.feeds.can_have(name, partition):
                places = affected(flows.feeds, flows.feeds.feeds[name], partition)
                found |= {place for place in places if flows.triggered(place[0])}
    return found


def slots_of(event: Event, dataset: Dataset) -> Iterator[Slot]:
    """The slots of a dataset that an event names; none if it is about facts."""
    details = event.details
    if "grain" not in details or "first" not in details:
        return
    grain, member = Grain.named(str(details["grain"])), str(details.get("member", NO_MEMBER))
    for first, last in details.get("parts", [(details["first"], details["last"])]):
        start, end = (parse_start(str(text), grain)[1] for text in (first, last))
        yield Slot(dataset.name, member, grain, start)
        while start < end:
            start = moved(grain, start, 1)
            yield Slot(dataset.name, member, grain, start)
