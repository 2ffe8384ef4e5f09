"""Sets of ordinals, compressed. Their union counts nothing twice, however often a row was sent or read.

Not here: what happened to the rows (`ledger`, `audit`).
"""

from __future__ import annotations

from typing import Final

from pyroaring import BitMap

from feed_assets.delivery.errors import LedgerError

BLOCK: Final = 65_536
"""Ordinals in a block: the unit in which a loss is located."""
MOST_ROWS: Final = 2**32
"""A set has ordinals below this."""

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
    return BitMap(range(rows))
