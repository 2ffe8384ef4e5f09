"""Records in the control area: their keys, and reading them.

Not here: their content (`record`), and writing them (`staging`, `amending`). A record's key contains the digest of its
inputs, so one flat listing shows the inputs digest of every update of a feed without reading a record.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from datetime import datetime

from feed_assets.blackboard.listing import Wanted, list_all, list_jumping
from feed_assets.blackboard.port import NotFoundError
from feed_assets.file_feed.errors import UnreadableRecordError
from feed_assets.file_feed.feed import Feed
from feed_assets.file_feed.names import check_update, is_update_name
from feed_assets.file_feed.record import Record

_log = logging.getLogger("feed_assets.file_feed")

RECORDS = "records"
CLAIMS = "claims"


@dataclass(frozen=True, slots=True)
class StoredRecord:
    """A record, its key and tag when it was read, and when it was written by the store's clock, if known."""

    record: Record
    key: str
    tag: str
    modified: datetime | None = None


def record_key(feed: Feed, partition: str | None, name: str, digest: str) -> str:
    """The key of the record of an update whose inputs have this `inputs_digest`."""
    return f"{feed.control(RECORDS, partition)}{check_update(name)}.{digest}.json"


def read_record(feed: Feed, partition: str | None, name: str) -> Record | None:
    """The record of an update; None if there is none, or, with a logged warning, if it cannot be read."""
    key = _key(feed, partition, name)
    return readable_record(feed, key) if key else None


def stored_record(feed: Feed, partition: str | None, name: str) -> StoredRecord | None:
    """The record of an update with its key and tag, or None: one LIST and one GET. Raises UnreadableRecordError."""
    key = _key(feed, partition, name)
    return record_at(feed, key) if key else None


def records(feed: Feed, partition: str | None = None, *, newest: int | None = None) -> list[Record]:
    """The records of at most `newest` updates of a partition, newest first. Unreadable ones are logged and left out."""
    found = (readable_record(feed, key) for key in [*record_keys(feed, partition).values()][:newest])
    return [record for record in found if record is not None]


def record_keys(feed: Feed, partition: str | None) -> dict[str, str]:
    """The keys of a partition's records by update, the newest first: one listing."""
    folder = feed.control(RECORDS, partition)
    keys = [(_parse(entry.key.removeprefix(folder))[0], entry.key) for entry in list_all(feed.blackboard, folder)]
    return {name: key for name, key in reversed(keys) if is_update_name(name)}


def record_at(feed: Feed, key: str) -> StoredRecord | None:
    """The record under this key, None if it is gone: one GET. Raises UnreadableRecordError."""
    try:
        content = feed.blackboard.read(key)
    except NotFoundError:
        return None
    record = Record.from_json(content.data, origin=feed.blackboard.uri(key))
    return StoredRecord(record, key, content.entry.tag, content.entry.modified)


def recorded_digests(
    feed: Feed, *, first: str = "", last: str | None = None, only: Collection[str] | None = None
) -> dict[str, dict[str, str]]:
    """The digests that `recorded` yields, as one dictionary."""
    digests: dict[str, dict[str, str]] = {}
    for partition, found in recorded(feed, first=first, last=last, only=only):
        digests.setdefault(partition, {}).update(found)
    return digests


def recorded(
    feed: Feed, *, first: str = "", last: str | None = None, only: Collection[str] | None = None
) -> Iterator[tuple[str, dict[str, str]]]:
    """The inputs digest of every update that has a record, partition by partition from `first` to `last`.

    `only` leaves all other partitions out, and jumps over them. One listing of the control area, page by page, in the
    order of its keys (`a.b/` is before `a/`); reads no record. Updates of an unpartitioned feed are under "".
    """
    folder = feed.control(RECORDS)
    wanted = Wanted(first, last, only)
    current, digests = "", dict[str, str]()
    for entry in list_jumping(feed.blackboard, folder, wanted.jump, after=wanted.start):
        rest = entry.key.removeprefix(folder)
        partition, file_name = rest.split("/", 1) if "/" in rest else ("", rest)
        # Only folders sort like this; a file beside them does not.
        if partition and wanted.is_past(partition):
            break
        name, digest = _parse(file_name)
        if not is_update_name(name) or (partition and partition not in wanted):
            continue
        if partition != current and digests:
            yield current, digests
            digests = {}
        current = partition
        digests[name] = digest
    if digests:
        yield current, digests


def _key(feed: Feed, partition: str | None, name: str) -> str | None:
    """The key of an update's record, or None: one LIST, as the digest in the key is not known."""
    folder = feed.control(RECORDS, partition)
    for entry in feed.blackboard.page(folder, after=f"{folder}{check_update(name)}").entries:
        return entry.key if _parse(entry.key.removeprefix(folder))[0] == name else None
    return None


def readable_record(feed: Feed, key: str) -> Record | None:
    """The record under this key; None if it is gone, or, with a logged warning, if it cannot be read."""
    try:
        stored = record_at(feed, key)
    except UnreadableRecordError as error:
        _log.warning("%s", error)
        return None
    return stored.record if stored else None


def _parse(file_name: str) -> tuple[str, str]:
    """The update and the digest in `<update>.<digest>.json`."""
    stem = file_name.removesuffix(".json")
    name, _, digest = stem.rpartition(".")
    return name, digest
