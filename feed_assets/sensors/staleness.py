"""Derived feeds against the feeds they were made from: which partitions have fallen behind, and why.

Here: comparing what an update's record says it read with what is latest now. Not here: what is done about it
(`new_manifests`). Nothing but the blackboard is asked, so two machines always agree.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import date, datetime, timedelta

from feed_assets.blackboard import Blackboard
from feed_assets.file_feed import Feed, FeedInput, Update, latest_of_all, read_record, recorded_digests
from feed_assets.sensors.feeds import FeedAsset, FeedGraph
from feed_assets.sensors.requests import state_of

MARGIN = timedelta(days=2)
"""How far around a span of partitions upstream partitions are listed; no mapping here reaches further."""


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
    """One answer for each partition: up to date, behind (and behind what), never made, or waiting for an input.

    A partition is behind when one of the inputs that its record names has another update in force now; an input that
    was only context is not counted. It is never made when its inputs of the same partition are there and it is not.
    """
    wanted = sorted(set(partitions))
    if not wanted:
        return
    in_force = _InForce(board, feeds, wanted[0], wanted[-1], now)
    for partition in wanted:
        made = in_force.update(asset.declaration.location, partition)
        if made is None:
            yield _never_made(asset, partition, feeds, in_force)
        else:
            yield _compare(asset, partition, made.name, in_force.inputs(made), in_force)


def _compare(
    asset: FeedAsset, partition: str, made: str, inputs: tuple[FeedInput, ...], in_force: _InForce
) -> Staleness:
    now = {each: in_force.name(each.feed, each.partition) for each in inputs}
    changed = [each for each in inputs if now[each] != each.update]
    missing = [each for each in changed if now[each] is None and each.partition == partition]
    if missing:
        reason = f"waits for {missing[0].feed} {partition}, which has no valid update any more"
    else:
        reason = "; ".join(
            f"{each.feed} {each.partition or ''} is {now[each] or 'gone'} now, was {each.update or 'missing'}"
            for each in changed
        )
    state = state_of(made, _digest(f"{each.feed}|{each.partition}|{now[each]}" for each in inputs))
    return Staleness(asset, partition, bool(changed) and not missing, state, reason or "up to date")


def _never_made(asset: FeedAsset, partition: str, feeds: FeedGraph, in_force: _InForce) -> Staleness:
    needed = [feeds.assets[key].declaration.location for key in asset.upstream]
    names = {location: in_force.name(location, partition) for location in needed}
    missing = [location for location, name in names.items() if name is None]
    reason = f"waits for {', '.join(missing)}" if missing else "its inputs are there, and it was never made"
    state = state_of(None, _digest(f"{location}|{partition}|{name}" for location, name in names.items()))
    return Staleness(asset, partition, not missing, state, reason)


class _InForce:
    """The updates in force over a span of partitions: each feed listed once, when it is first asked for."""

    def __init__(self, board: Blackboard, feeds: FeedGraph, first: str, last: str, now: datetime) -> None:
        self._board, self._now = board, now
        self._first = str(date.fromisoformat(first[:10]) - MARGIN)
        self._last = str(date.fromisoformat(last[:10]) + MARGIN)
        self._partitioned = {location: asset.partitioned for location, asset in feeds.by_location().items()}
        self._known: dict[str, Mapping[str, Update]] = {}
        self._digests: dict[str, Mapping[str, Mapping[str, str]]] = {}

    def update(self, location: str, partition: str | None) -> Update | None:
        if location not in self._known:
            feed = Feed(self._board, location)
            if self._partitioned.get(location, True):
                known = latest_of_all(feed, now=self._now, first=self._first, last=self._last)
            else:
                known = latest_of_all(feed, now=self._now)
            self._known[location] = known
        return self._known[location].get(partition or "")

    def inputs(self, made: Update) -> tuple[FeedInput, ...]:
        """What an update was made from, context left out; nothing where it has no record."""
        location = made.feed.location
        if location not in self._digests:
            self._digests[location] = recorded_digests(made.feed, first=self._first, last=self._last)
        digest = self._digests[location].get(made.partition or "", {}).get(made.name)
        if digest is None:
            return ()
        if digest not in _INPUTS:
            record = read_record(made.feed, made.partition, made.name)
            if len(_INPUTS) >= _REMEMBERED:
                _INPUTS.clear()
            read = record.facts.inputs if record else ()
            _INPUTS[digest] = tuple(each for each in read if isinstance(each, FeedInput) and not each.context)
        return _INPUTS[digest]

    def name(self, location: str, partition: str | None) -> str | None:
        update = self.update(location, partition)
        return update.name if update else None


_INPUTS: dict[str, tuple[FeedInput, ...]] = {}
"""What was read, by the digest of it that stands in a record's key: one listing tells the digests of a whole feed, so
that a record is read once a process."""

_REMEMBERED = 10_000


def _digest(parts: Iterable[str]) -> str:
    return hashlib.sha256("\n".join(sorted(parts)).encode()).hexdigest()[:16]
