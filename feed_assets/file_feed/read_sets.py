"""Large read sets: the raw files that an update read, in a listing beside its record.

Here: which read sets a record keeps only in totals, and where their files are. Not here: the values (`record`), and who
needs the files. A record is read by every tick and every check, so it stays small; the listing, one compressed object
for each update, is read only where single files matter. Losing it loses which files these were, and nothing else.
"""

from __future__ import annotations

import gzip
import json
import logging
import zlib
from collections.abc import Sequence
from typing import TypeVar

from feed_assets.blackboard import NotFoundError
from feed_assets.file_feed.feed import Feed
from feed_assets.file_feed.names import check_update
from feed_assets.file_feed.record import FeedInput, Input, RawFile, RawInput, RawTotals

_log = logging.getLogger("feed_assets.file_feed")
_Any = TypeVar("_Any", bound=Input)

READ_SETS = "read-sets"
INLINE_FILES = 100
"""How many raw files a record names itself."""


def listing_key(feed: Feed, partition: str | None, name: str) -> str:
    """Where the listing of an update is kept."""
    return f"{feed.control(READ_SETS, partition)}{check_update(name)}.json.gz"


def summarized(inputs: Sequence[Input]) -> tuple[tuple[Input, ...], bytes | None]:
    """The inputs as a record keeps them, and the listing to keep beside it; None where the record names all files."""
    raw = [each for each in inputs if isinstance(each, RawInput)]
    if sum(each.count for each in raw) <= INLINE_FILES:
        return tuple(inputs), None
    kept = (
        RawTotals(each.source, each.partition, each.hours, each.context) if isinstance(each, RawInput) else each
        for each in inputs
    )
    content = [
        [each.source, each.partition, each.context, [[file.path, file.size, file.tag] for file in each.files]]
        for each in raw
    ]
    # No time in its header: the same bytes for the same read sets.
    return tuple(kept), gzip.compress(json.dumps(content, separators=(",", ":")).encode(), mtime=0)


def in_full(feed: Feed, partition: str | None, name: str, inputs: Sequence[_Any]) -> tuple[_Any | RawInput, ...]:
    """These inputs of an update, with the files of those of which the record has totals: one GET if there are any.

    Where the listing is gone or damaged, the totals stay, and a warning says what is lost.
    """
    if not any(isinstance(each, RawTotals) for each in inputs):
        return tuple(inputs)
    key = listing_key(feed, partition, name)
    listed: list[RawInput] = []
    try:
        for source, day, context, files in json.loads(gzip.decompress(feed.blackboard.read(key).data)):
            listed.append(RawInput(source, day, tuple(RawFile(*file) for file in files), context))
    except (NotFoundError, OSError, EOFError, zlib.error, ValueError, TypeError) as error:
        _log.warning(
            "%s cannot be read (%s). Which raw files the update read is lost; their number, bytes and digests by hour "
            "are in its record. A small change of them now counts as files replaced.", feed.blackboard.uri(key), error
        )  # fmt: skip
        return tuple(inputs)
    files_of = {(each.source, each.partition, each.context): each for each in listed}
    found: list[_Any | RawInput] = []
    for each in inputs:
        own = None if isinstance(each, FeedInput) else files_of.get((each.source, each.partition, each.context))
        found.append(own if own is not None and isinstance(each, RawTotals) and own.hours == each.hours else each)
    return tuple(found)
