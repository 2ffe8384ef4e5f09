"""Versions: which value of a key stays. Not here: comparing them, which a store does by their bytes."""

from __future__ import annotations

from typing import Final, NamedTuple, Self

_SEQUENCE_BYTES: Final = 32
"""A sequence number of Kinesis has 56 digits, which are 24 bytes."""


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
        partition, _, numbers = data.partition(b"\0")
        return cls(partition.decode(), int.from_bytes(numbers[:8], "big"), int.from_bytes(numbers[8:], "big"))


def foreign_version(sequence: str) -> bytes:
    """The version of a record of nobody's delivery: below all of deliveries, and in the order of the stream."""
    return b"\0" + bytes(8) + int(sequence).to_bytes(_SEQUENCE_BYTES, "big")
