"""The flows of a code location: the feeds with a trigger, the datasets they read, and what is known of their slots.

Here: Dagster's assets and partitions as the gate's cases. Not here: the decision (`dependencies.gate`), and starting
a run (`starts`).
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime
from itertools import chain
from typing import Final

import dagster as dg

from feed_assets.blackboard.port import Blackboard
from feed_assets.datasets.dataset import Dataset
from feed_assets.datasets.errors import DatasetError
from feed_assets.datasets.grains import Grain, moved
from feed_assets.datasets.instants import moment_of
from feed_assets.datasets.names import NO_MEMBER
from feed_assets.datasets.slots import Slot, parse_start
from feed_assets.dependencies.declared.loading import DeclaredDataset
from feed_assets.dependencies.facts import Read
from feed_assets.dependencies.gate.decision import Case, InputState, Paused, PreviousSlot
from feed_assets.dependencies.gate.extra_inputs import ExtraInput, check_extra, cycle
from feed_assets.dependencies.gate.inputs import extra_states, input_state
from feed_assets.dependencies.gate.questions import Questions
from feed_assets.dependencies.gate.trigger import ALL, CatchUp, OnRerun, Trigger
from feed_assets.dependencies.quality.marks import Accepts
from feed_assets.dependencies.rules import Basis, Declared, Rule
from feed_assets.dependencies.service import Dependencies
from feed_assets.feed_events.triggers import declared_trigger
from feed_assets.file_feed.record import FeedInput, Record
from feed_assets.file_feed.start_objects import REVISIONS
from feed_assets.partitions.cron import first_tick
from feed_assets.partitions.slots import NoSlotsError, feed_dataset, partition_of, slot_of
from feed_assets.partitions.time_windows import time_window
from feed_assets.sensors.asset_graph import AssetFeedGraph
from feed_assets.sensors.declared_facts import check_declared
from feed_assets.sensors.raw_facts import raw_datasets, raw_name
from feed_assets.sources.spec import Source
from feed_assets.starts.attempt import Answer, State, living
from feed_assets.starts.attempts import Attempts
from feed_assets.starts.graph import FeedNode, affected
from feed_assets.starts.pauses import Pause, Pauses
from feed_assets.state.event_log import Event
from feed_assets.state.store import Store

OVERDUE: Final = "overdue"
"""What stands for the inputs of an attempt that was given up because they did not come in time."""
_STATES: dict[tuple[str, str], Dependencies] = {}
_LOCK = threading.Lock()


@dataclass(frozen=True, slots=True)
class Begun:
    """What is on record of starts: the attempts, and the last pause of each flow."""

    attempts: Attempts
    pauses: Mapping[str, Pause]

    @classmethod
    def of(cls, states: Dependencies, now: Callable[[], datetime]) -> Begun:
        """Look it up: one query. `now` is the installation's clock. Raises StoreError."""
        store, base = states.kept.store, states.kept.base
        return cls(Attempts(store, base, now), Pauses(store, base, now).all())

    def given_up(self, feed: str, partition: str) -> bool:
        """Whether a partition that has no result is not tried any more."""
        return bool(self.all_given_up(feed, [partition]))

    def all_given_up(self, feed: str, partitions: Collection[str]) -> set[str]:
        """Those of these partitions that have no result and are not tried any more."""
        newest = self.attempts.newest(feed, partitions)
        return {partition for partition, each in newest.items() if each.state is State.GIVEN_UP}

    def overdue(self, feed: str, partition: str) -> str:
        """Why a partition was given up whose inputs did not come in time; "" if it was not."""
        newest = self.attempts.newest(feed, [partition]).get(partition)
        return newest.reason if newest is not None and newest.digest == OVERDUE else ""

    def waits(self, feed: str, partition: str, state: str) -> str:
        """Why no attempt at a partition may follow for this state of its inputs; "" if one may.

        An empty state asks only whether an attempt lives.
        """
        found = self.attempts.standing([(feed, partition)])[feed, partition]
        lives = living(found.newest, found.lease.until if found.lease else None)
        if lives or not state:
            return lives.reason if lives else ""
        verdict = found.verdict(state, now=self.attempts.now())
        match verdict.answer:
            case Answer.PAUSED:
                return f"{verdict.reason}; it is tried again from {verdict.until:%Y-%m-%d %H:%M:%S} on"
            case Answer.OVER:
                return f"{verdict.reason}; `feed-assets deps start` tries again"
        return ""

    def paused(self, feed: str) -> Paused | None:
        """The last pause of a flow."""
        found = self.pauses.get(feed)
        return Paused(found.since, found.until, found.sentence) if found else None


@dataclass(frozen=True, slots=True)
class Flows:
    """The triggers by location, and all datasets by name; both are empty in a project without a trigger.

    `declared` are the datasets of the project's YAML files, by name. `stopped` are the datasets of raw data of which a
    source's description cannot be used, each with the keys of these sources.
    """

    feeds: AssetFeedGraph
    triggers: Mapping[str, Trigger]
    datasets: Mapping[str, Declared]
    declared: Mapping[str, DeclaredDataset] = field(default_factory=dict)
    stopped: Mapping[str, Sequence[str]] = field(default_factory=dict)

    @classmethod
    def of(
        cls,
        feeds: AssetFeedGraph,
        sources: Sequence[Source],
        first_day: date,
        declared: Sequence[DeclaredDataset] = (),
    ) -> Flows:
        """The flows of a code location, and its `declared` datasets.

        Raises DagsterInvalidDefinitionError for a trigger or a declared dataset that cannot work.
        """
        triggers = {
            location: found
            for location in feeds.feeds
            if (found := declared_trigger(feeds.metadata(location))) is not None
        }
        if not triggers:
            return cls(feeds, {}, {})
        extra = {each.dataset for trigger in triggers.values() for each in trigger.also}
        read = {each for location in triggers for each in (location, *feeds.feeds[location].upstream)}
        read |= {*extra, *chain.from_iterable(each.complete.feeds for each in declared)} & feeds.feeds.keys()
        try:
            datasets = {location: _of_feed(feeds, location) for location in sorted(read)}
            datasets |= {each.dataset.name: each for each in raw_datasets(sources, first_day)}
        except DatasetError as error:
            raise dg.DagsterInvalidDefinitionError(str(error)) from None
        for each in declared:
            check_declared(each, feeds.feeds.keys(), datasets)
        datasets |= {each.name: each.declared for each in declared}
        stopped: dict[str, list[str]] = {}
        for source in sources:
            if source.problems:
                stopped.setdefault(raw_name(source.kind), []).append(source.key)
        flows = cls(feeds, triggers, datasets, {each.name: each for each in declared}, stopped)
        for location, trigger in triggers.items():
            flows._check_asset(location)
            flows._check_extra(location, trigger)
            flows._check(location, trigger)
        flows._check_cycles()
        return flows

    def _check_asset(self, location: str) -> None:
        """Raise DagsterInvalidDefinitionError if an asset is no flow: nothing here makes it, or it has no slots."""
        node = self.feeds.feeds[location]
        if not node.made_here:
            raise dg.DagsterInvalidDefinitionError(f"{node.name} has a trigger, but nothing here makes it: remove it.")
        if self.datasets[location].dataset.base is Grain.WHOLE:
            raise dg.DagsterInvalidDefinitionError(
                f"{node.name} has a trigger, but no partitions, so no slot of it can start: give it partitions, or "
                "schedule it instead."
            )

    def _check(self, location: str, trigger: Trigger) -> None:
        """Raise DagsterInvalidDefinitionError if a flow would wait for ever, or has nothing to wait for."""
        node = self.feeds.feeds[location]
        read = [*node.upstream, *raw_inputs(node)]
        if not read and not trigger.also:
            raise dg.DagsterInvalidDefinitionError(
                f"{node.name} has a trigger, but reads no feed with partitions and no raw data: schedule it instead."
            )
        asked = dict.fromkeys(read, trigger.quality)
        asked |= {each.dataset: each.quality or trigger.quality for each in trigger.also}
        unchecked = [n for n, taken in asked.items() if taken is Accepts.PASSED and not self.datasets[n].checked]
        if unchecked:
            raise dg.DagsterInvalidDefinitionError(
                f"{node.name} takes inputs that passed their checks, and {', '.join(unchecked)} has none: it would "
                "wait for ever. Audit it, or use quality='not_bad'."
            )
        if trigger.may_miss and (needed := sorted({*node.upstream} - self.feeds.optional_inputs(location))):
            rule = f"complete={trigger.complete!r}" if trigger.complete != ALL else "then='run'"
            raise dg.DagsterInvalidDefinitionError(
                f"{node.name} may start without {', '.join(needed)}, as its trigger says {rule}; but the asset cannot "
                "run without it. Declare the input as optional, dg.AssetIn(metadata={OPTIONAL: True}), and compute "
                "with what is there; or leave that out of its trigger."
            )
        self._check_number(location, trigger)

    def _check_number(self, location: str, trigger: Trigger) -> None:
        """Raise DagsterInvalidDefinitionError if a flow waits for more inputs than it has."""
        if not isinstance(trigger.complete, int):
            return
        partitions = self.feeds.partitions(location)
        newest = None
        if isinstance(partitions, dg.TimeWindowPartitionsDefinition):
            newest = partitions.get_last_partition_key()
        if newest is None:
            return
        of = len({*self._waited_for(location, newest)})
        if of < trigger.complete:
            raise dg.DagsterInvalidDefinitionError(
                f"{self.feeds.feeds[location].name} waits for {trigger.complete} inputs, but {newest} has {of}: use "
                f"trigger(complete={of}) or less, or 'all'."
            )

    def _check_extra(self, location: str, trigger: Trigger) -> None:
        """Raise DagsterInvalidDefinitionError for an input that only the gate waits for, and that cannot come."""
        name = self.feeds.feeds[location].name
        compared = {each for flow in self.triggers for each in raw_inputs(self.feeds.feeds[flow])}
        for each in trigger.also:
            if each.dataset not in self.datasets:
                known = ", ".join(sorted({*self.feeds.feeds, *self.datasets}))
                raise dg.DagsterInvalidDefinitionError(
                    f"{name} needs {each.dataset!r}, which is no dataset of this project: those are {known}. "
                    "Others are declared in YAML, in the folder `datasets` beside the sources (FEED_ASSETS_DATASETS)."
                )
            if each.dataset == location:
                raise dg.DagsterInvalidDefinitionError(
                    f"{name} needs {location}, which it makes itself: for the slot before, use trigger(previous=True)."
                )
            if each.dataset not in {*self.feeds.feeds, *self.declared, *compared}:
                raise dg.DagsterInvalidDefinitionError(
                    f"{name} needs {each.dataset}, which nobody looks at: add trigger() to the asset that is made of "
                    "this raw data, too."
                )
            try:
                check_extra(each, self.datasets[location].dataset, self.datasets[each.dataset].dataset)
            except DatasetError as error:
                raise dg.DagsterInvalidDefinitionError(f"{name} needs {each.dataset}: {error}") from None

    def _check_cycles(self) -> None:
        """Raise DagsterInvalidDefinitionError if flows wait for each other."""
        reads = {
            location: (*node.upstream, *(each.dataset for each in self._extra(location)))
            for location, node in self.feeds.feeds.items()
        }
        counted = {name: each.complete.feeds for name, each in self.declared.items()}
        if found := cycle({**reads, **counted}):
            raise dg.DagsterInvalidDefinitionError(
                f"Flows wait for each other: {' needs '.join(found)}. Leave out one of these inputs."
            )

    def _extra(self, location: str) -> Sequence[ExtraInput]:
        return self.triggers[location].also if location in self.triggers else ()

    def triggered(self, location: str) -> bool:
        """Whether the gate decides on this feed."""
        return location in self.triggers

    def knows(self, location: str) -> bool:
        """Whether the gate asks about this feed: a flow, or an input of one."""
        return location in self.datasets

    def reads(self, location: str) -> list[str]:
        """The datasets of which a feed is made, as far as they have slots."""
        node = self.feeds.feeds[location]
        extra = (each.dataset for each in self._extra(location))
        return [each for each in dict.fromkeys((*raw_inputs(node), *node.upstream, *extra)) if each in self.datasets]

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

    def case(
        self,
        states: Dependencies,
        feed: str,
        partition: str,
        *,
        in_force: str | None,
        behind: str,
        begun: Begun | None = None,
    ) -> Case:
        """What is known of a partition of a flow. `behind` says what has changed since the update in force.

        `begun` is what is on record of starts; without it, nothing is paused or given up.
        """
        window = time_window(self.feeds.partitions(feed), partition)
        begins, ends = (window.start.astimezone(UTC), window.end.astimezone(UTC)) if window else (moment_of(0), None)
        trigger, slot = self.triggers[feed], self.slot(feed, partition)
        inputs = self.inputs(states, feed, partition)
        if in_force and behind and self._has_read(states, feed, partition, in_force, inputs):
            behind = ""
        asked = Questions(states).of(slot) if in_force and trigger.on_rerun is OnRerun.ASK else None
        return Case(
            self.feeds.feeds[feed].name,
            slot,
            inputs,
            in_force,
            behind,
            begins,
            ends,
            first_tick(trigger.not_before, trigger.timezone, ends) if trigger.not_before and ends else None,
            self._previous(states, feed, partition, begun) if trigger.previous else None,
            asked.answer if asked else None,
            begun.paused(feed) if begun else None,
            self._next_ends(feed, partition) if trigger.catch_up is CatchUp.LATEST else None,
            given_up=begun.overdue(feed, partition) if begun and trigger.at_most is not None else "",
        )

    def inputs(self, states: Dependencies, feed: str, partition: str) -> list[InputState]:
        """What is known of the slots that a partition of a flow reads, and of those that only its trigger names.

        A slot that is both has the quality that the trigger says for it.
        """
        found = {each.slot: each for each in self._own_inputs(states, feed, partition)}
        for extra in self._extra(feed):
            for each in extra_states(states, self.slot(feed, partition), extra):
                own = found.get(each.slot)
                found[each.slot] = each if own is None or own.extra else replace(own, accepts=each.accepts)
        return [self._unless_stopped(each) for each in found.values()]

    def _unless_stopped(self, given: InputState) -> InputState:
        """Raw data is not complete while a source of its kind is stopped: nobody knows what is missing."""
        if sources := self.stopped.get(given.slot.dataset):
            why = f"the description of {', '.join(sources)} cannot be used: see `feed-assets doctor`"
            return replace(given, complete=False, waits=why)
        return given

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

    def _own_inputs(self, states: Dependencies, feed: str, partition: str) -> Iterator[InputState]:
        node, own = self.feeds.feeds[feed], self.slot(feed, partition)
        for name in raw_inputs(node):
            yield input_state(states, own._replace(dataset=name))
        for parent in self.feeds.parents(feed, partition):
            if parent.feed in self.datasets:
                slot = self.slot(parent.feed, parent.partition)
                counts = parent.required or parent.shares_time
                yield input_state(states, slot, optional=not parent.required, counts=counts)

    def _waited_for(self, feed: str, partition: str) -> Iterator[Slot]:
        """The slots that count for a partition of a flow, whatever is known of them."""
        node, own = self.feeds.feeds[feed], self.slot(feed, partition)
        yield from (own._replace(dataset=name) for name in raw_inputs(node))
        for parent in self.feeds.parents(feed, partition):
            if parent.feed in self.datasets and (parent.required or parent.shares_time):
                yield self.slot(parent.feed, parent.partition)
        for extra in self._extra(feed):
            slots = self.extra_slots(feed, partition, extra)
            yield from slots if extra.latest is None else slots[-1:]

    def extra_slots(self, feed: str, partition: str, extra: ExtraInput) -> list[Slot]:
        """The slots that a partition of a flow waits for by an extra input; of the latest, each is enough."""
        output, source = self.datasets[feed].dataset, self.datasets[extra.dataset].dataset
        return extra.slots(self.slot(feed, partition), output, source)

    def _previous(self, states: Dependencies, feed: str, partition: str, begun: Begun | None) -> PreviousSlot | None:
        """The slot before; None for the first one."""
        if (before := self.feeds.neighbours(feed, partition).get("before")) is None:
            return None
        slot, window = self.slot(feed, before), time_window(self.feeds.partitions(feed), before)
        begins = window.start.astimezone(UTC) if window else moment_of(0)
        done = states.answer(slot).complete or (begun is not None and begun.given_up(feed, before))
        return PreviousSlot(slot, begins, done, "" if done else states.why(slot))

    def _next_ends(self, feed: str, partition: str) -> datetime | None:
        """When the slot after this one ends; None for the last one."""
        after = self.feeds.neighbours(feed, partition).get("after")
        window = time_window(self.feeds.partitions(feed), after) if after is not None else None
        return window.end.astimezone(UTC) if window else None


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
