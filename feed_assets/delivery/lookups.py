"""Looking up what a destination's store has. Not here: the stores (`stores`)."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from feed_assets.delivery.consuming.dispatching import store_key
from feed_assets.delivery.destination import Destination
from feed_assets.delivery.errors import DestinationError
from feed_assets.delivery.ledger import utc_now
from feed_assets.delivery.stores.address import open_store
from feed_assets.delivery.stores.port import Store
from feed_assets.delivery.versions import Version


def store_of(to: Destination, folder: Path) -> Store:
    """The store of a destination. Raises DestinationError if it has none, StoreUnusableError."""
    if to.store is None:
        raise DestinationError(f"{to.name} has no store: name one in `store:`.")
    return open_store(to.store, folder)


def lookup(to: Destination, folder: Path, key: Sequence[str], partition: str | None = None) -> dict[str, Any] | None:
    """The row and the version of a key, given as texts; None if the store has none.

    A text that is JSON of another type, such as a number, is taken as it, too, if the key has several columns.
    """
    if len(key) != len(to.key):
        raise DestinationError(f"The key of {to.name} has {len(to.key)} columns ({', '.join(to.key)}), not {len(key)}.")
    if (to.values == "per_partition") != (partition is not None):
        needed = "needs a partition" if partition is None else "has no partitions in its keys"
        raise DestinationError(f"{to.name} {needed}.")
    values = [list(key), [_as_json(each) for each in key]]
    names = list(dict.fromkeys(store_key(to, partition or "", each) for each in values))
    with store_of(to, folder) as store:
        found = store.get_many(to.store_space, names, now=utc_now().timestamp())
    for name in names:
        if (value := found.get(name)) is not None:
            return {"row": msgspec.json.decode(value.data), "version": list(Version.unpacked(value.version))}
    return None


def _as_json(text: str) -> Any:
    try:
        return msgspec.json.decode(text)
    except msgspec.DecodeError:
        return text
