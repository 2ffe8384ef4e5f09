"""Records: an encoded row, and which row of which delivery it is. Not here: how a row is encoded (`encoding`)."""

from __future__ import annotations

from typing import Final, NamedTuple

import msgspec

from feed_assets.delivery.encoding import DETAILS
from feed_assets.delivery.versions import Version

FORMAT: Final = 1
PUT, DELETE = "put", "delete"

_MARK: Final = f'{{"{DETAILS}":['.encode()


class Details(msgspec.Struct, frozen=True, array_like=True):
    """Which row of which delivery a record is, and what it does with its key: `put` or `delete`."""

    format: int
    destination: str
    partition: str
    edition: int
    ordinal: int
    op: str

    @property
    def version(self) -> Version:
        """The version that the record gives its key."""
        return Version(self.partition, self.edition, self.ordinal)


class Prefix(NamedTuple):
    """What the records of a delivery begin with."""

    text: bytes

    @classmethod
    def of(cls, destination: str, partition: str, edition: int) -> Prefix:
        """The prefix of a delivery."""
        named = msgspec.json.encode((FORMAT, destination, partition, edition))
        return cls(b'{"%b":%b,' % (DETAILS.encode(), named[:-1]))

    def record(self, ordinal: int, op: str, body: bytes) -> bytes:
        """The record of a row, whose body is a JSON object with at least one field."""
        return b'%b%d,"%b"],%b' % (self.text, ordinal, op.encode(), body[1:])


class _Marked(msgspec.Struct):
    details: Details = msgspec.field(name=DETAILS)


_decode = msgspec.json.Decoder(_Marked).decode


def details_of(data: bytes) -> Details | None:
    """What a record says about itself; None if it is no record of a delivery."""
    if not data.startswith(_MARK):
        return None
    try:
        found = _decode(data).details
    except msgspec.DecodeError:
        return None
    return found if found.format == FORMAT and found.op in {PUT, DELETE} else None
