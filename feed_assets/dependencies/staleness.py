"""Derived feeds against the feeds they were computed from: which partitions have fallen behind, and why.

Here: comparing what an update's record says it read with what is latest now. Not here: what is done about it
(`catching_up`). Nothing but the blackboard is asked, so two machines always agree.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from feed_assets.blackboard import Blackboard
from feed_assets.dependencies.graph import FeedGraph, FeedNode, Place
from feed_assets.dependencies.inputs_read import InputsRead, inputs_read, was_decided_against
from feed_assets.dependencies.requests import state_of
from feed_assets.file_feed import Feed, FeedInput, latest_of_all, recorded_digests


@dataclass(frozen=True, slots=True)
class Staleness:
    """Whether a partition of a derived feed is behind its inputs. `state` names the inputs as they are now."""

    feed: str
    partition: str
    stale: bool
    state: str
    reason: str


def staleness(
    board: Blackboard, graph: FeedGraph, node: FeedNode, partitions: Iterable[str], *, now: datetime
) -> Iterator[Staleness]:
    """One answer for each partition: up to date, stale (and why), never made, tried, or waiting for an input.

    A partition is stale when one of the inputs that its record names has another update in force now, or when an input
    has come that it could not read: the next day, when this one was made, was no partition yet. For a context input,
    only its first update makes a partition stale, and a later one where the partition and a neighbour no longer agree
    about what they share (`feed/boundary` in the declaration): one of them then rests on older context. A partition was
    never made when its inputs of its own time are there and it is not. Inputs whose update was rejected or invalidated
    are not tried again. Raises FeedError where a feed cannot be read.
    """
    feed = node.location
    asked = set(partitions)
    wanted = sorted(partition for partition in asked if graph.has(feed, partition))
    for partition in sorted(asked.difference(wanted)):
        reason = f"{partition} is no partition of {node.name}"
        yield Staleness(feed, partition, stale=False, state=state_of(None, ""), reason=reason)
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
    """The name of the update in force at each of these places; each feed is listed once, these partitions only."""
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
    """One partition: what is in force and what it read, what was tried after it, and what would be read now.

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
        self.feed, self.partition, self.update = feed, partition, update
        self.recorded, self.neighbours = recorded, neighbours
        self.read = recorded.read(partition, update)
        self.tried = recorded.tried(partition, update)
        self.tried_with = recorded.read(partition, self.tried)
        self.parents = graph.parents(feed, partition)
        self.timeless = not graph.has_time(feed, partition)

    @property
    def places(self) -> set[Place]:
        """Everything whose update in force has to be known."""
        inputs = [each for read in (self.read, self.tried_with) if read for each in read.feeds]
        return {_place(each) for each in inputs} | {each.place for each in self.parents}

    def answer(self, current: Mapping[Place, str | None]) -> Staleness:
        """How the partition stands, given what is in force now."""
        changes = self._changes(self.read, current) if self.update else ()
        missing = [each.feed for each in self.parents if each.required and current[each.place] is None]
        if self.update and not changes:
            return self._because("up to date", current)
        if missing:
            waiting = f"waits for {', '.join(dict.fromkeys(missing))} {self.partition}"
            return self._because(f"{waiting}, which has no valid update any more" if self.update else waiting, current)
        if self.update is None and not self._says_when(current):
            return self._because("none of its inputs is of its own time, so nothing says when to make it", current)
        if self.tried_with is not None and not self._changes(self.tried_with, current):
            tried = f"these inputs were tried as {self.tried}, which is not in force, so nothing is tried again"
            return self._because(f"{self._behind(changes)}; {tried} by itself until they change", current)
        return self._because(self._behind(changes), current, stale=True)

    def _says_when(self, current: Mapping[Place, str | None]) -> bool:
        """Whether its inputs tell when to make it first: those of its own time; for one without a time, any."""
        return any(each.required or (self.timeless and current[each.place] is not None) for each in self.parents)

    def _behind(self, changes: Sequence[str]) -> str:
        return "; ".join(changes) if self.update else "its inputs are there, and it was never made"

    def _because(self, reason: str, current: Mapping[Place, str | None], *, stale: bool = False) -> Staleness:
        compared = {*self._compared(self.read), *self._context_moved(self.read, current)}
        digest = _digest(f"{feed}|{partition}|{current[feed, partition]}" for feed, partition in compared)
        return Staleness(self.feed, self.partition, stale, state_of(self.update, digest), reason)

    def _changes(self, read: InputsRead | None, current: Mapping[Place, str | None]) -> tuple[str, ...]:
        """What is no longer as it was read; nothing where no record says what was read."""
        if read is None:
            return ()
        changed = tuple(
            _now_and_then(place, current[place], was)
            for place, was in self._compared(read).items()
            if current[place] != was
        )
        moved = self._context_moved(read, current)
        if changed or not moved:
            return changed
        return tuple(
            f"{'; '.join(_now_and_then(place, current[place], was) for place, was in moved.items())}, and {neighbour} "
            f"({update}) no longer agrees about what both share"
            for side, (neighbour, update) in self.neighbours.items()
            if self._disagree(read, side, neighbour, update)
        )

    def _disagree(self, read: InputsRead, side: str, neighbour: str, update: str) -> bool:
        """Whether the partition and its neighbour state different things about what they share."""
        if read.boundary is None:
            return False
        theirs = self.recorded.read(neighbour, update)
        opposite = {"before": "after", "after": "before"}[side]
        return theirs is None or theirs.boundary is None or theirs.boundary.get(opposite) != read.boundary.get(side)

    def _compared(self, read: InputsRead | None) -> dict[Place, str | None]:
        """The inputs whose changes count by themselves, each with what was read of it: also those that have come."""
        inputs = read.feeds if read else ()
        before: dict[Place, str | None] = {each.place: None for each in self.parents}
        before |= {_place(each): each.update for each in inputs}
        return {place: was for place, was in before.items() if place not in _context(read)}

    def _context_moved(self, read: InputsRead | None, current: Mapping[Place, str | None]) -> dict[Place, str | None]:
        """The context inputs that have another update in force than was read, each with the one that was read."""
        return {place: was for place, was in _context(read).items() if current[place] != was}


class _Recorded:
    """What the records of a feed's partitions say."""

    def __init__(self, board: Blackboard, node: FeedNode, partitions: Collection[str]) -> None:
        self._feed = node.declaration.on(board)
        self._digests = recorded_digests(self._feed, only=partitions)

    def read(self, partition: str, name: str | None) -> InputsRead | None:
        """What this update was computed from; None where no record says so."""
        return inputs_read(self._feed, partition, name) if name and name in self._digests.get(partition, ()) else None

    def tried(self, partition: str, in_force: str | None) -> str | None:
        """The newest update, where it came after the one in force and was decided against."""
        newest = max(self._digests.get(partition, ()), default="")
        return newest if newest > (in_force or "") and was_decided_against(self._feed, partition, newest) else None


def _context(read: InputsRead | None) -> dict[Place, str | None]:
    """The context inputs that were there, each with the update that was read."""
    inputs = read.feeds if read else ()
    return {_place(each): each.update for each in inputs if each.context and each.update is not None}


def _now_and_then(place: Place, now: str | None, then: str | None) -> str:
    return f"{place[0]} {place[1] or ''} is {now or 'gone'} now, was {then or 'missing'}"


def _place(each: FeedInput) -> Place:
    return each.feed, each.partition


def _digest(parts: Iterable[str]) -> str:
    return hashlib.sha256("\n".join(sorted(parts)).encode()).hexdigest()[:16]
