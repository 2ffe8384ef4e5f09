"""Compares the inputs in an update's record with the latest updates: which partitions are stale, and why.

It reads only the blackboard, so two machines always agree. Not here: the runs that follow (`catching_up`).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from feed_assets.blackboard.port import Blackboard
from feed_assets.datasets.declaration import Place
from feed_assets.file_feed.control import recorded_digests
from feed_assets.file_feed.digest import short_digest
from feed_assets.file_feed.feed import Feed
from feed_assets.file_feed.record import FeedInput
from feed_assets.file_feed.scanning import latest_of_all
from feed_assets.late_data.inputs_read import InputsRead, inputs_read, was_decided_against
from feed_assets.starts.graph import FeedGraph, FeedNode, Parent
from feed_assets.starts.requests import state_of


@dataclass(frozen=True, slots=True)
class Staleness:
    """Whether a partition of a derived feed is behind its inputs. `state` identifies its inputs as they are now."""

    partition: str
    stale: bool
    state: str
    reason: str


def staleness(
    board: Blackboard, graph: FeedGraph, node: FeedNode, partitions: Iterable[str], *, now: datetime
) -> Iterator[Staleness]:
    """One answer for each partition: up to date, stale (and why), never computed, tried, or waiting for an input.

    A partition is stale if an input in its record has another update in force now, or if it could not read an input
    that exists now (its next day was not a partition yet). A context input makes a partition stale with its first
    update. A later update does so only if the partition and a neighbour no longer agree about the data they share
    (`feed/boundary`): then one of them read older context. A partition without an update is stale if the inputs of its
    own time exist. The same inputs are not tried again if their update was rejected or invalidated. Raises FeedError
    if a feed cannot be read.
    """
    feed = node.location
    requested = set(partitions)
    wanted = sorted(partition for partition in requested if graph.has(feed, partition))
    for partition in sorted(requested.difference(wanted)):
        reason = f"{partition} is not a partition of {node.name}"
        yield Staleness(partition, stale=False, state=state_of(None, ""), reason=reason)
    if not wanted:
        return
    neighbours = {partition: graph.neighbours(feed, partition) for partition in wanted}
    concerned = {*wanted, *(each for sides in neighbours.values() for each in sides.values())}
    in_force = latest_of_all(node.declaration.on(board), now=now, only=concerned)
    recorded = _Recorded(board, node, concerned)
    cases = []
    for partition in wanted:
        update = in_force[partition].name if partition in in_force else None
        sides = {side: (each, in_force[each].name) for side, each in neighbours[partition].items() if each in in_force}
        cases.append(_Case(graph, recorded, feed, partition, update, sides))
    current = in_force_at(board, graph, {place for case in cases for place in case.places}, now=now)
    for case in cases:
        yield case.answer(current)


def in_force_at(
    board: Blackboard, graph: FeedGraph, places: Iterable[Place], *, now: datetime
) -> dict[Place, str | None]:
    """The name of the update in force at each place. Lists each feed once, and only these partitions."""
    by_feed: dict[str, list[str]] = {}
    for location, partition in places:
        by_feed.setdefault(location, []).append(partition or "")
    names: dict[Place, str | None] = {}
    for location, partitions in by_feed.items():
        feed = Feed(board, location)
        partitioned = graph.feeds[location].partitioned if location in graph.feeds else any(partitions)
        known = latest_of_all(feed, now=now, only=partitions if partitioned else None)
        for partition in partitions:
            names[location, partition or None] = known[partition].name if partition in known else None
    return names


class _Case:
    """One partition: its update in force, the update tried later, and its parents now.

    `neighbours` are the partitions `before` and `after` it that have an update in force, each with that update's name.
    """

    def __init__(
        self,
        graph: FeedGraph,
        recorded: _Recorded,
        feed: str,
        partition: str,
        update: str | None,
        neighbours: Mapping[str, tuple[str, str]],
    ) -> None:
        self.graph, self.feed, self.partition, self.update = graph, feed, partition, update
        self.recorded, self.neighbours = recorded, neighbours
        self.read = recorded.read(partition, update)
        self.tried = recorded.tried(partition, update)
        self.tried_with = recorded.read(partition, self.tried)
        self.parents = graph.parents(feed, partition)

    @property
    def places(self) -> set[Place]:
        """The places whose update in force `answer` needs."""
        inputs = [each for read in (self.read, self.tried_with) if read for each in read.feeds]
        return {_place(each) for each in inputs} | {each.place for each in self.parents}

    def answer(self, current: Mapping[Place, str | None]) -> Staleness:
        """Whether the partition is stale, given the updates in force now."""
        changes = self._changes(self.read, current) if self.update else ()
        missing = [each for each in self.parents if each.required and current[each.place] is None]
        if self.update and not changes:
            unknown = f"no record says what update {self.update} was made of, so no change of an input is noticed"
            return self._result(unknown if self.parents and self.read is None else "up to date", current)
        if missing:
            if never := next((each for each in missing if not self.graph.has(each.feed, each.partition)), None):
                why = f"{never.feed} {never.partition} is not a partition, and the partition mapping forbids that"
                return self._result(f"cannot run: {why}", current)
            waiting = f"waits for {_first_of_each_feed(missing)}"
            return self._result(f"{waiting}, which has no valid update any more" if self.update else waiting, current)
        if self.update is None and not self._is_ready(current):
            return self._result("no input covers its time, so it does not run by itself", current)
        if self.tried_with is not None and not self._changes(self.tried_with, current):
            tried = f"tried with these inputs as {self.tried}, which is not in force, so not again until they change"
            return self._result(f"{self._behind(changes)}; {tried}", current)
        return self._result(self._behind(changes), current, stale=True)

    def _is_ready(self, current: Mapping[Place, str | None]) -> bool:
        """Whether it has a required input, or an optional input of its own time with an update.

        Without a time of its own, any input with an update is enough.
        """
        timeless = not self.graph.has_time(self.feed, self.partition)
        return any(
            each.required or ((timeless or each.shares_time) and current[each.place] is not None)
            for each in self.parents
        )

    def _behind(self, changes: Sequence[str]) -> str:
        if self.update:
            return "; ".join(changes)
        return f"its inputs are there, and {'nothing is in force' if self.tried else 'it was never computed'}"

    def _result(self, reason: str, current: Mapping[Place, str | None], *, stale: bool = False) -> Staleness:
        compared = {*self._compared(self.read), *self._context_moved(self.read, current)}
        lines = sorted(f"{feed}|{partition}|{current[feed, partition]}" for feed, partition in compared)
        return Staleness(self.partition, stale, state_of(self.update, short_digest("\n".join(lines))), reason)

    def _changes(self, read: InputsRead | None, current: Mapping[Place, str | None]) -> tuple[str, ...]:
        """The inputs that are not as they were read, as text; empty if no record says what was read."""
        if read is None:
            return ()
        compared = self._compared(read).items()
        changed = tuple(_now_and_then(place, current[place], was) for place, was in compared if current[place] != was)
        moved = self._context_moved(read, current)
        if changed or not moved:
            return changed
        return tuple(
            f"{'; '.join(_now_and_then(place, current[place], was) for place, was in moved.items())}, and {neighbour} "
            f"({update}) no longer agrees about the data that both share"
            for side, (neighbour, update) in self.neighbours.items()
            if self._disagree(read, side, neighbour, update)
        )

    def _disagree(self, read: InputsRead, side: str, neighbour: str, update: str) -> bool:
        """Whether the partition and its neighbour record different digests of the data they share."""
        if read.boundary is None:
            return False
        theirs = self.recorded.read(neighbour, update)
        opposite = {"before": "after", "after": "before"}[side]
        return theirs is None or theirs.boundary is None or theirs.boundary.get(opposite) != read.boundary.get(side)

    def _compared(self, read: InputsRead | None) -> dict[Place, str | None]:
        """The inputs that make it stale by themselves, with the update read; None for parents that were not read."""
        before: dict[Place, str | None] = {each.place: None for each in self.parents}
        before |= {_place(each): each.update for each in (read.feeds if read else ())}
        context = _context(read)
        return {place: was for place, was in before.items() if place not in context}

    def _context_moved(self, read: InputsRead | None, current: Mapping[Place, str | None]) -> dict[Place, str | None]:
        """The context inputs with another update in force than the update that was read, which is the value."""
        return {place: was for place, was in _context(read).items() if current[place] != was}


class _Recorded:
    """The records of a feed's partitions."""

    def __init__(self, board: Blackboard, node: FeedNode, partitions: Collection[str]) -> None:
        self._feed = node.declaration.on(board)
        self._digests = recorded_digests(self._feed, only=partitions)

    def read(self, partition: str, name: str | None) -> InputsRead | None:
        """The inputs of this update; None if no record names any."""
        return inputs_read(self._feed, partition, name) if name and name in self._digests.get(partition, ()) else None

    def tried(self, partition: str, in_force: str | None) -> str | None:
        """The newest update, if it is newer than the update in force and was rejected or invalidated."""
        newest = max(self._digests.get(partition, ()), default="")
        return newest if newest > (in_force or "") and was_decided_against(self._feed, partition, newest) else None


def _context(read: InputsRead | None) -> dict[Place, str | None]:
    """The context inputs that had an update, each with the update that was read."""
    inputs = read.feeds if read else ()
    return {_place(each): each.update for each in inputs if each.context and each.update is not None}


def _now_and_then(place: Place, now: str | None, then: str | None) -> str:
    where = " ".join(filter(None, place))
    return f"{where} is {now or 'gone'} now, was {then or 'missing'}"


def _first_of_each_feed(parents: Sequence[Parent]) -> str:
    by_feed: dict[str, list[str]] = {}
    for each in parents:
        by_feed.setdefault(each.feed, []).append(each.partition)
    return ", ".join(
        f"{feed} {first}" + (f" and {len(rest)} more" if rest else "") for feed, (first, *rest) in by_feed.items()
    )


def _place(each: FeedInput) -> Place:
    return each.feed, each.partition
