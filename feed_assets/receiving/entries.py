"""An accepted request as the journal keeps it: the payload of a record is a header of JSON, and a line for each event.

Here: entries, their bytes, and where a receiver's journal on the blackboard is. Not here: records and media
(`journal`), and who writes and reads (`committing`, `landing_segments`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

import msgspec

from feed_assets.journal.records import frame
from feed_assets.journal.segments import Segments

PREFIX: Final = ".receiving/"
"""Below it, each receiver has the segments of its name."""


class Header(msgspec.Struct, frozen=True):
    """A request: its source, how many records it has that are usable, and why the others are not, by their index.

    `key` identifies the request if its client can repeat it; else it is empty. `content` is a digest of its body then.
    `partner` is who sent it; entries of earlier versions, and of a receiver without tokens, have none.
    """

    source: str
    request_id: str
    accepted: int
    rejected: tuple[tuple[int, str], ...] = ()
    key: str = ""
    content: str = ""
    at: datetime = datetime.min.replace(tzinfo=UTC)
    partner: str | msgspec.UnsetType = msgspec.UNSET


@dataclass(frozen=True, slots=True)
class Entry:
    """A request with its records, each in a line of its own, with its line feed."""

    header: Header
    records: bytes


encode_header = msgspec.json.Encoder().encode
decode_header = msgspec.json.Decoder(Header).decode
"""A header as JSON and back, for the journal and for the answers that the store keeps."""


def framed(entry: Entry) -> bytes:
    """The entry as a journal holds it."""
    return frame(b"\n".join((encode_header(entry.header), entry.records)))


def entries(journal: Segments, segment: str) -> Iterator[Entry]:
    """The entries of a sealed segment, in order; none if it does not exist. Raises as `Segments.records`."""
    for payload in journal.records(segment):
        header, _, records = payload.partition(b"\n")
        yield Entry(decode_header(header), records)
