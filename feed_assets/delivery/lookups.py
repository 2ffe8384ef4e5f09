"""Looking up what a destination's store has: a key, or a sample of a delivery. Not here: the stores (`stores`)."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Self

import msgspec

from feed_assets.delivery.consuming.dispatching import Arrived, dispatch_of, store_key
from feed_assets.delivery.destination import Destination
from feed_assets.delivery.errors import DestinationError
from feed_assets.delivery.ledger import Begun, utc_now
from feed_assets.delivery.records import Prefix, details_of
from feed_assets.delivery.staging import read_staged
from feed_assets.delivery.stores.address import KEEP_SECONDS, open_store, options_of
from feed_assets.delivery.stores.port import Change, Store
from feed_assets.delivery.streams.port import Read
from feed_assets.delivery.versions import Version
from feed_assets.file_feed.wording import counted

if TYPE_CHECKING:
    from feed_assets.delivery.delivering import Deliverer

SAMPLE: Final = 100
"""Keys of a delivery that are looked up."""


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
    return open_store(to.store, folder, options=options_of(to.name), keep_seconds=keep_seconds)


class Found(NamedTuple):
    """What a store has for a key: the row by column, as JSON has it, and the version that wrote it."""

    row: dict[str, Any]
    version: Version


@dataclass(frozen=True, slots=True)
class Lookups:
    """Looks keys up in the store of a destination. Threads may share it, and it is used in a `with` block."""

    to: Destination
    store: Store
    space: str

    @classmethod
    @contextmanager
    def of(cls, to: Destination, folder: Path, target: str = "") -> Iterator[Self]:
        """The lookups of a destination; `folder` has stores that are files. `target` chooses one of several.

        Raises DestinationError, StoreUnusableError.
        """
        space = target or (to.spaces[0] if len(to.spaces) == 1 else to.store_space)
        if space not in to.spaces:
            found = f"no target {space}" if target else "several targets"
            raise DestinationError(f"{to.name} has {found}; choose one of {', '.join(to.spaces)}.")
        with store_of(to, folder) as store:
            yield cls(to, store, space)

    def get(self, *key: object, partition: str | None = None) -> Found | None:
        """What the store has for a key; None: nothing. A value for each column of the key, as JSON has it.

        One request. `partition` is for `values: per_partition`. Raises DestinationError, StoreUnusableError.
        """
        return self._first([key], partition)

    def get_texts(self, key: Sequence[str], partition: str | None = None) -> Found | None:
        """The same for a key whose values are texts: only the records know their types.

        One that is JSON of another type, such as a number, is taken as that, too.
        """
        return self._first(list(itertools.product(*((each, _as_json(each)) for each in key))), partition)

    def _first(self, keys: Sequence[Sequence[object]], partition: str | None) -> Found | None:
        to = self.to
        if not to.dispatch and len(keys[0]) != len(to.key):
            columns = f"{counted(len(to.key), 'column')} ({', '.join(to.key)})"
            raise DestinationError(f"The key of {to.name} has {columns}, and {counted(len(keys[0]), 'value')} came.")
        if (to.values == "per_partition") != (partition is not None):
            needed = "give one, too" if partition is None else "leave it out, or set `values: per_partition`"
            what = "has a value for each partition" if partition is None else "has one value for all partitions"
            raise DestinationError(f"A key of {to.name} {what}: {needed}.")
        names = list(dict.fromkeys(store_key(to, partition or "", each) for each in keys))
        found = self.store.get_many(self.space, names, now=utc_now().timestamp())
        for name in names:
            if (value := found.get(name)) is not None:
                return Found(msgspec.json.decode(value.data), Version.unpacked(value.version))
        return None


def answers(deliverer: Deliverer, begun: Begun, count: int = SAMPLE) -> Answers:
    """Look up some rows of a delivery, evenly spread over one of its files: each has this version, or a newer one.

    Reads that staged file, which is there until the next delivery of the partition has ended. Raises NotFoundError,
    DestinationError without a store, StoreUnusableError, PoisonedError.
    """
    to, dispatch = deliverer.to, dispatch_of(deliverer.to)
    wanted: dict[str, dict[str, Change]] = {}
    for data in _sample(deliverer, begun, count):
        for space, change in dispatch(Arrived(details_of(data), Read("", "", data, begun.at))):
            wanted.setdefault(space, {})[change.key] = change  # versions grow with the ordinals
    asked = missing = older = 0
    with store_of(to, deliverer.folder) as store:
        for space, changes in wanted.items():
            found = store.get_many(space, list(changes), now=utc_now().timestamp())
            asked += len(changes)
            missing += sum(change.value is not None and key not in found for key, change in changes.items())
            older += sum(value.version < changes[key].version for key, value in found.items())
    unknown = missing if missing and _later_deletes(deliverer, begun) else 0
    return Answers(asked, older + missing - unknown, unknown)


def _sample(deliverer: Deliverer, begun: Begun, count: int) -> Iterator[bytes]:
    """Records of one staged file, another one for each edition: all of them may have many gigabytes."""
    if not begun.files:
        return
    place = begun.edition % len(begun.files)
    file, start = begun.files[place], sum(each.rows for each in begun.files[:place])
    prefix = Prefix.of(begun.destination, begun.partition or "", begun.edition)
    step, first = max(1, file.rows // count), 0
    for batch in read_staged(deliverer.feed.blackboard, file, ("op", "body")):
        for at in range(-first % step, min(batch.num_rows, step * count - first), step):
            yield prefix.record(start + first + at, batch.column(0)[at].as_py(), batch.column(1)[at].as_py())
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
