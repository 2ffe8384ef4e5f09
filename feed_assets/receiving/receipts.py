"""Which lines of a landed file are which request's, so that each record can be followed to its request and back.

Here: receipts, which a lander writes beside the raw data once the file of a segment has landed, and finding them by a
file or by the id of a request. Not here: the file (`landing_segments`), and what people see (`operations.requests`).

A receipt never changes: whoever lands a segment again writes the same one.
"""

from __future__ import annotations

import gzip
import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from typing import Final

import msgspec

from feed_assets.blackboard.listing import list_all
from feed_assets.blackboard.port import AlreadyExistsError, Blackboard, NotFoundError
from feed_assets.journal.segments import MEDIUM_ERRORS, Segments
from feed_assets.receiving.entries import Header, entries
from feed_assets.sources.layout import RAW

REQUESTS: Final = f"{RAW}.requests/"
ENDING: Final = ".jsonl"
"""The ending of a segment's file."""
_FILES, _IDS = f"{REQUESTS}files/", f"{REQUESTS}ids/"
SEGMENT_FILE: Final = r"\d{8}T\d{12}-[0-9a-f]{16}\.jsonl"
"""The names of segments' files, as an expression for Python and DuckDB."""
_ID: Final = re.compile(r"(.*)-(\d{1,18})")
_DIGITS: Final = 18


class Receipt(msgspec.Struct, frozen=True, omit_defaults=True):
    """A request: its records are the lines of the file from `first_line` on, one each, in their order."""

    request_id: str
    at: datetime
    first_line: int
    accepted: int
    partner: str = ""
    rejected: tuple[tuple[int, str], ...] = ()

    @property
    def records(self) -> int:
        """How many records, and lines, the request has."""
        return self.accepted + len(self.rejected)


class Receipts(msgspec.Struct, frozen=True):
    """The requests whose records are in a file of a source, in their order. `landing` is the digest of its landings."""

    source: str
    file: str
    landing: str
    requests: tuple[Receipt, ...]

    def of_line(self, line: int) -> tuple[Receipt, int] | None:
        """The request of a line, and the record's index in it, from 0; None if there is no such line."""
        position = bisect_right(self.requests, line, key=lambda each: each.first_line) - 1
        if position < 0:
            return None
        found = self.requests[position]
        index = line - found.first_line
        return (found, index) if index < found.records else None


@dataclass(frozen=True, slots=True)
class Followed:
    """A request, and the file with its records."""

    source: str
    file: str
    landing: str
    receipt: Receipt


def receipt(header: Header, first_line: int) -> Receipt:
    """The receipt of a request whose records begin at this line."""
    return Receipt(header.request_id, header.at, first_line, header.accepted, header.partner or "", header.rejected)


def write_receipts(blackboard: Blackboard, receipts: Receipts) -> None:
    """Write the receipts of a file, so that `requests_of` and `find_request` find them. It can be repeated."""
    with suppress(AlreadyExistsError):
        blackboard.create(_file_key(receipts.source, receipts.file), gzip.compress(_encode(receipts), mtime=0))
    segment = receipts.file.removesuffix(ENDING)
    for receiver, first, last in _ranges(each.request_id for each in receipts.requests):
        name = f"{last:0{_DIGITS}}-{first:0{_DIGITS}}/{receipts.source}/{segment}"
        with suppress(AlreadyExistsError):
            blackboard.create(f"{_IDS}{receiver}/{name}", b"")


def requests_of(blackboard: Blackboard, source: str, file: str) -> Receipts | None:
    """The requests in a file of this name; None if it is no file of pushed events, or one of an earlier version."""
    if not re.fullmatch(SEGMENT_FILE, file, re.ASCII):
        return None
    try:
        return _decode(gzip.decompress(blackboard.read(_file_key(source, file)).data))
    except NotFoundError:
        return None


def find_request(blackboard: Blackboard, request_id: str) -> Followed | None:
    """The request of this id, None if none of its records has landed. A listing or two, and a read or two."""
    if (parts := _parts(request_id)) is None:
        return None
    receiver, number = parts
    prefix = f"{_IDS}{receiver}/"
    for entry in list_all(blackboard, prefix, after=f"{prefix}{number:0{_DIGITS}}"):
        numbers, _, rest = entry.key.removeprefix(prefix).partition("/")
        if int(numbers.partition("-")[2]) > number:
            continue
        source, _, segment = rest.rpartition("/")
        found = requests_of(blackboard, source, f"{segment}{ENDING}")
        for each in found.requests if found else ():
            if found and each.request_id == request_id:
                return Followed(found.source, found.file, found.landing, each)
    return None


def find_waiting(journal: Segments, request_id: str) -> Header | None:
    """The request of this id in the segments of a journal, None if there is none. Reads all of the journal."""
    for segment in journal.segments():
        with suppress(*MEDIUM_ERRORS):  # a segment to which its receiver writes now, or that it has just removed
            for entry in entries(journal, segment):
                if entry.header.request_id == request_id:
                    return entry.header
    return None


def _ranges(request_ids: Iterable[str]) -> Iterator[tuple[str, int, int]]:
    """Each receiver among these requests, with the lowest and the highest number of its requests."""
    numbers: dict[str, list[int]] = {}
    for each in request_ids:
        if (parts := _parts(each)) is not None:
            numbers.setdefault(parts[0], []).append(parts[1])
    for receiver, found in numbers.items():
        yield receiver, min(found), max(found)


def _parts(request_id: str) -> tuple[str, int] | None:
    """The receiver and the number of which a request's id is made; None for another text."""
    match = _ID.fullmatch(request_id)
    return (match[1], int(match[2])) if match and re.fullmatch(r"\w+", match[1], re.ASCII) else None


def _file_key(source: str, file: str) -> str:
    return f"{_FILES}{source}/{file}.gz"


_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(Receipts).decode
