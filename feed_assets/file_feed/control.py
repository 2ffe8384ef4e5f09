"""Records in the control area: where they lie, and finding them.

Here: the keys of records and reading them back. Not here: what is in them (`record`), and writing them
(`staging`, `amending`). A record's key carries the digest of its inputs, so that one flat listing tells for every
update of a feed what it was made from, without reading a single record.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from dataclasses import dataclass

from feed_assets.blackboard import NotFoundError, list_all
from feed_assets.file_feed.errors import UnreadableRecordError
from feed_assets.file_feed.feed import Feed
from feed_assets.file_feed.names import check_update, is_update_name
from feed_assets.file_feed.record import FeedInput, RawInput, Record, inputs_digest

_log = logging.getLogger("feed_assets.file_feed")

RECORDS = "records"
CLAIMS = "claims"


@dataclass(frozen=True, slots=True)
class StoredRecord:
    """A record, and the key and tag under which it was read."""

    record: Record
    key: str
    tag: str


def record_key(feed: Feed, partition: str | None, name: str, inputs: Iterable[FeedInput | RawInput] = ()) -> str:
    """Where the record of an update with these inputs is kept."""
    return f"{feed.control(RECORDS, partition)}{check_update(name)}.{inputs_digest(inputs)}.json"


def read_record(feed: Feed, partition: str | None, name: str) -> Record | None:
    """The record of an update, or None where there is none; one that cannot be read is logged, and is none."""
    key = _key(feed, partition, name)
    return readable_record(feed, key) if key else None


def stored_record(feed: Feed, partition: str | None, name: str) -> StoredRecord | None:
    """The record of an update with its key and tag: one LIST and one GET. Raises UnreadableRecordError."""
    key = _key(feed, partition, name)
    return record_at(feed, key) if key else None


def records(feed: Feed, partition: str | None = None, *, newest: int | None = None) -> list[Record]:
    """The records of a partition, newest first, of at most `newest` updates; as `read_record` for each of them."""
    found = (readable_record(feed, key) for key in [*record_keys(feed, partition).values()][:newest])
    return [record for record in found if record is not None]


def record_keys(feed: Feed, partition: str | None) -> dict[str, str]:
    """Where the records of a partition lie, by update, the newest first: one listing."""
    folder = feed.control(RECORDS, partition)
    keys = [(_parse(entry.key.removeprefix(folder))[0], entry.key) for entry in list_all(feed.blackboard, folder)]
    return {name: key for name, key in reversed(keys) if is_update_name(name)}


def all_record_keys(feed: Feed) -> dict[str | None, dict[str, str]]:
    """The same for all partitions of a feed, in one listing."""
    folder = feed.control(RECORDS)
    keys: dict[str | None, dict[str, str]] = {}
    for entry in list_all(feed.blackboard, folder):
        partition, _, file_name = entry.key.removeprefix(folder).rpartition("/")
        name, _ = _parse(file_name)
        if is_update_name(name):
            keys.setdefault(partition or None, {})[name] = entry.key
    return keys


def record_at(feed: Feed, key: str) -> StoredRecord | None:
    """The record under this key: one GET; None where it is gone. Raises UnreadableRecordError."""
    try:
        content = feed.blackboard.read(key)
    except NotFoundError:
        return None
    return StoredRecord(Record.from_json(content.data, origin=feed.blackboard.uri(key)), key, content.entry.tag)


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


def _key(feed: Feed, partition: str | None, name: str) -> str | None:
    """Where the record of an update lies: one LIST, as the digest in it is not known."""
    folder = feed.control(RECORDS, partition)
    for entry in feed.blackboard.page(folder, after=f"{folder}{check_update(name)}").entries:
        return entry.key if _parse(entry.key.removeprefix(folder))[0] == name else None
    return None


def readable_record(feed: Feed, key: str) -> Record | None:
    """The record under this key; one that cannot be read is logged, and is None."""
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
