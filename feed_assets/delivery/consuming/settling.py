"""What happens to the records of one shard: they take effect in the store, and are counted by delivery.

Here: get, enrich and dispatch, settle, count. Not here: when the shard's checkpoint moves (`consumer`): never before
`write_down`, so what was read and not counted is read again. Counting is by sets, so it is not counted twice.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import NamedTuple

import msgspec

from feed_assets.blackboard.port import ConflictError
from feed_assets.delivery.destination import Destination
from feed_assets.delivery.encoding import DETAILS, key_text
from feed_assets.delivery.ledger import Ledger, PartWriter
from feed_assets.delivery.ordinals import Ordinals
from feed_assets.delivery.records import DELETE, Details, details_of
from feed_assets.delivery.stores.port import Change, Store
from feed_assets.delivery.streams.port import Read


class Arrived(NamedTuple):
    """A record of a delivery: which row it is, and the row."""

    details: Details
    row: dict[str, msgspec.Raw]


Dispatch = Callable[[Arrived], Sequence[tuple[str, Change]]]
"""The changes that a record makes, each with its space. Pure: it is called again when the record is read again."""


def dispatch_to_store(to: Destination) -> Dispatch:
    """One change for each record, in the destination's space."""

    def dispatch(arrived: Arrived) -> Sequence[tuple[str, Change]]:
        details, row = arrived
        key = store_key(to, details.partition, [msgspec.json.decode(row[each]) for each in to.key])
        value = None if details.op == DELETE else msgspec.json.encode(row)
        return [(to.store_space, Change(key, details.version.packed(), value))]

    return dispatch


def store_key(to: Destination, partition: str, values: Sequence[object]) -> str:
    """The key in the store of a row with these values of the key's columns, as JSON has them."""
    return placed_key(to, partition, key_text(values))


def placed_key(to: Destination, partition: str, key: str) -> str:
    """The key in the store of a row whose key is this text."""
    return key if to.values == "newest" else f"{partition}/{key}"


@dataclass(slots=True)
class _Seen:
    """What was seen of one delivery in this shard."""

    received: PartWriter
    settled: PartWriter
    arrived: Ordinals = field(default_factory=Ordinals)
    done: Ordinals = field(default_factory=Ordinals)
    counts: Counter[str] = field(default_factory=Counter)
    minutes: Counter[str] = field(default_factory=Counter)
    is_changed: bool = False


@dataclass(slots=True)
class Settling:
    """Settles the records of one shard. `foreign` counts records of nobody's delivery, and of other destinations."""

    ledger: Ledger
    to: Destination
    shard: str
    store: Store | None
    dispatch: Dispatch
    foreign: int = 0
    settled: int = 0
    _seen: dict[tuple[str, int], _Seen] = field(default_factory=dict)

    def settle(self, records: Sequence[Read]) -> None:
        """Bring records into the store. Raises StoreUnusableError; then nothing of them is counted as settled."""
        arrived = [each for each in map(self._taken, records) if each is not None]
        if self.store is not None:
            self._apply(arrived)
        for details, _ in arrived:
            self._of(details).done.add(details.ordinal)
        self.settled += len(arrived)

    def write_down(self) -> None:
        """Write what was seen into the ledger. Raises BlackboardError."""
        for seen in self._seen.values():
            if seen.is_changed:
                _merge(seen.received, seen.arrived, seen)
                if self.store is not None:
                    _merge(seen.settled, seen.done, seen)
                seen.is_changed = False

    def _taken(self, record: Read) -> Arrived | None:
        details = details_of(record.data)
        if details is None or details.destination != self.to.name:
            self.foreign += 1
            return None
        seen = self._of(details)
        seen.counts["repeats"] += details.ordinal in seen.arrived
        seen.arrived.add(details.ordinal)
        seen.minutes[_minute(record.arrived)] += 1
        seen.is_changed = True
        row = msgspec.json.decode(record.data, type=dict[str, msgspec.Raw])
        del row[DETAILS]
        return Arrived(details, row)

    def _apply(self, arrived: Sequence[Arrived]) -> None:
        """Apply the changes of records, space by space."""
        changes: dict[str, list[Change]] = {}
        whose: dict[str, list[Details]] = {}
        for each in arrived:
            for space, change in self.dispatch(each):
                changes.setdefault(space, []).append(change)
                whose.setdefault(space, []).append(each.details)
        if self.store is None:
            return
        for space, found in changes.items():
            for details, outcome in zip(whose[space], self.store.apply(space, found), strict=True):
                self._of(details).counts[outcome] += 1

    def _of(self, details: Details) -> _Seen:
        place = details.partition, details.edition
        if place not in self._seen:
            received, settled = (
                self.ledger.holder(hop, details.partition or None, details.edition, self.shard)
                for hop in ("received", "settled")
            )
            seen = self._seen[place] = _Seen(received, settled)
            if (before := received.read()) is not None:
                seen.arrived |= before.set()
                seen.counts.update(before.counts)
                seen.minutes.update(before.minutes)
            if (before := settled.read()) is not None:
                seen.done |= before.set()
        return self._seen[place]


def _merge(writer: PartWriter, ordinals: Ordinals, seen: _Seen) -> None:
    """Write the set, joined with what another holder of the shard has written meanwhile."""
    while True:
        try:
            writer.write(ordinals, repeats=seen.counts["repeats"], counts=seen.counts, minutes=seen.minutes)
        except ConflictError:
            if (other := writer.read()) is not None:
                ordinals |= other.set()
        else:
            return


def _minute(time: datetime) -> str:
    return f"{time:%Y-%m-%dT%H:%M}"
