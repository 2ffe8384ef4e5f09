"""Sets of ordinals, compressed. Their union counts nothing twice, however often a row was sent or read.

Not here: what happened to the rows (`ledger`, `audit`).
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import Final

from pyroaring import BitMap

from feed_assets.delivery.errors import LedgerError

BLOCK: Final = 65_536
"""Ordinals in a block: the unit in which a loss is located."""

Ordinals = BitMap
"""A mutable set of ordinals; `|` joins, `-` takes away."""


def packed(ordinals: Ordinals) -> bytes:
    """The set as bytes, in the portable form of Roaring bitmaps."""
    smallest = ordinals.copy()
    smallest.run_optimize()
    return bytes(smallest.serialize())


def unpacked(data: bytes) -> Ordinals:
    """The set from its bytes. Raises LedgerError."""
    try:
        return BitMap.deserialize(data)
    except (ValueError, IndexError) as error:
        raise LedgerError(f"A set of ordinals is damaged: {error}") from error


def everything(rows: int) -> Ordinals:
    """All ordinals of so many rows."""
    return between(0, rows)


def between(first: int, end: int) -> Ordinals:
    """The ordinals from `first` on, below `end`. It takes no longer for millions."""
    found = BitMap()
    found.add_range(first, end)
    return found


def by_block(ordinals: Ordinals) -> Iterator[tuple[int, Ordinals]]:
    """The blocks that have some of the ordinals, in order, and these ordinals."""
    while ordinals:
        block = ordinals.min() // BLOCK
        yield block, ordinals & between(block * BLOCK, (block + 1) * BLOCK)
        ordinals = ordinals - between(0, (block + 1) * BLOCK)


Minutes = dict[int, tuple[str, str]]
"""The first and the last minute (UTC) in which rows of a block were seen, by block."""


def note(minutes: Minutes, block: int, minute: str) -> None:
    """Note that rows of a block were seen in a minute."""
    first, last = minutes.get(block, (minute, minute))
    minutes[block] = min(first, minute), max(last, minute)


def minute_text(time: datetime) -> str:
    """The minute of a time in UTC, as `Minutes` have it."""
    return f"{time:%Y-%m-%dT%H:%M}"
