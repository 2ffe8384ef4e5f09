"""Explain a day: for each asset the update in force, the other attempts, and why each update was computed.

Here: sentences made from the records in storage; Dagster's database is not needed. Not here: printing them (`cli`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime
from itertools import groupby

from feed_assets.blackboard.port import Blackboard
from feed_assets.file_feed.control import recorded_digests, records
from feed_assets.file_feed.feed import Feed
from feed_assets.file_feed.quarantine import counts_what_was_read
from feed_assets.file_feed.record import FeedInput, RawHour, RawInput, Record
from feed_assets.file_feed.states import UpdateStatus, history
from feed_assets.file_feed.wording import counted, observed_values
from feed_assets.late_data.day_phases import Phase
from feed_assets.late_data.inputs_read import inputs_read
from feed_assets.late_data.outside_lookback import FIRST, all_days, backfills, cleaned_nodes
from feed_assets.late_data.raw_growth import SourceDecision
from feed_assets.late_data.staleness import staleness
from feed_assets.sources.growth import GrowthKind, decide, rounded_growth
from feed_assets.sources.spec import Source
from feed_assets.starts.attempt import Answer, Attempt, verdict
from feed_assets.starts.attempts import Attempts
from feed_assets.starts.graph import FeedGraph, FeedNode
from feed_assets.starts.requests import state_of
from feed_assets.state.address import StoreError
from feed_assets.state.store import Store

BEFORE_ALL = "before the first partition (FEED_ASSETS_FIRST_DAY), so no sensor asks for it"


@dataclass(frozen=True, slots=True)
class UpdateStory:
    """One update: its state, why it was computed, and its inputs.

    `rows` has the number `published`; with a quarantine also those `read`, `quarantined` and `duplicates`.
    """

    name: str
    state: str
    in_force: bool
    made_because: str
    outcome: str
    rows: Mapping[str, int]
    failed_checks: tuple[str, ...]
    inputs: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class AssetStory:
    """One asset on one day: its updates, newest first, the growth of its raw data, and whether it is behind.

    `day` is the partition's name: the day, one of its hours, or the week or month in which it lies.
    """

    asset: str
    location: str
    day: str
    latest: str | None
    growth: tuple[str, ...]
    standing: str
    updates: tuple[UpdateStory, ...]

    @property
    def summary(self) -> str:
        """One line: why the update in force was computed, and the result of the newest later attempt."""
        in_force = next((update for update in self.updates if update.in_force), None)
        later = [update for update in self.updates if update.name > (self.latest or "")]
        parts = [in_force.made_because if in_force else "no valid update"]
        parts += [f"{update.name} {update.state}: {update.outcome}" for update in later[:1]]
        return "; ".join(part for part in parts if part)


@dataclass(frozen=True, slots=True)
class Unprocessed:
    """A day of a source with raw data that the update in force does not hold, and what happens next.

    `backfill` is the command that processes the day, and others in a row with it, if no sensor does. `never` says why
    no sensor ever asks for the day; empty if one does, or may. The first partition must be made earlier for a day that
    is `before_first`.
    """

    day: str
    standing: str
    backfill: str | None
    source: str = ""
    files: int = 0
    never: str = ""
    before_first: bool = False


def explain(
    board: Blackboard,
    graph: FeedGraph,
    sources: Sequence[Source],
    day: date,
    *,
    now: datetime,
    store: Store,
    gate: Callable[[str, str], str] = lambda *_: "",
) -> list[AssetStory]:
    """The stories of a day, upstream first: one for each partition of that day of each feed computed here.

    A month or a week has its story on each of its days. Feeds whose partitions are names have none. `gate` is the
    standing of a partition of a feed with a trigger; "" for other feeds.
    """
    return [
        _story(board, graph, node, sources, day, partition, now, store, gate(node.location, partition))
        for node in graph.feeds.values()
        if node.made_here and node.partitioned
        for partition in _partitions(board, graph, node, day)
    ]


def _partitions(board: Blackboard, graph: FeedGraph, node: FeedNode, day: date) -> Sequence[str]:
    """The partitions of the day; of several, those that have an update on record, or else the first."""
    found = graph.of_day(node.location, day)
    if len(found) > 1:
        return sorted(recorded_digests(node.declaration.on(board), only=found)) or found[:1]
    return found


def _story(
    board: Blackboard,
    graph: FeedGraph,
    node: FeedNode,
    sources: Sequence[Source],
    day: date,
    partition: str,
    now: datetime,
    store: Store,
    standing: str,
) -> AssetStory:
    feed = node.declaration.on(board)
    statuses = history(feed, partition, now=now)
    known = {record.update: record for record in records(feed, partition)}
    by_key = {source.key: source for source in sources}
    latest = next((status.name for status in statuses if status.latest), None)
    due: str | None = None
    growth: tuple[str, ...] = ()
    if standing:
        if not node.upstream and partition == str(day):
            growth = tuple(each for _, each in _standings(board, graph, node, sources, (day, day), now))
    elif node.upstream:
        answer = next(iter(staleness(board, graph, node, [partition], now=now)))
        standing, due = answer.reason, answer.state if answer.stale else None
        if day >= now.date() and not graph.has(node.location, partition):
            standing += ": the day is not over"
    elif partition != str(day):
        standing = "late_growth watches only days; complete_hours the hours that it checks"
    else:
        found = list(_standings(board, graph, node, sources, (day, day), now))
        growth = tuple(standing for _, standing in found)
        standing = "; ".join(growth) or "no raw data"
        due = _due([each for each, _ in found]).get(partition)
        if not found and latest is None:
            due = state_of(None, "empty")
    return AssetStory(
        asset=node.name,
        location=node.location,
        day=partition,
        latest=latest,
        growth=growth,
        standing=standing + _requested(store, feed, {partition: due} if due else {}, now).get(partition, ""),
        updates=tuple(_update(status, statuses, known, by_key) for status in statuses),
    )


def unprocessed(
    board: Blackboard, graph: FeedGraph, sources: Sequence[Source], *, now: datetime, store: Store
) -> list[Unprocessed]:
    """Every day up to today with raw data that the update in force does not hold, and what happens next.

    One for each source. Costs a LIST for each source, two for each feed, and the record of each such update.
    """
    found: list[Unprocessed] = []
    by_hand: set[date] = set()
    for node in cleaned_nodes(graph, now):
        feed = node.declaration.on(board)
        standings = list(_standings(board, graph, node, sources, (FIRST, now.date()), now))
        requested = _requested(store, feed, _due([each for each, _ in standings]), now)
        for each, standing in standings:
            of = (each.source.key, each.decision.current_files)
            if each.by_hand and graph.has(node.location, each.day):
                by_hand.add(date.fromisoformat(each.day))
                found.append(Unprocessed(each.day, _standing(feed, each, each.outside), None, *of, each.outside))
            elif each.differs or each.evening_changed:
                early = each.phase is not Phase.OPEN and not graph.has(node.location, each.day)
                request = requested.get(each.day, "") if each.due else ""
                never = BEFORE_ALL if early else ""
                found.append(Unprocessed(each.day, standing + request, None, *of, never, before_first=early))
    commands = backfills(by_hand)
    found.sort(key=lambda each: (each.day, each.standing))
    return [replace(each, backfill=commands.get(date.fromisoformat(each.day))) for each in found]


def _standings(
    board: Blackboard,
    graph: FeedGraph,
    node: FeedNode,
    sources: Sequence[Source],
    days: tuple[date, date],
    now: datetime,
) -> Iterator[tuple[SourceDecision, str]]:
    """Compare each source's raw data of each day with the read set of the update in force."""
    for each in all_days(board, node, sources, days, now=now):
        outcome = None
        if each.differs and not graph.has(node.location, each.day):
            outcome = BEFORE_ALL
            if each.phase is Phase.OPEN:
                outcome = "the day is not over, so no sensor asks for it yet"
        yield each, _standing(node.declaration.on(board), each, outcome)


def _due(decisions: Iterable[SourceDecision]) -> dict[str, str]:
    """The days that are due, each with the state of its input that a request names."""
    return {each.day: state_of(each.update, each.state) for each in decisions if each.due}


def _requested(store: Store, feed: Feed, due: Mapping[str, str], now: datetime) -> dict[str, str]:
    """For partitions that are due, when the sensors requested this state of the input, and when they do so again."""
    try:
        known = Attempts(store, feed.blackboard.uri(""), lambda: now).newest(feed.location, due)
    except StoreError as error:
        return dict.fromkeys(due, f"; the requests of the sensors are not known: {error}")
    return {partition: _request(each, due[partition], now) for partition, each in known.items()}


def _request(newest: Attempt, state: str, now: datetime) -> str:
    """When the state of a partition that is due was requested, and when it may be again; "" if it was not."""
    if newest.digest != state:
        return ""
    last = f"{newest.requested:%Y-%m-%d %H:%M:%S}"
    if newest.alive:
        return f"; requested at {last}, and its run has not ended"
    found = verdict(newest, state, lease_until=None, now=now)
    again = f"again after {found.until:%Y-%m-%d %H:%M:%S}" if found.until else "again by the next tick"
    if found.answer is Answer.OVER:
        again = "not again by itself"
    times = f"{newest.tries} times" if newest.tries > 1 else "once"
    return f"; requested {times} without a result, last at {last}, {again}"


def _standing(feed: Feed, each: SourceDecision, outcome: str | None) -> str:
    """The decision with its outcome; without growth if the read set of the update in force is not recorded."""
    unknown = each.decision.kind == GrowthKind.NEVER_PROCESSED and each.update is not None
    if not unknown or inputs_read(feed, each.day, each.update or "") is not None:
        return each.sentence(outcome)
    current = f"{counted(each.decision.current_files, 'file')}, {each.decision.current_bytes} bytes"
    return (
        f"{each.source.key} {each.day}: {current}; no record says what update {each.update} read of it; "
        f"{outcome or 'to be processed again'}"
    )


def _update(
    status: UpdateStatus, statuses: Sequence[UpdateStatus], known: Mapping[str, Record], sources: Mapping[str, Source]
) -> UpdateStory:
    record = known.get(status.name)
    nobody_knows = record is None and status.state == "incomplete"
    before = _in_force_before(status.name, statuses, known)
    rows = record.facts.rows if record else None
    all_counts = record is not None and counts_what_was_read(record)
    counts = ("read", "published", "quarantined", "duplicates") if all_counts else ("published",)
    return UpdateStory(
        name=status.name,
        state=status.state,
        in_force=status.latest,
        made_because=f"no record: {status.why}" if nobody_knows else _because(record, before, sources),
        outcome=status.why,
        rows={name: getattr(rows, name) for name in counts} if rows else {},
        failed_checks=tuple(
            f"{check.name}: {observed_values(check.observed)}"
            for check in (record.checks if record else ())
            if not check.passed
        ),
        inputs=_inputs(record.facts.inputs if record else ()),
    )


def _in_force_before(name: str, statuses: Sequence[UpdateStatus], known: Mapping[str, Record]) -> Record | None:
    """The record of the update that was valid when this update was begun; None if unknown."""
    valid = (each.name for each in statuses if each.state in {"valid", "invalidated"})
    return next((known[each] for each in valid if each < name and each in known), None)


def _because(record: Record | None, before: Record | None, sources: Mapping[str, Source]) -> str:
    if record is None:
        return "published by others, without a record"
    if before is None:
        return "first on record"
    changes = [*_raw_changes(record, before, sources), *_feed_changes(record, before)]
    if not changes and _evening(record) != _evening(before):
        changes = ["evening before changed"]
    if changes:
        return "; ".join(changes)
    if record.facts.code_version != before.facts.code_version:
        return f"same inputs, code version {before.facts.code_version} -> {record.facts.code_version}"
    if record.facts.config_digest != before.facts.config_digest:
        return "same inputs, other configuration"
    return "same inputs, run again"


def _raw_changes(record: Record, before: Record, sources: Mapping[str, Source]) -> list[str]:
    """The days of which both updates read different raw files. An update of an hour read part of a day."""
    earlier, now = before.read_sets, record.read_sets
    several_days = len({day for _, day in now}) > 1

    def named(place: tuple[str, str]) -> str:
        return " ".join(place) if several_days else place[0]

    changes = []
    for place, each in now.items():
        was, source = earlier.get(place), sources.get(each.source)
        if (was.hours if was else {}) != each.hours:
            if source is None:
                changes.append(f"{named(place)} changed")
            else:
                decision = decide(was, each, source.growth_threshold_percent)
                kind = "changed" if decision.needs_files else decision.kind.replace("_", " ")
                growth = decision.growth_percent
                percent = "" if growth is None else f" {rounded_growth(growth, 1):+f} %"
                changes.append(f"{named(place)} {kind}{percent}")
    gone = sorted(place for place, was in earlier.items() if was.hours and place not in now)
    return [*changes, *(f"{named(place)} no longer read" for place in gone)]


def _evening(record: Record) -> dict[tuple[str, str], Mapping[str, RawHour]]:
    """The raw data that an update read as context, by source and day."""
    read = (each for each in record.facts.inputs if isinstance(each, RawInput) and each.context)
    return {(each.source, each.partition): each.hours for each in read if each.count}


def _feed_changes(record: Record, before: Record) -> list[str]:
    earlier, now = (
        {_named(each): each.update for each in of.facts.inputs if isinstance(each, FeedInput)}
        for of in (before, record)
    )
    changed = [
        f"{name} {earlier.get(name) or 'missing'} -> {update}"
        for name, update in now.items()
        if update != earlier.get(name)
    ]
    return [*changed, *(f"{name} no longer read" for name, update in earlier.items() if update and name not in now)]


def _inputs(inputs: Sequence[FeedInput | RawInput]) -> tuple[str, ...]:
    """A line for each input; neighbouring partitions of a feed without a valid update share a line."""
    found = []
    for absent, group in groupby(inputs, _absent):
        alike = list(group)
        if absent and len(alike) > 1:
            feed, context = absent
            where = f"{feed} {alike[0].partition} to {alike[-1].partition}"
            found.append(f"{where}: nothing valid ({len(alike)} partitions{', context' if context else ''})")
        else:
            found += map(_input, alike)
    return tuple(found)


def _absent(each: FeedInput | RawInput) -> tuple[str, bool] | None:
    """The feed of an input without a valid update, and whether it is only context; None for any other input."""
    return (each.feed, each.context) if isinstance(each, FeedInput) and not each.update else None


def _input(each: FeedInput | RawInput) -> str:
    context = " (context)" if each.context else ""
    if isinstance(each, RawInput):
        return f"raw/{each.source} {each.partition}: {counted(each.count, 'file')}, {each.bytes:,} bytes{context}"
    return f"{_named(each)}: {each.update or 'nothing valid'}{context}"


def _named(each: FeedInput) -> str:
    return f"{each.feed} {each.partition}" if each.partition else each.feed
