"""Looking up what a destination's store has: a key, or a sample of a delivery. Not here: the stores (`stores`)."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import msgspec

from feed_assets.delivery.consuming.dispatching import placed_key, store_key
from feed_assets.delivery.destination import Destination
from feed_assets.delivery.errors import DestinationError
from feed_assets.delivery.ledger import Begun, utc_now
from feed_assets.delivery.records import DELETE
from feed_assets.delivery.staging import read_staged
from feed_assets.delivery.stores.address import KEEP_SECONDS, open_store
from feed_assets.delivery.stores.port import Store
from feed_assets.delivery.versions import Version
from feed_assets.file_feed.wording import counted

if TYPE_CHECKING:
    from feed_assets.delivery.delivering import Deliverer

SAMPLE: Final = 100
"""Keys of a delivery that are looked up."""


class _Row(NamedTuple):
    """A row of a delivery: what the store is to have under its key."""

    key: str
    is_delete: bool
    version: bytes


@dataclass(frozen=True, slots=True)
class Answers:
    """What a store answers for some keys of a delivery.

    `behind` have an older version, or none although they were put. `unknown` have none, and a newer delivery may have
    deleted them.
    """

    asked: int
    behind: int
    unknown: int


def store_of(to: Destination, folder: Path, *, keep_seconds: float = KEEP_SECONDS) -> Store:
    """The store of a destination; see `open_store`. Raises DestinationError if it has none, StoreUnusableError."""
    if to.store is None:
        raise DestinationError(f"{to.name} has no store: name one in `store:`.")
    return open_store(to.store, folder, keep_seconds=keep_seconds)


def lookup(to: Destination, folder: Path, key: Sequence[str], partition: str | None = None) -> dict[str, Any] | None:
    """The row and the version of a key, given as texts; None if the store has none.

    A text that is JSON of another type, such as a number, is taken as it, too: only the records know the types.
    """
    if len(key) != len(to.key):
        columns = f"{counted(len(to.key), 'column')} ({', '.join(to.key)})"
        raise DestinationError(f"The key of {to.name} has {columns}, and {counted(len(key), 'value')} came.")
    if (to.values == "per_partition") != (partition is not None):
        needed = "give one, too" if partition is None else "leave it out, or set `values: per_partition`"
        what = "has a value for each partition" if partition is None else "has one value for all partitions"
        raise DestinationError(f"A key of {to.name} {what}: {needed}.")
    values = itertools.product(*((each, _as_json(each)) for each in key))
    names = list(dict.fromkeys(store_key(to, partition or "", each) for each in values))
    with store_of(to, folder) as store:
        found = store.get_many(to.store_space, names, now=utc_now().timestamp())
    for name in names:
        if (value := found.get(name)) is not None:
            return {"row": msgspec.json.decode(value.data), "version": list(Version.unpacked(value.version))}
    return None


def answers(deliverer: Deliverer, begun: Begun, count: int = SAMPLE) -> Answers:
    """Look up some keys of a delivery, evenly spread: each is to have this version, or a newer one.

    Reads the staged files, which are there until the next delivery of the partition has ended. Raises NotFoundError,
    DestinationError without a store, StoreUnusableError.
    """
    to, rows = deliverer.to, list(_sample(deliverer, begun, count))
    with store_of(to, deliverer.folder) as store:
        found = store.get_many(to.store_space, [each.key for each in rows], now=utc_now().timestamp())
    missing = sum(not each.is_delete and each.key not in found for each in rows)
    older = sum(each.key in found and found[each.key].version < each.version for each in rows)
    unknown = missing if missing and _later_deletes(deliverer, begun) else 0
    return Answers(len(rows), older + missing - unknown, unknown)


def _sample(deliverer: Deliverer, begun: Begun, count: int) -> Iterator[_Row]:
    partition, step = begun.partition or "", max(1, begun.rows // count)
    first, end = 0, min(begun.rows, step * count)
    for file in begun.files:
        for batch in read_staged(deliverer.feed.blackboard, file, ("op", "key")):
            for at in range(-first % step, min(batch.num_rows, end - first), step):
                operation, key = batch.column(0)[at].as_py(), batch.column(1)[at].as_py()
                version = Version(partition, begun.edition, first + at).packed()
                yield _Row(placed_key(deliverer.to, partition, key), operation == DELETE, version)
            first += batch.num_rows


def _later_deletes(deliverer: Deliverer, begun: Begun) -> bool:
    """Whether a newer delivery, whose versions are above those of this one, has deleted keys."""
    ledger, here = deliverer.ledger, (begun.partition or "", begun.edition)
    within = begun.partition if deliverer.to.values == "per_partition" else None
    return any(
        (each.partition or "", each.number) > here and ledger.began(each).deletes
        for editions in ledger.editions(within).values()
        for each in editions
    )


def _as_json(text: str) -> Any:
    try:
        return msgspec.json.decode(text)
    except msgspec.DecodeError:
        return text
