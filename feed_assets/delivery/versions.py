"""Versions: which value of a key stays. Not here: comparing them, which a store does by their bytes."""

from __future__ import annotations

from typing import NamedTuple, Self


class Version(NamedTuple):
    """A row of a delivery. Versions compare by partition (as bytes; "" without partitions), edition, ordinal."""

    partition: str
    edition: int
    ordinal: int

    def packed(self) -> bytes:
        """Bytes that compare as versions do: no partition contains a zero byte."""
        return b"%b\0%b%b" % (self.partition.encode(), self.edition.to_bytes(8, "big"), self.ordinal.to_bytes(8, "big"))

    @classmethod
    def unpacked(cls, data: bytes) -> Self:
        """The version from its bytes."""
        return cls(data[:-17].decode(), int.from_bytes(data[-16:-8], "big"), int.from_bytes(data[-8:], "big"))
