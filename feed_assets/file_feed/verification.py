"""Everything in a feed that is not as it should be.

Here: finding faults, by comparing what is there with the protocol and with the records. Not here: the states that an
update may properly be in (`states`), and mending anything. Reading never depends on this: a reader passes over all that
is not valid.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from feed_assets.blackboard import NotFoundError, list_all
from feed_assets.file_feed.control import CLAIMS, RECORDS
from feed_assets.file_feed.errors import UnreadableRecordError
from feed_assets.file_feed.feed import CONTROL, Feed
from feed_assets.file_feed.holds import own_control_found, pins, tags
from feed_assets.file_feed.manifest import INVALIDATED, is_removal, parse_manifest
from feed_assets.file_feed.names import begun, has_update_shape, is_update_name
from feed_assets.file_feed.read_sets import READ_SETS
from feed_assets.file_feed.reading import Found, is_valid
from feed_assets.file_feed.record import Record, has_listing
from feed_assets.file_feed.states import manifest_content
from feed_assets.file_feed.wording import counted

WRITING = timedelta(days=1)
"""How long a claim may stand without any file before it counts as forgotten."""


@dataclass(frozen=True, slots=True)
class Finding:
    """A fault: its kind (a word or two for programs), where it is, and a sentence for people."""

    kind: str
    partition: str | None
    update: str | None
    message: str


_Place = tuple[str | None, str]


@dataclass(slots=True)
class _There:
    """Everything in a feed outside its control area, sorted by where it is."""

    updates: dict[_Place, Found] = field(default_factory=dict)
    markers: set[_Place] = field(default_factory=set)
    odd: dict[_Place, str] = field(default_factory=dict)


def verify(feed: Feed, *, now: datetime) -> list[Finding]:
    """All faults of a feed, ordered by partition and update. Lists all of it, and reads every record and tag.

    Raises FeedError where a tag is damaged.
    """
    there = _sort(feed)
    records, findings = _records(feed)
    findings += [*_names(feed, there), *_levels(feed, there), *_orphans(feed, there, now)]
    for place, found in there.updates.items():
        record = records.get(place)
        findings += _of_update(place, found, marked=place in there.markers, now=now)
        added = _added_to_invalidate(feed, found, record)
        findings += _of_manifest(feed, place, found, added)
        findings += _against_record(feed, place, found, record, added) if record else ()
    return sorted(findings, key=lambda each: (each.partition or "", each.update or "", each.kind, each.message))


def _sort(feed: Feed) -> _There:
    there = _There()
    for entry in list_all(feed.blackboard, feed.root):
        rest = entry.key.removeprefix(feed.root)
        if rest.startswith(f"{CONTROL}/"):
            continue
        head, _, tail = rest.partition("/")
        partition, name, path = (None, head, tail) if has_update_shape(head) else (head, *_cut(tail))
        place = (partition, name)
        if not name and rest.endswith("/"):
            continue  # the directory marker of a partition, which no reader takes for a file
        if not is_update_name(name) or not (path or rest.endswith("/")):
            there.odd.setdefault(place if name else (None, head), entry.key)
            continue
        there.updates.setdefault(place, Found(name)).add(path or "/", entry)
        if rest.endswith("/"):
            there.markers.add(place)
    return there


def _cut(tail: str) -> tuple[str, str]:
    name, _, path = tail.partition("/")
    return name, path


def _names(feed: Feed, there: _There) -> Iterator[Finding]:
    partitions = {partition for partition, _ in there.updates}
    for (partition, name), key in there.odd.items():
        if partition is not None and name == CONTROL and partition in partitions:
            yield Finding("control area", partition, None, own_control_found(feed, partition))
        elif has_update_shape(name) and not is_update_name(name):
            yield Finding(
                "no such second", partition, name, f"{name} names a second that does not exist: it is never read"
            )
        else:
            yield Finding("odd name", partition, name, f"{key} is no part of an update: it is never read")


def _levels(feed: Feed, there: _There) -> Iterator[Finding]:
    if len({partition is None for partition, _ in there.updates}) > 1:
        message = f"{feed.uri} holds updates and partitions at one level: move one of them elsewhere"
        yield Finding("mixed levels", None, None, message)


def _of_update(place: _Place, found: Found, *, marked: bool, now: datetime) -> Iterator[Finding]:
    def finding(kind: str, message: str) -> Finding:
        return Finding(kind, *place, message)

    if begun(found.name) > now:
        yield finding("future", "it is dated in the future: is its writer's clock ahead?")
    if marked:
        yield finding("directory marker", "it has a directory marker, which a plain reader may count as a file")
    for file in found.files:
        if fault := _leftover(file.path):
            yield finding("leftover", f"{file.path} is {fault}; it counts as a file all the same")


def _added_to_invalidate(feed: Feed, found: Found, record: Record | None) -> frozenset[str]:
    """The empty files that somebody added to a whole update, which is how any program may take it out of force."""
    stated = None if is_valid(feed, found) else parse_manifest(manifest_content(feed, found))
    recorded = {file.path for file in record.files} if record and record.token else set()
    new = [file for file in found.files if file.path not in recorded and _leftover(file.path) is None]
    empty = [file.path for file in new if not file.size]
    added = len(found.files) - stated if stated is not None else 0
    return frozenset(empty) if 0 < added <= len(empty) else frozenset()


def _of_manifest(feed: Feed, place: _Place, found: Found, added: frozenset[str]) -> Iterator[Finding]:
    if found.manifest is None or is_valid(feed, found):
        return
    if added:
        yield Finding("invalidated", *place, f"somebody took it out of force by adding {', '.join(sorted(added))}")
        return
    content = manifest_content(feed, found)
    if content == INVALIDATED:
        return
    if is_removal(content):
        yield Finding("removal", *place, "retention is removing it; unless it is at work now, run it again")
    elif (stated := parse_manifest(content)) is None:
        yield Finding("manifest", *place, f"its manifest is not a number of files: {content[:20]!r}")
    else:
        message = f"its manifest states {counted(stated, 'file')}, and there are {len(found.files)}: it is not read"
        yield Finding("torn", *place, message)


def _leftover(path: str) -> str | None:
    *folders, name = path.split("/")
    if "_temporary" in folders:
        return "of a write that did not end"
    if name.endswith(".crc"):
        return "a checksum that a file system client left behind"
    return "in a folder below the update" if folders else None


def _orphans(feed: Feed, there: _There, now: datetime) -> Iterator[Finding]:
    """Control objects without an update; claims and records only once it should have been written."""
    for area, what in ((CLAIMS, "claims"), (RECORDS, "records"), (READ_SETS, "lists what was read for")):
        for place, key in _controlled(feed, area):
            if place not in there.updates and begun(place[1]) + WRITING < now:
                yield Finding("orphan", *place, f"{key} {what} an update that is not there")
    for tag in tags(feed):
        if (tag.partition, tag.update) not in there.updates:
            yield Finding("orphan", tag.partition, tag.update, f"tag {tag.name} names an update that is not there")
    for pin in pins(feed, now=now):  # the next retention removes those that have ended
        if (pin.partition, pin.update) not in there.updates:
            yield Finding("orphan", pin.partition, pin.update, f"{pin.holder} pins an update that is not there")


def _records(feed: Feed) -> tuple[dict[_Place, Record], list[Finding]]:
    """The records that can be read, and a finding for each that cannot, or whose listing of raw files is gone."""
    readable, findings = {}, []
    for place, key in _controlled(feed, RECORDS):
        try:
            readable[place] = Record.from_json(feed.blackboard.read(key).data, origin=feed.blackboard.uri(key))
        except UnreadableRecordError as error:
            findings.append(Finding("record", *place, str(error)))
        except NotFoundError:
            continue  # retention removed it since it was listed
    # After the records, as a listing is written before its record.
    listings = {place for place, _ in _controlled(feed, READ_SETS)}
    for place, record in readable.items():
        if place not in listings and has_listing(record.facts.inputs):
            message = "the listing of its raw files is gone: which files it read is lost, their totals are not"
            findings.append(Finding("read set", *place, message))
    return readable, findings


def _controlled(feed: Feed, area: str) -> Iterator[tuple[_Place, str]]:
    folder = feed.control(area)
    for entry in list_all(feed.blackboard, folder):
        partition, _, rest = entry.key.removeprefix(folder).rpartition("/")
        name = ".".join(rest.split(".")[:2])
        if is_update_name(name):
            yield (partition or None, name), entry.key


def _against_record(
    feed: Feed, place: _Place, found: Found, record: Record, added: frozenset[str]
) -> Iterator[Finding]:
    if record.state in {"rejected", "invalidated"} and is_valid(feed, found):
        message = f"readers take it for valid, and its record says {record.state} ({record.history[-1].reason})"
        yield Finding("in force", *place, f"{message}: invalidate it, or publish a new update")
    if not record.token:
        return  # made only to tell why somebody else's update was invalidated: it names no files
    recorded = {file.path: file for file in record.files}
    stored = {file.path: file for file in found.files if file.path not in added}
    rewritten = []
    for path in sorted(recorded.keys() | stored.keys()):
        was, now = recorded.get(path), stored.get(path)
        if now is None:
            yield Finding("missing file", *place, f"{path} is recorded and is not there")
        elif was is None:
            yield Finding("extra file", *place, f"{path} is there and is not recorded")
        elif was.size != now.size:
            yield Finding("changed file", *place, f"{path} had {was.size} bytes and has {now.size}")
        elif was.tag != now.tag:
            rewritten.append(path)
    if rewritten and len(rewritten) == len(recorded) and not _tells_content(feed, record):
        # A copy of the base has other tags throughout, and the same sizes.
        yield Finding("copied", *place, "its files have the recorded sizes and other tags: a copy, or written anew")
        return
    for path in rewritten:
        yield Finding("changed file", *place, f"{path} was written anew since it was recorded: its tag differs")


def _tells_content(feed: Feed, record: Record) -> bool:
    """Whether equal contents have equal tags on this store: not on a disk, nor for what was uploaded in parts."""
    return feed.blackboard.tag_of(b"") is not None and not any("-" in file.tag for file in record.files)
