"""Finding faults in a feed, by comparing storage with the protocol and with the records.

Not here: the regular states of updates (`states`), and repairs. Reading never depends on this: readers ignore every
update that is not valid.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from feed_assets.blackboard.contents import digests
from feed_assets.blackboard.location import outside
from feed_assets.blackboard.port import NotFoundError
from feed_assets.file_feed.contents import Contents, contents
from feed_assets.file_feed.control import CLAIMS, RECORDS, record_at
from feed_assets.file_feed.errors import UnreadableRecordError
from feed_assets.file_feed.feed import CONTROL, Feed, File
from feed_assets.file_feed.holds import Pin, Tag, own_control_found, pins, tags
from feed_assets.file_feed.manifest import INVALIDATED, is_removal, manifest, parse_manifest
from feed_assets.file_feed.names import begun, has_update_shape, is_hidden, is_update_name
from feed_assets.file_feed.read_sets import READ_SETS, listing_key
from feed_assets.file_feed.reading import Found, is_valid
from feed_assets.file_feed.record import Record, has_listing
from feed_assets.file_feed.start_objects import StartObject, start_objects
from feed_assets.file_feed.states import manifest_content
from feed_assets.file_feed.wording import counted

WRITING = timedelta(days=1)
"""How long a claim may stand without files before it counts as forgotten."""


@dataclass(frozen=True, slots=True)
class Finding:
    """A fault: its kind (a word or two, for programs), where it is, and a sentence for people."""

    kind: str
    partition: str | None
    update: str | None
    message: str


_Place = tuple[str | None, str]


def verify(feed: Feed, *, now: datetime, within: str | None = None) -> list[Finding]:
    """All faults of a feed, or of the partition `within`, ordered by partition and update.

    One pass over the listings (see `contents`); reads every record and tag, and on a disk every file whose content is
    on record. Raises FeedError if a tag is damaged.
    """
    findings = _findings(feed, within, now)
    return sorted(findings, key=lambda each: (each.partition or "", each.update or "", each.kind, each.message))


def _findings(feed: Feed, within: str | None, now: datetime) -> Iterator[Finding]:
    held: dict[str | None, list[Tag | Pin]] = {}
    holds: list[Tag | Pin] = [*tags(feed, within), *pins(feed, within, now=now)]  # retention removes the ended pins
    for hold in holds:
        held.setdefault(hold.partition, []).append(hold)
    started: dict[str | None, list[StartObject]] = {}
    for each in start_objects(feed, within):
        started.setdefault(each.partition, []).append(each)
    levels = set()
    for listed in contents(feed, within=within, areas=(CLAIMS, RECORDS, READ_SETS), mixed=True):
        if listed.updates or listed.marked:
            levels.add(listed.partition is None)
        yield from _of_partition(feed, listed, held.pop(listed.partition, []), now)
        yield from _of_starts(listed, started.pop(listed.partition, []), now)
    for partition, left in held.items():
        yield from _orphaned_holds(Contents(partition), left)
    for partition, objects in started.items():
        yield from _of_starts(Contents(partition), objects, now)
    if len(levels) > 1:
        message = f"{feed.uri} holds updates and partitions at one level: move one of them elsewhere"
        yield Finding("mixed levels", None, None, message)


def _of_partition(feed: Feed, listed: Contents, holds: Iterable[Tag | Pin], now: datetime) -> Iterator[Finding]:
    linked = _linked(feed, listed)
    for key, (name, leads_to) in linked.items():
        message = f"{key} is a symbolic link out of the feed's base, to {leads_to}: readers refuse it. Remove it"
        yield Finding("link", listed.partition, name, message)
    yield from _odd_names(feed, listed)
    yield from _orphans(listed, now)
    yield from _orphaned_holds(listed, holds)
    records: dict[str, Record] = {}
    for name, key in listed.records.items():
        try:
            stored = record_at(feed, key) if key not in linked else None
        except UnreadableRecordError as error:
            yield Finding("record", listed.partition, name, str(error))
            continue
        if stored is not None:  # else retention removed it since it was listed
            records[name] = stored.record
    for name in (each for each, record in records.items() if has_listing(record.facts.inputs)):
        if name not in listed.read_sets and not _has_read_set(feed, listed, name):
            yield Finding(
                "read set", listed.partition, name, "the list of its raw files is gone: their totals are known"
            )
    yield from _of_updates(feed, listed, records, linked.keys(), now)


def _of_updates(
    feed: Feed, listed: Contents, records: Mapping[str, Record], linked: Collection[str], now: datetime
) -> Iterator[Finding]:
    for name in listed.updates.keys() | listed.marked:
        place, found, record = (listed.partition, name), listed.updates.get(name, Found(name)), records.get(name)
        if found.manifest is not None and found.manifest.key in linked:
            continue
        invalid = None if is_valid(feed, found) else manifest_content(feed, found)
        yield from _of_update(place, found, valid=invalid is None, marked=name in listed.marked, now=now)
        added = _added_to_invalidate(found, invalid, record)
        if found.manifest is not None and invalid is not None:
            yield from _of_manifest(place, found, invalid, added, record)
        # The files that retention is removing are no fault.
        if record is not None and not (invalid is not None and is_removal(invalid)):
            yield from _against_record(feed, place, found, record, added)


def _linked(feed: Feed, listed: Contents) -> dict[str, tuple[str, str]]:
    """The keys that symbolic links lead out of the blackboard: the name of the update, and the path it leads to."""
    names = {key: name for area in (listed.claims, listed.records, listed.read_sets) for name, key in area.items()}
    names |= {key: name for name, key in listed.odd.items()}
    for name, found in listed.updates.items():
        prefix = feed.update_prefix(listed.partition, name)
        names |= {f"{prefix}{file.path}": name for file in found.files}
        if found.manifest is not None:
            names[found.manifest.key] = name
    return {key: (names[key], leads_to) for key, leads_to in outside(feed.blackboard, names).items()}


def _has_read_set(feed: Feed, listed: Contents, name: str) -> bool:
    """Whether the listing of raw files exists by now: it may be newer than the listing of its area."""
    try:
        feed.blackboard.read(listing_key(feed, listed.partition, name), limit=1)
    except NotFoundError:
        return False
    return True


def _odd_names(feed: Feed, listed: Contents) -> Iterator[Finding]:
    partition = listed.partition
    for name, key in listed.odd.items():
        if partition is not None and name == CONTROL and listed.updates:
            yield Finding("control area", partition, None, own_control_found(feed, partition))
        elif has_update_shape(name) and not is_update_name(name):
            yield Finding(
                "no such second", partition, name, f"{name} names a second that does not exist: it is never read"
            )
        else:
            yield Finding("odd name", partition, name, f"{key} is no part of an update: it is never read")


def _of_update(place: _Place, found: Found, *, valid: bool, marked: bool, now: datetime) -> Iterator[Finding]:
    def finding(kind: str, message: str) -> Finding:
        return Finding(kind, *place, message)

    if begun(found.name) > now:
        yield finding("future", "it is dated in the future: is its writer's clock ahead?")
    if marked and found.manifest is not None:  # else no reader looks at its files
        yield finding("directory marker", "it has a directory marker, which a plain reader may count as a file")
    for file in found.files:
        if fault := _leftover(file.path):
            yield finding("leftover", f"{file.path} is {fault}; it counts as a file all the same")
        elif valid and is_hidden(file.path):
            yield finding("hidden file", f"Spark skips {file.path} for its name, so jobs refuse to read the update")


def _added_to_invalidate(found: Found, invalid: bytes | None, record: Record | None) -> frozenset[str]:
    """The empty files that were added to a complete update: any program may take it out of force like this.

    `invalid` is the content of its manifest, None if it is valid.
    """
    stated = None if invalid is None else parse_manifest(invalid)
    recorded = {file.path for file in record.files} if record and record.token else set()
    new = [file for file in found.files if file.path not in recorded and _leftover(file.path) is None]
    empty = [file.path for file in new if not file.size]
    added = len(found.files) - stated if stated is not None else 0
    return frozenset(empty) if 0 < added <= len(empty) else frozenset()


def _of_manifest(
    place: _Place, found: Found, content: bytes, added: frozenset[str], record: Record | None
) -> Iterator[Finding]:
    """The findings on the manifest of an update that is not valid."""
    if added:
        yield Finding("invalidated", *place, f"somebody took it out of force by adding {', '.join(sorted(added))}")
        return
    if content == INVALIDATED:
        if record is not None and record.state in {"publishing", "published"}:
            message = "it was taken out of force, and its record does not say why: invalidate it again, with the reason"
            yield Finding("invalidated", *place, message)
        return
    if is_removal(content):
        yield Finding("removal", *place, "retention is removing it; if it is not running now, run it again")
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


def _orphans(listed: Contents, now: datetime) -> Iterator[Finding]:
    """Claims, records and read sets without an update, WRITING after they were begun."""
    read_sets = (listed.read_sets, "lists what was read for")
    for keys, what in ((listed.claims, "claims"), (listed.records, "records"), read_sets):
        for name, key in keys.items():
            if not _has_update(listed, name) and begun(name) + WRITING < now:
                yield Finding("orphan", listed.partition, name, f"{key} {what} an update that is not there")


def _orphaned_holds(listed: Contents, holds: Iterable[Tag | Pin]) -> Iterator[Finding]:
    for hold in holds:
        if not _has_update(listed, hold.update):
            what = f"tag {hold.name} names" if isinstance(hold, Tag) else f"{hold.holder} pins"
            yield Finding("orphan", hold.partition, hold.update, f"{what} an update that is not there")


def _of_starts(listed: Contents, objects: Iterable[StartObject], now: datetime) -> Iterator[Finding]:
    for each in objects:
        if each.update is None:
            message = f"{each.key} is no object of a start: the next update of that start replaces it"
            yield Finding("start", listed.partition, None, message)
        elif not _has_update(listed, each.update) and begun(each.update) + WRITING < now:
            message = f"{each.key} names an update that is not there"
            yield Finding("orphan", listed.partition, each.update, message)


def _has_update(listed: Contents, name: str) -> bool:
    return name in listed.updates or name in listed.marked


def _against_record(
    feed: Feed, place: _Place, found: Found, record: Record, added: frozenset[str]
) -> Iterator[Finding]:
    if record.state in {"rejected", "invalidated"} and is_valid(feed, found):
        message = f"readers take it for valid, and its record says {record.state} ({record.history[-1].reason})"
        yield Finding("in force", *place, f"{message}: invalidate it, or publish a new update")
    if not record.token:
        return  # it only says why an update of another program was invalidated, and names no files
    recorded = {file.path: file for file in record.files}
    stored = {file.path: file for file in found.files if file.path not in added}
    same_size = []
    for path in sorted(recorded.keys() | stored.keys()):
        was, now = recorded.get(path), stored.get(path)
        if now is None:
            yield Finding("missing file", *place, f"{path} is recorded and is not there")
        elif was is None:
            yield Finding("extra file", *place, f"{path} is there and is not recorded")
        elif was.size != now.size:
            yield Finding("changed file", *place, f"{path} had {was.size} bytes and has {now.size}")
        else:
            same_size.append((was, now))
    yield from _of_contents(feed, place, found, record, same_size)


def _of_contents(
    feed: Feed, place: _Place, found: Found, record: Record, files: Sequence[tuple[File, File]]
) -> Iterator[Finding]:
    """Compare files as they were recorded with those that are there now, of the same size."""
    digests_now = _digests(feed, place, [was.path for was, _ in files if was.digest])
    changed = [was.path for was, _ in files if digests_now.get(was.path, was.digest) != was.digest]
    for path in changed:
        yield Finding("changed file", *place, f"{path} has other content than was recorded, of the same size")
    other_tag = [was.path for was, now in files if was.tag != now.tag and was.path not in changed]
    rewritten = [path for path in other_tag if path not in digests_now]
    if other_tag and len(other_tag) == len(record.files) and not _tells_content(feed, found, record):
        # In a copy of the base all tags differ, and all sizes are equal.
        or_not = ", or written anew" if rewritten else ""
        kept = "sizes" if rewritten else "content"
        yield Finding("copied", *place, f"its files have the recorded {kept} and other tags: a copy{or_not}")
        return
    for path in rewritten:
        yield Finding("changed file", *place, f"{path} was written anew since it was recorded: its tag differs")


def _digests(feed: Feed, place: _Place, paths: list[str]) -> dict[str, str]:
    """The SHA-256 of these files of an update, by path; empty where tags tell the content."""
    prefix = feed.update_prefix(*place)
    found = digests(feed.blackboard, [f"{prefix}{path}" for path in paths])
    return {key.removeprefix(prefix): digest for key, (_, digest) in found.items()}


def _tells_content(feed: Feed, found: Found, record: Record) -> bool:
    """Whether equal contents have equal tags: not on a disk, nor for uploads in parts or objects encrypted with KMS."""
    tag = feed.blackboard.tag_of(manifest(len(record.files)))
    if tag is None or any("-" in file.tag for file in record.files):
        return False
    return found.manifest is None or found.manifest.tag == tag
