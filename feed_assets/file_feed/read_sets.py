"""Large read sets: the raw files that an update read, listed beside its record.

Here: which read sets a record keeps as totals only, and where their files are listed. Not here: the values (`record`).
Every tick and check reads records, so they stay small. The listing is one compressed object for each update, read only
for single files. If it is lost, only the names of these files are lost.
"""

from __future__ import annotations

import gzip
import json
import logging
import zlib
from collections.abc import Sequence
from dataclasses import astuple, replace
from io import BytesIO

from feed_assets.blackboard.port import NotFoundError
from feed_assets.file_feed.feed import Feed
from feed_assets.file_feed.names import check_update
from feed_assets.file_feed.record import FeedInput, RawFile, RawInput

_log = logging.getLogger("feed_assets.file_feed")
_Inputs = Sequence[FeedInput | RawInput]

READ_SETS = "read-sets"
MOST_BYTES = 2**26
"""The longest listing that is read, unpacked: half a million raw files of a day. A few MB of gzip can be many GB."""
INLINE_FILES = 100
"""How many raw files a record itself lists at most."""


def listing_key(feed: Feed, partition: str | None, name: str) -> str:
    """The key of the listing of an update."""
    return f"{feed.control(READ_SETS, partition)}{check_update(name)}.json.gz"


def summarized(inputs: _Inputs) -> tuple[tuple[FeedInput | RawInput, ...], bytes | None]:
    """The inputs as a record keeps them, and the listing to keep beside it: None if the record lists all files."""
    raw = [each for each in inputs if isinstance(each, RawInput)]
    if sum(len(each.files) for each in raw) <= INLINE_FILES:
        return tuple(inputs), None
    kept = (replace(each, files=(), listed=each.hours) if isinstance(each, RawInput) else each for each in inputs)
    files = [[each.source, each.partition, [list(astuple(file)) for file in each.files]] for each in raw]
    # mtime=0: the same bytes for the same read sets.
    return tuple(kept), gzip.compress(json.dumps(files, separators=(",", ":")).encode(), mtime=0)


def in_full(feed: Feed, partition: str | None, name: str, read: RawInput) -> RawInput:
    """A read set of an update, with its files: one GET if its record has only their totals.

    If the listing is gone or damaged, it logs a warning and returns the totals.
    """
    if not read.listed:
        return read
    key = listing_key(feed, partition, name)
    try:
        listing = json.loads(_unpacked(feed.blackboard.read(key, limit=MOST_BYTES).data))
        files = {(source, day): [RawFile(*file) for file in of] for source, day, of in listing}
        full = replace(read, files=tuple(files[read.source, read.partition]), listed={})
        if full.hours == read.listed:
            return full
        problem = "it has other files"
    except (NotFoundError, OSError, EOFError, zlib.error, ValueError, KeyError, TypeError) as error:
        problem = str(error) or type(error).__name__
    _log.warning(
        "%s cannot be used (%s). Which raw files the update read is lost; their number, bytes and digests by hour are "
        "in its record. A small change of them now counts as files replaced.", feed.blackboard.uri(key), problem
    )  # fmt: skip
    return read


def _unpacked(data: bytes) -> bytes:
    """The content of a file of gzip. Raises OSError, EOFError and zlib.error; ValueError if it is longer than read."""
    with gzip.open(BytesIO(data)) as file:
        content = file.read(MOST_BYTES + 1)
    if len(content) > MOST_BYTES:
        raise ValueError(f"it has more than {MOST_BYTES:,} bytes")
    return content
