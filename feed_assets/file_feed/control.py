"""Records in the control area: where they lie, and finding them.

Here: the keys of records and reading them back. Not here: what is in them (`record`), and writing them
(`publishing`). A record's key carries the digest of its inputs, so that one flat listing tells for every
update of a feed what it was made from, without reading a single record.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import dataclass

from feed_assets.blackboard import Blackboard, Entry, NotFoundError
from feed_assets.file_feed.errors import UnreadableRecordError
from feed_assets.file_feed.feed import Feed
from feed_assets.file_feed.names import check_update, is_update_name
from feed_assets.file_feed.record import Record, inputs_digest

_log = logging.getLogger("feed_assets.file_feed")

RECORDS = "records"
CLAIMS = "claims"


@dataclass(frozen=True, slots=True)
class StoredRecord:
    """A record, and the key and tag under which it was read."""

    record: Record
    key: str
    tag: str


def record_key(feed: Feed, record: Record) -> str:
    """Where a record is kept."""
    folder = feed.control(RECORDS, record.partition)
    return f"{folder}{record.update}.{inputs_digest(record.facts.inputs)}.json"


def read_record(feed: Feed, partition: str | None, name: str) -> Record | None:
    """The record of an update, or None where there is none; one that cannot be read is logged, and is none."""
    key = _key(feed, partition, name)
    return _readable(feed, key) if key else None


def stored_record(feed: Feed, partition: str | None, name: str) -> StoredRecord | None:
    """The record of an update with its key and tag: one LIST and one GET. Raises UnreadableRecordError."""
    key = _key(feed, partition, name)
    return _read(feed, key) if key else None


def records(feed: Feed, partition: str | None = None, *, newest: int | None = None) -> list[Record]:
    """The records of a partition, newest first, of at most `newest` updates; as `read_record` for each of them."""
    found = (_readable(feed, key) for key in _keys(feed, partition)[:newest])
    return [record for record in found if record is not None]


def stored_records(feed: Feed, partition: str | None, *, newest: int | None = None) -> Iterator[StoredRecord]:
    """The same with their keys and tags, read one by one as they are asked for. Raises UnreadableRecordError."""
    for key in _keys(feed, partition)[:newest]:
        stored = _read(feed, key)
        if stored is not None:
            yield stored


def recorded_digests(feed: Feed, *, first: str = "", last: str | None = None) -> dict[str, dict[str, str]]:
    """For each partition from `first` to `last`, the inputs digest of every update that has a record.

    A flat listing of the control area, in the order of its keys (`a.b/` is before `a/`); no record is read. Updates of
    an unpartitioned feed are under "".
    """
    folder = feed.control(RECORDS)
    digests: dict[str, dict[str, str]] = {}
    for entry in list_all(feed.blackboard, folder, after=f"{folder}{first}" if first else ""):
        rest = entry.key.removeprefix(folder)
        head, _, tail = rest.partition("/")
        # Compared as folders, as a listing shows `a.b/` before `a/`; a file that lies beside them is in no such order.
        if last is not None and "/" in rest and f"{head}/" > f"{last}/":
            break
        partition, file_name = (head, tail) if "/" in rest else ("", rest)
        name, digest = _parse(file_name)
        if is_update_name(name) and (not partition or f"{partition}/" >= f"{first}/"):
            digests.setdefault(partition, {})[name] = digest
    return digests


def list_all(blackboard: Blackboard, prefix: str, *, after: str = "") -> Iterator[Entry]:
    """All objects below a prefix, page by page, as they are asked for."""
    while True:
        page = blackboard.page(prefix, after=after)
        yield from page.entries
        if page.next_after is None:
            return
        after = page.next_after


def _keys(feed: Feed, partition: str | None) -> list[str]:
    """Where the records of a partition lie, the newest first."""
    folder = feed.control(RECORDS, partition)
    keys = (entry.key for entry in list_all(feed.blackboard, folder))
    return [key for key in keys if is_update_name(_parse(key.removeprefix(folder))[0])][::-1]


def _key(feed: Feed, partition: str | None, name: str) -> str | None:
    """Where the record of an update lies: one LIST, as the digest in it is not known."""
    folder = feed.control(RECORDS, partition)
    for entry in feed.blackboard.page(folder, after=f"{folder}{check_update(name)}").entries:
        return entry.key if _parse(entry.key.removeprefix(folder))[0] == name else None
    return None


def _readable(feed: Feed, key: str) -> Record | None:
    try:
        stored = _read(feed, key)
    except UnreadableRecordError as error:
        _log.warning("%s", error)
        return None
    return stored.record if stored else None


def _parse(file_name: str) -> tuple[str, str]:
    """The update and the digest in `<update>.<digest>.json`."""
    stem = file_name.removesuffix(".json")
    name, _, digest = stem.rpartition(".")
    return name, digest


def _read(feed: Feed, key: str) -> StoredRecord | None:
    try:
        content = feed.blackboard.read(key)
    except NotFoundError:
        return None
    return StoredRecord(Record.from_json(content.data, origin=feed.blackboard.uri(key)), key, content.entry.tag)
