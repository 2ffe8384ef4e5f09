"""Changes of inputs that only the gate knows: which slots of flows were started by other revisions of them.

These are inputs that only a trigger names, and inputs that somebody reopened although they have the content that was
read: feeds whose updates stay in force, and raw data. A flow that reads no data starts when the first input that its
trigger names is complete, as far as the gate lets it.

A run's record names the revisions of all slots that decided, so these are compared with the present ones. A run that
somebody else started has no such revisions: no change is noticed. Not here: inputs that the asset reads
(`late_data.staleness`), and what a change means (`dependencies.gate`).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Final

from feed_assets.blackboard.port import Blackboard
from feed_assets.datasets.days import midnight
from feed_assets.datasets.errors import DatasetError
from feed_assets.datasets.grains import Grain
from feed_assets.datasets.instants import moment_of
from feed_assets.datasets.names import NO_MEMBER
from feed_assets.datasets.slots import Slot
from feed_assets.dependencies.act import REOPENED
from feed_assets.dependencies.gate.extra_inputs import ExtraInput
from feed_assets.dependencies.service import Dependencies
from feed_assets.file_feed.bounded_cache import BoundedCache
from feed_assets.file_feed.control import read_record
from feed_assets.file_feed.digest import short_digest
from feed_assets.file_feed.errors import FeedError
from feed_assets.file_feed.names import begun
from feed_assets.file_feed.start_objects import REVISIONS
from feed_assets.late_data.raw_growth import SourceDecision
from feed_assets.late_data.staleness import Staleness, in_force_at
from feed_assets.partitions.slots import partition_of
from feed_assets.sensors.flows import Flows, raw_inputs, slots_of
from feed_assets.starts.requests import Need, Requests, in_force_in, state_of
from feed_assets.state.event_log import Event

_RECORDED: Final[BoundedCache[tuple[str, str, str], Mapping[str, int]]] = BoundedCache(10_000)
"""The revisions that records name, by feed, partition and update; they never change."""
_DAYS: Final = {"month": 31, "quarter": 92, "w": 7, "d": 1, "h": 1, "min": 1}
"""At most how many days a unit of a shift has."""
NEVER: Final = "its inputs are there, and it was never computed"
_REOPENED: Final = "reopened-"
"""What the digest of reopened inputs follows in a state."""


@dataclass(frozen=True, slots=True)
class ExtraChange:
    """A partition of a flow that was never made, or by other revisions. `state` identifies the present ones."""

    feed: str
    partition: str
    state: str
    reason: str

    @property
    def need(self) -> Need:
        """The need to run it again."""
        return Need(self.partition, {self.feed: self.state}, self.reason)


def plan_by_extras(
    requests: Requests,
    flows: Flows,
    states: Dependencies,
    touched: Collection[tuple[str, str]],
    decided: Mapping[tuple[str, str], Sequence[SourceDecision]],
    *,
    lookback_days: int,
) -> set[tuple[str, str]]:
    """Plan runs of flows that read no feed, for changes that only the gate knows. Others see `with_extras`.

    Looks at partitions in the lookback, and at `touched` ones. `decided` has the decisions on the raw data of those
    that were compared with it. Returns the touched partitions that the next tick must look at again.
    """
    since = midnight(requests.now.date()) - timedelta(days=lookback_days)
    still_open: set[tuple[str, str]] = set()
    for feed, trigger in flows.triggers.items():
        if flows.feeds.feeds[feed].upstream:
            continue
        watched = flows.feeds.between(feed, since, requests.now)
        older = {partition for location, partition in touched if location == feed} - watched
        first = midnight(trigger.since) if trigger.since else since
        may_begin = flows.feeds.between(feed, first, requests.now)
        changes = [
            change
            for partition in sorted(watched | older)
            for decisions in [decided.get((feed, partition), () if partition in older else None)]
            if (change := change_beside(flows, states, requests.board, feed, partition, decisions)) is not None
        ]
        starts = (first_start(flows, states, feed, each) for each in sorted((watched | older) & may_begin))
        changes += [each for each in starts if each is not None]
        changes = _of_present_facts(requests, flows, states, feed, changes)
        requests.look_up((feed, each.partition) for each in changes)
        for change in changes:
            if requests.not_yet_requested(change.partition, {feed: change.state}):
                requests.add(change.need)
            if change.partition in older and (feed, change.partition) not in requests.given_up:
                still_open.add((feed, change.partition))
    return still_open


def change_beside(
    flows: Flows,
    states: Dependencies,
    board: Blackboard,
    feed: str,
    partition: str,
    decisions: Sequence[SourceDecision] | None,
) -> ExtraChange | None:
    """What only the gate knows to have changed for a partition of a flow that reads no feed.

    None if it is due by the `decisions` on its raw data. Late data reopens slots, too: what a person reopened is told
    only if the raw data was compared, so there are decisions, and none of them wants a run.
    """
    if any(each.due for each in decisions or ()):
        return None
    change = extra_change(flows, states, board, feed, partition)
    if change is None and decisions is not None and not any(each.wanted for each in decisions):
        change = _reopened_raw(flows, states, board, feed, partition)
    return change


def _of_present_facts(
    requests: Requests, flows: Flows, states: Dependencies, feed: str, changes: Sequence[ExtraChange]
) -> list[ExtraChange]:
    """Those changes of which the facts have the update in force; a later tick knows of others. A LIST if there are any.

    A run may have published since, and the facts have that only after the sensor of manifests has seen it. None if the
    feed cannot be read: `requests.notes` says why.
    """
    if not changes:
        return []
    places = [(feed, each.partition) for each in changes]
    try:
        in_force = in_force_at(requests.board, flows.feeds, places, now=requests.now)
    except FeedError as error:
        requests.notes.append(f"{flows.feeds.feeds[feed].name} cannot be read: {error}")
        return []
    return [
        each for each in changes if in_force[feed, each.partition] == states.update_of(flows.slot(feed, each.partition))
    ]


def first_start(flows: Flows, states: Dependencies, feed: str, partition: str) -> ExtraChange | None:
    """The first start of a partition of a flow that reads nothing, and only waits for inputs.

    None if an update is known, if no input is there, or if the flow reads data: then that starts it.
    """
    node = flows.feeds.feeds[feed]
    if node.upstream or node.raw_sources or states.update_of(flows.slot(feed, partition)) is not None:
        return None
    there = sorted(f"{each.slot}|{each.revision}" for each in flows.inputs(states, feed, partition) if each.complete)
    return ExtraChange(feed, partition, state_of(None, short_digest("\n".join(there))), NEVER) if there else None


def with_extras(flows: Flows, states: Dependencies, board: Blackboard, feed: str, answer: Staleness) -> Staleness:
    """Whether a partition is behind its inputs, those included that only its trigger names, or that were reopened."""
    change = extra_change(flows, states, board, feed, answer.partition) if flows.triggered(feed) else None
    if change is None and flows.triggered(feed) and not answer.stale:
        change = _reopened(flows, states, board, feed, answer)
    if change is None:
        return answer
    reason = f"{answer.reason}; {change.reason}" if answer.stale else change.reason
    return replace(answer, stale=True, state=f"{answer.state}+{change.state}", reason=reason)


def _reopened(
    flows: Flows, states: Dependencies, board: Blackboard, feed: str, answer: Staleness
) -> ExtraChange | None:
    """The feeds that somebody reopened since they were read, and whose updates are those that were read.

    Nothing is known of an update that the facts do not have yet.
    """
    slot, update = flows.slot(feed, answer.partition), in_force_in(answer.state)
    if update is None or states.update_of(slot) != update or not (outdated := states.quality.outdated(slot)):
        return None
    record = read_record(flows.feeds.feeds[feed].declaration.on(board), answer.partition, update)
    read = {each.slot: each.update for each in flows.read(feed, answer.partition, record)} if record else {}
    found = [each for each in outdated if read.get(each) is not None and read[each] == states.update_of(each)]
    return _of_reopened(states, feed, answer.partition, update, found)


def _reopened_raw(
    flows: Flows, states: Dependencies, board: Blackboard, feed: str, partition: str
) -> ExtraChange | None:
    """The raw data that somebody reopened after the update in force had begun.

    To be asked of a partition that read the raw data as it is now: late data reopens its hours, too. If a run that the
    gate did not start made the update, only the times are compared.
    """
    slot = flows.slot(feed, partition)
    if not (raw := raw_inputs(flows.feeds.feeds[feed])) or (update := states.update_of(slot)) is None:
        return None
    found = list[Slot]()
    for answer in (states.answer(slot._replace(dataset=name)) for name in raw):
        if answer.begun is None or answer.begun < begun(update):
            continue
        before = _recorded(flows, board, feed, partition, update).get(str(answer.slot))
        if answer.begun > begun(update) if before is None else answer.content > before:
            found.append(answer.slot)
    return _of_reopened(states, feed, partition, update, found)


def _of_reopened(
    states: Dependencies, feed: str, partition: str, update: str, slots: Sequence[Slot]
) -> ExtraChange | None:
    reasons = [f"{each} was reopened, and has revision {states.answer(each).revision} now" for each in slots]
    digest = short_digest("\n".join(reasons))
    return ExtraChange(feed, partition, state_of(update, f"{_REOPENED}{digest}"), "; ".join(reasons)) if slots else None


def reopened_in(state: str) -> str:
    """What identifies the reopened inputs for which a run is requested with this state; "" if there are none."""
    return state.partition(_REOPENED)[2]


def extra_change(
    flows: Flows, states: Dependencies, board: Blackboard, feed: str, partition: str
) -> ExtraChange | None:
    """What has changed since the update in force was started; None if nothing has, or if no record tells."""
    trigger = flows.triggers[feed]
    update = states.update_of(flows.slot(feed, partition)) if trigger.also else None
    if update is None or not (recorded := _recorded(flows, board, feed, partition, update)):
        return None
    changed, present = list[str](), list[str]()
    for extra in trigger.also:
        for slot, before in _compared(flows, states, feed, partition, extra, recorded):
            answer = states.answer(slot)
            if answer.revision > before:
                changed.append(f"{slot} has revision {answer.revision} now, was {before or 'missing'}")
                present.append(f"{slot}|{answer.revision}")
    if not changed:
        return None
    state = state_of(update, short_digest("\n".join(sorted(present))))
    return ExtraChange(feed, partition, state, "; ".join(changed))


def _compared(
    flows: Flows, states: Dependencies, feed: str, partition: str, extra: ExtraInput, recorded: Mapping[str, int]
) -> Iterator[tuple[Slot, int]]:
    """The slots that were looked at when the update was started, each with its revision then; 0: it was missing.

    Of the latest slot, only that which was used counts: a newer one is no reason to run again.
    """
    slots = flows.extra_slots(feed, partition, extra)
    used = [(each, recorded[str(each)]) for each in slots if str(each) in recorded]
    if extra.latest is None:
        yield from used
    elif used and used[-1][1]:
        yield used[-1]
    elif used:  # any of them is enough
        yield from ((each, 0) for each in slots if states.answer(each).complete)


def _recorded(flows: Flows, board: Blackboard, feed: str, partition: str, update: str) -> Mapping[str, int]:
    place = flows.feeds.feeds[feed].declaration.on(board)
    key = (place.uri, partition, update)
    if (known := _RECORDED.get(key)) is None:
        record = read_record(place, partition, update)
        found = (record.facts.details.get(REVISIONS) or {}) if record else {}
        known = _RECORDED[key] = {str(slot): int(revision) for slot, revision in found.items()}
    return known


def touched_by_extras(flows: Flows, events: Iterable[Event]) -> set[tuple[str, str]]:
    """The partitions of flows that are made of raw data, or whose triggers name a slot, that these events are about."""
    found: set[tuple[str, str]] = set()
    naming = [(feed, extra) for feed, trigger in flows.triggers.items() for extra in trigger.also]
    for event in events:
        name = str(event.details.get("dataset", ""))
        found.update(_partitions_of_raw(flows, name, event))
        for feed, extra in naming:
            # A dataset without partitions has no slots near others in time.
            if extra.dataset != name or event.details.get("grain") == Grain.WHOLE:
                continue
            if slots := [*slots_of(event, flows.datasets[name].dataset)]:
                found |= {(feed, each) for each in _partitions_near(flows, feed, extra, slots)}
    return found


def _partitions_of_raw(flows: Flows, name: str, event: Event) -> Iterator[tuple[str, str]]:
    """The partitions of flows that are made of a slot of raw data that was reopened."""
    readers = [feed for feed in flows.triggers if name in raw_inputs(flows.feeds.feeds[feed])]
    if event.kind != REOPENED or not readers:
        return
    slots = {each._replace(member=NO_MEMBER) for each in slots_of(event, flows.datasets[name].dataset)}
    for feed in readers:
        reader = flows.datasets[feed].dataset
        for each in slots:
            if each.grain is reader.base:
                partition = partition_of(flows.feeds.partitions(feed), each._replace(dataset=feed))
                if partition is not None and flows.feeds.can_have(feed, partition):
                    yield feed, partition


def _partitions_near(flows: Flows, feed: str, extra: ExtraInput, slots: list[Slot]) -> Iterator[str]:
    """The partitions of a flow that wait for one of these slots, among those that are near enough in time."""
    dataset = flows.datasets[extra.dataset].dataset
    try:
        begin, end = dataset.window(slots[0])[0], dataset.window(slots[-1])[1]
    except DatasetError:
        return
    before, after = timedelta(days=1), extra.latest or timedelta(days=1)
    if extra.shift is not None:
        before = after = timedelta(days=1 + abs(extra.shift.number) * _DAYS[extra.shift.unit])
    if extra.last is not None:
        after += extra.last * (moment_of(dataset.window(slots[0])[1]) - moment_of(begin) + timedelta(hours=1))
    for each in flows.feeds.between(feed, moment_of(begin) - before, moment_of(end) + after):
        if not {*slots}.isdisjoint(flows.extra_slots(feed, each, extra)):
            yield each
