"""Derived feeds against the feeds they were made from: which partitions have fallen behind, and why.

Here: comparing what an update's record says it read with what is latest now. Not here: what is done about it
(`new_manifests`). Nothing but the blackboard is asked, so two machines always agree.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from feed_assets.blackboard import Blackboard
from feed_assets.file_feed import Feed, FeedInput, latest_of_all, read_record, recorded_digests
from feed_assets.sensors.feeds import FeedAsset, FeedGraph, Parent
from feed_assets.sensors.requests import state_of

Place = tuple[str, str | None]
"""A feed's location, and one of its partitions (None: it has none)."""


@dataclass(frozen=True, slots=True)
class Staleness:
    """Whether a partition of a derived feed is behind its inputs. `state` names the inputs as they are now."""

    asset: FeedAsset
    partition: str
    stale: bool
    state: str
    reason: str


def staleness(
    board: Blackboard, feeds: FeedGraph, asset: FeedAsset, partitions: Iterable[str], *, now: datetime
) -> Iterator[Staleness]:
    """One answer for each partition: up to date, behind (and behind what), never made, tried, or waiting for an input.

    A partition is behind when one of the inputs that its record names has another update in force now, or when one has
    come that it could not read: the next day, when this one was made, was no partition yet. Of an input that was only
    context no more than its coming counts. It is never made when its inputs of its own time are there and it is not.
    Inputs that were tried and whose update was turned away are not tried again. Raises FeedError where a feed cannot
    be read.
    """
    asked = set(partitions)
    wanted = sorted(partition for partition in asked if feeds.has(asset.key, partition))
    for partition in sorted(asked.difference(wanted)):
        reason = f"{partition} is no partition of {asset.key.to_user_string()}"
        yield Staleness(asset, partition, stale=False, state=state_of(None, ""), reason=reason)
    if not wanted:
        return
    made = latest_of_all(asset.declaration.on(board), now=now, first=wanted[0], last=wanted[-1])
    recorded = _Recorded(board, asset, wanted[0], wanted[-1])
    cases = []
    for partition in wanted:
        in_force = made[partition].name if partition in made else None
        newest = recorded.newest(partition)
        tried = newest if newest is not None and newest > (in_force or "") else None
        cases.append(
            _Case(
                asset,
                partition,
                in_force,
                recorded.inputs(partition, in_force) if in_force else None,
                tried,
                recorded.inputs(partition, tried) if tried else None,
                tuple(feeds.parents(asset.key, partition)),
            )
        )
    there = in_force_at(board, feeds, {place for case in cases for place in case.places}, now=now)
    for case in cases:
        yield case.answer(there)


def in_force_at(
    board: Blackboard, feeds: FeedGraph, places: Iterable[Place], *, now: datetime
) -> dict[Place, str | None]:
    """The name of the update in force at each of these places; each feed is listed once, over what is asked of it."""
    by_feed: dict[str, list[str]] = {}
    for location, partition in places:
        by_feed.setdefault(location, []).append(partition or "")
    partitioned = {location: asset.partitioned for location, asset in feeds.by_location().items()}
    names: dict[Place, str | None] = {}
    for location, partitions in by_feed.items():
        feed = Feed(board, location)
        if partitioned.get(location, any(partitions)):
            known = latest_of_all(feed, now=now, first=min(partitions), last=max(partitions))
        else:
            known = latest_of_all(feed, now=now)
        for partition in partitions:
            names[location, partition or None] = known[partition].name if partition in known else None
    return names


@dataclass(frozen=True, slots=True)
class _Case:
    """One partition: what is in force and what it read, what was tried after it, and what would be read now."""

    asset: FeedAsset
    partition: str
    made: str | None
    read: Sequence[FeedInput] | None
    tried: str | None
    tried_with: Sequence[FeedInput] | None
    parents: Sequence[Parent]

    @property
    def places(self) -> set[Place]:
        """Everything whose update in force has to be known."""
        each_one: list[FeedInput | Parent] = [*(self.read or ()), *(self.tried_with or ()), *self.parents]
        return {_place(each) for each in each_one}

    def answer(self, there: Mapping[Place, str | None]) -> Staleness:
        """What has become of it, given what is in force now."""
        changes = self._changes(self.read, there) if self.made else ()
        missing = [each.feed for each in self.parents if each.required and there[_place(each)] is None]
        if self.made and not changes:
            return self._because("up to date", there)
        if missing:
            waiting = f"waits for {', '.join(dict.fromkeys(missing))} {self.partition}"
            return self._because(f"{waiting}, which has no valid update any more" if self.made else waiting, there)
        if self.made is None and not any(each.required for each in self.parents):
            return self._because("none of its inputs is of its own time, so nothing says when to make it", there)
        if self.tried_with is not None and not self._changes(self.tried_with, there):
            tried = f"these inputs were tried as {self.tried}, which is not in force, so nothing is tried again"
            return self._because(f"{self._behind(changes)}; {tried} by itself until they change", there)
        return self._because(self._behind(changes), there, stale=True)

    def _behind(self, changes: Sequence[str]) -> str:
        return "; ".join(changes) if self.made else "its inputs are there, and it was never made"

    def _because(self, reason: str, there: Mapping[Place, str | None], *, stale: bool = False) -> Staleness:
        compared = self._compared(self.read or ())
        digest = _digest(f"{feed}|{partition}|{there[feed, partition]}" for feed, partition in compared)
        return Staleness(self.asset, self.partition, stale, state_of(self.made, digest), reason)

    def _changes(self, read: Sequence[FeedInput] | None, there: Mapping[Place, str | None]) -> tuple[str, ...]:
        """What is not any more as it was read; of an update without a record nothing can be said."""
        if read is None:
            return ()
        return tuple(
            f"{place[0]} {place[1] or ''} is {there[place] or 'gone'} now, was {was or 'missing'}"
            for place, was in self._compared(read).items()
            if there[place] != was
        )

    def _compared(self, read: Sequence[FeedInput]) -> dict[Place, str | None]:
        """The inputs whose changes count, each with what was read of it: also what is an input only by now."""
        before: dict[Place, str | None] = {_place(each): None for each in self.parents}
        before |= {_place(each): each.update for each in read}
        there_as_context = {_place(each) for each in read if each.context and each.update is not None}
        return {place: was for place, was in before.items() if place not in there_as_context}


class _Recorded:
    """What the records of a feed's partitions say was read."""

    def __init__(self, board: Blackboard, asset: FeedAsset, first: str, last: str) -> None:
        self._feed = asset.declaration.on(board)
        self._digests = recorded_digests(self._feed, first=first, last=last)

    def newest(self, partition: str) -> str | None:
        """The newest update that has a record, whatever became of it."""
        return max(self._digests.get(partition, ()), default=None)

    def inputs(self, partition: str, name: str) -> tuple[FeedInput, ...] | None:
        """The feeds that this update was made from; None where no record says so."""
        digest = self._digests.get(partition, {}).get(name)
        if digest is None:
            return None
        if digest not in _INPUTS:
            if len(_INPUTS) >= _REMEMBERED:
                _INPUTS.clear()
            record = read_record(self._feed, partition, name)
            read = record.facts.inputs if record else ()
            _INPUTS[digest] = tuple(each for each in read if isinstance(each, FeedInput)) or None
        return _INPUTS[digest]


_INPUTS: dict[str, tuple[FeedInput, ...] | None] = {}
"""What was read, by the digest of it that stands in a record's key: one listing tells the digests of a whole feed, so
that a record is read once a process."""

_REMEMBERED = 10_000


def _place(each: FeedInput | Parent) -> Place:
    return each.feed, each.partition


def _digest(parts: Iterable[str]) -> str:
    return hashlib.sha256("\n".join(sorted(parts)).encode()).hexdigest()[:16]
