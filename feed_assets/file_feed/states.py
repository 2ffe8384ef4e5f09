"""The state of every update of a partition, and why it is in it, for people.

Not here: which update is latest (`reading`; both agree), and faults in a feed (`verification`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from feed_assets.file_feed.contents import contents
from feed_assets.file_feed.control import RECORDS, readable_record, record_keys
from feed_assets.file_feed.feed import Feed
from feed_assets.file_feed.holds import Tag, tags
from feed_assets.file_feed.manifest import INVALIDATED, is_removal, parse_manifest
from feed_assets.file_feed.names import update_name
from feed_assets.file_feed.reading import Found, is_valid, list_updates, manifest_at
from feed_assets.file_feed.record import Record, State
from feed_assets.file_feed.wording import counted

UpdateState = Literal["valid", "incomplete", "staged", "rejected", "invalidated"]


@dataclass(frozen=True, slots=True)
class UpdateStatus:
    """An update: its state and why, its files without the manifest, whether it is the latest, its tags.

    - valid: the plain rule holds.
    - incomplete: being written, given up, or being removed; no record says more.
    - staged: written and recorded; it waits for its audit, or for its manifest after a passed audit.
    - rejected: its audit failed.
    - invalidated: it was published, and is not valid any more.
    """

    name: str
    state: UpdateState
    why: str
    files: int
    bytes: int
    latest: bool
    tags: tuple[str, ...] = ()


def history(
    feed: Feed, partition: str | None = None, *, now: datetime, tagged: Sequence[Tag] | None = None
) -> list[UpdateStatus]:
    """Every update of a partition, newest first. Lists the whole partition, and reads the records of invalid updates.

    Includes updates that have only a record: their files are gone, or were never written. `tagged` are the tags of the
    feed; if it is None, they are read. Raises FeedError if a tag is damaged.
    """
    found = {each.name: each for each in list_updates(feed, partition)}
    known = tags(feed, partition) if tagged is None else tagged
    return _statuses(feed, partition, found, record_keys(feed, partition), known, now)


def histories(
    feed: Feed, *, now: datetime, tagged: Sequence[Tag] = ()
) -> Iterator[tuple[str | None, list[UpdateStatus]]]:
    """The history of every partition, in the order of their keys, in one pass (see `contents`).

    Raises MixedFeedError.
    """
    named: dict[str | None, list[Tag]] = {}
    for tag in tagged:
        named.setdefault(tag.partition, []).append(tag)
    for listed in contents(feed, areas=(RECORDS,)):
        partition_tags = named.get(listed.partition, ())
        if statuses := _statuses(feed, listed.partition, listed.updates, listed.records, partition_tags, now):
            yield listed.partition, statuses


def _statuses(
    feed: Feed,
    partition: str | None,
    found: Mapping[str, Found],
    keys: Mapping[str, str],
    tagged: Iterable[Tag],
    now: datetime,
) -> list[UpdateStatus]:
    named: dict[str, list[str]] = {}
    for tag in tagged:
        if tag.partition == partition:
            named.setdefault(tag.update, []).append(tag.name)
    valid = {name for name, each in found.items() if is_valid(feed, each)}
    newest = max(valid, default=None)
    statuses = []
    for name in sorted({*found, *keys}, reverse=True):
        each = found.get(name, Found(name))
        # For a valid update the listing is enough: its record is not read.
        record = readable_record(feed, keys[name]) if name in keys and name not in valid else None
        if name not in found and record is None:
            continue
        state, why = _state(feed, each, record, valid=name in valid)
        if name in valid and name > update_name(now):
            why = f"{why}; dated in the future"
        size = sum(file.size for file in each.files)
        labels = tuple(sorted(named.get(name, ())))
        statuses.append(UpdateStatus(name, state, why, len(each.files), size, name == newest, labels))
    return statuses


def manifest_content(feed: Feed, found: Found) -> bytes:
    """The content of the manifest, cut after the longest valid length; empty if there is none (any more)."""
    content = manifest_at(feed, found.manifest.key) if found.manifest is not None else None
    return content.data if content is not None else b""


def _state(feed: Feed, found: Found, record: Record | None, *, valid: bool) -> tuple[UpdateState, str]:
    count = counted(len(found.files), "file")
    if valid:
        return "valid", f"its manifest states {count}"
    last = record.history[-1] if record else None
    if last is not None and last.state in {"rejected", "invalidated"}:
        return last.state, f"{last.reason} ({last.author})" if last.author else last.reason
    if found.manifest is not None:
        return _disagreeing(feed, found, count, recorded=last is not None)
    return _without_manifest(last.state if last else None, count)


def _without_manifest(recorded: State | None, count: str) -> tuple[UpdateState, str]:
    """The state of an update that has no manifest, by the last state in its record."""
    match recorded:
        case None:
            return "incomplete", f"{count} and no manifest yet"
        case "published":
            return "invalidated", "recorded as published, but its manifest is gone"
        case "publishing":
            return "staged", "its writer stopped just before the manifest, or is at work: run it again"
        case _:
            return "staged", f"{count} recorded, no manifest yet"


def _disagreeing(feed: Feed, found: Found, count: str, *, recorded: bool) -> tuple[UpdateState, str]:
    """The state of an update whose manifest does not state the number of its files."""
    content = manifest_content(feed, found)
    if content == INVALIDATED:
        why = "its record does not say why: invalidate it again" if recorded else "its record, with the reason, is gone"
        return "invalidated", why
    if is_removal(content):
        return "incomplete", "retention is removing it"
    stated = parse_manifest(content)
    if stated is None:
        return "incomplete", "its manifest is not a number of files"
    if stated < len(found.files):
        return "invalidated", f"its manifest states {stated}, and there are {count}: some were added"
    return "incomplete", f"its manifest states {stated}, and there are {count}: some are missing"
