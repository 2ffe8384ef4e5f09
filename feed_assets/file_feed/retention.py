"""Removing old updates, so that nobody ever reads half of one.

Here: which updates may go, and taking them away. Not here: what holds them (`holds`). An update is removed in steps,
and can be abandoned after any of them; the next call carries on, and `recover` gives back what was not given up yet:

1. Take it over: its manifest is replaced by one that is never valid, on condition that it is the manifest that was
   planned for, or is created where there is none. From then on a writer that comes back late cannot publish it.
2. Look once more whether it is held, or has become the latest; if so it gets its manifest back.
3. Give it up: that manifest is replaced by one that nobody ever gives back, on condition that it is still there.
4. Delete the files. 5. Delete the manifest. 6. Delete its records, its claim and its ended pins.

So it is invalid before the first file goes, and stays so: a count never comes to match what is left. Several may be at
it at once: each takes it over with a manifest of its own, so only one gets past step 3, or gives it back; the others
find that the manifest is not theirs any more. From step 4 on they may all go on, as it is given up for good.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from uuid import uuid4

from feed_assets.blackboard import AlreadyExistsError, ConflictError, Content, Entry, NotFoundError, UnavailableError
from feed_assets.file_feed.control import CLAIMS, RECORDS, list_all
from feed_assets.file_feed.errors import FeedError
from feed_assets.file_feed.feed import Feed
from feed_assets.file_feed.holds import PINS, divided, held_updates
from feed_assets.file_feed.manifest import (
    MANIFEST,
    NEVER_VALID,
    RECOVERABLE_BYTES,
    is_removal,
    parse_manifest,
    replaced_by,
    taken_over,
)
from feed_assets.file_feed.names import begun, is_update_name
from feed_assets.file_feed.reading import is_valid, latest
from feed_assets.file_feed.scanning import Scanned, scan
from feed_assets.file_feed.wording import counted

ROUNDS = 3
"""How often the files of an update are listed and deleted before a writer that keeps adding some is left alone."""


@dataclass(frozen=True, slots=True)
class Policy:
    """What is kept of each partition: the newest `keep` valid updates, and those begun less than `younger_than` ago.

    What is not valid may still be in the making, and is kept for `longest_write` at least.
    """

    keep: int
    younger_than: timedelta
    longest_write: timedelta

    def __post_init__(self) -> None:
        if self.keep < 1 or self.younger_than < timedelta(0) or self.longest_write < timedelta(0):
            message = f"{self}: keep at least 1 update, and let no time be negative."
            raise ValueError(message)


@dataclass(frozen=True, slots=True)
class Removal:
    """An update that may go, and why. `tag` is that of its manifest when this was planned, None if it had none."""

    partition: str | None
    update: str
    reason: str
    files: int
    bytes: int
    valid: bool
    tag: str | None


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of a removal: removed, or left alone, and then why."""

    removal: Removal
    removed: bool
    why: str = ""


def recover(feed: Feed) -> None:
    """Give back what a removal had taken over that was interrupted before it deleted anything: to be called first.

    Such an update may be held by now, or be the latest that there is. A removal that is at work all the same finds that
    the update is not its own any more, and leaves it alone. Costs the listing of the feed. Raises MixedFeedError.
    """
    for scanned in scan(feed):
        for found in scanned.updates.values():
            # By its size, as reading every manifest would cost a request for each update.
            if found.manifest is None or found.manifest.size not in RECOVERABLE_BYTES:
                continue
            before = _manifest(feed, feed.update_prefix(scanned.partition or None, found.name))
            if before is not None and is_removal(before.data):
                _give_back(feed, before, before.entry)


def plan(feed: Feed, policy: Policy, *, now: datetime) -> tuple[Removal, ...]:
    """What may be removed; nothing is changed. Never the latest valid update of a partition, nor one that is held.

    Reads the whole listing of the feed and of its control area. Raises MixedFeedError, and FeedError where a tag is
    damaged, or a partition has a control area of its own: what is held there would not be seen.
    """
    held = held_updates(feed, now=now)
    controlled = _controlled(feed)
    removals: list[Removal] = []
    for scanned in scan(feed):
        if scanned.divided:
            raise FeedError(divided(feed, scanned.partition))
        controlled -= {(scanned.partition or None, name) for name in scanned.updates}
        removals += _outdated(feed, scanned, policy, now)
    removals += [
        Removal(partition, name, "was claimed and never written", 0, 0, valid=False, tag=None)
        for partition, name in controlled
        if _age(name, now) > max(policy.younger_than, policy.longest_write)
    ]
    free = (removal for removal in removals if (removal.partition, removal.update) not in held)
    return tuple(sorted(free, key=lambda removal: (removal.partition or "", removal.update)))


def carry_out(feed: Feed, removals: Iterable[Removal], *, now: datetime) -> list[Outcome]:
    """Remove them, one after the other, and tell what became of each.

    An update that was published, changed, held or has become the latest since it was planned is left alone.
    """
    outcomes = []
    for removal in removals:
        why = _remove(feed, removal, now)
        outcomes.append(Outcome(removal, removed=why is None, why=why or ""))
    return outcomes


def _outdated(feed: Feed, scanned: Scanned, policy: Policy, now: datetime) -> Iterator[Removal]:
    valid = {name for name, found in scanned.updates.items() if is_valid(feed, found)}
    kept = set(sorted(valid)[-policy.keep :])
    for name, found in scanned.updates.items():
        age = policy.younger_than if name in valid else max(policy.younger_than, policy.longest_write)
        if name in kept or _age(name, now) <= age:
            continue
        newer = sum(other > name for other in valid)
        reason = f"outdated by {counted(newer, 'valid update')}" if name in valid else "is not valid"
        size = sum(file.size for file in found.files)
        tag = found.manifest.tag if found.manifest else None
        yield Removal(scanned.partition or None, name, reason, len(found.files), size, name in valid, tag)


def _controlled(feed: Feed) -> set[tuple[str | None, str]]:
    """The updates that the control area knows by a claim or a record."""
    known = set()
    for area in (CLAIMS, RECORDS):
        folder = feed.control(area)
        for entry in list_all(feed.blackboard, folder):
            partition, _, rest = entry.key.removeprefix(folder).rpartition("/")
            name = ".".join(rest.split(".")[:2])
            if is_update_name(name):
                known.add((partition or None, name))
    return known


def _remove(feed: Feed, removal: Removal, now: datetime) -> str | None:
    """Remove an update; why not, if it is left alone."""
    prefix = feed.update_prefix(removal.partition, removal.update)
    before = _manifest(feed, prefix)
    if (before.entry.tag if before else None) != removal.tag:
        return "its manifest has changed since this was planned"
    if why := _needed(feed, removal, before, now):
        return why
    if before is None or before.data != NEVER_VALID:
        try:
            taken = _take_over(feed, prefix, before)
            if why := _needed(feed, removal, before, now):
                _give_back(feed, before, taken)
                return why
            _write(feed, prefix, NEVER_VALID, tag=taken.tag)
        except (AlreadyExistsError, ConflictError):
            return "its manifest has changed since this was planned"
    for _ in range(ROUNDS):
        if not (keys := _data_keys(feed, prefix)):
            break
        feed.blackboard.delete(*keys)
    else:
        return "a writer keeps adding files; it can never become valid, and the next call tries again"
    feed.blackboard.delete(f"{prefix}{MANIFEST}")
    feed.blackboard.delete(*_control_keys(feed, removal))
    return None


def _needed(feed: Feed, removal: Removal, before: Content | None, now: datetime) -> str | None:
    """Why this update must stay, as things are now. `before` is its manifest before this takes it over."""
    if held := held_updates(feed, removal.partition, now=now).get((removal.partition, removal.update)):
        return held
    if not removal.valid:
        prefix = feed.update_prefix(removal.partition, removal.update)
        files = sum(not key.endswith("/") for key in _data_keys(feed, prefix))
        content = _own_content(before)
        if content is None or parse_manifest(content) != files:
            return None
        if before is not None and is_removal(before.data):
            return "another retention is at it, or was interrupted: then the next one gives it back first"
        return "it has become valid since this was planned"
    newest = latest(feed, removal.partition, now=now)
    if newest is None or newest.name <= removal.update:
        return "it has become the latest since this was planned"
    return None


def _data_keys(feed: Feed, prefix: str) -> list[str]:
    """Everything below the update, directory markers too, save its manifest."""
    return [entry.key for entry in list_all(feed.blackboard, prefix) if entry.key != f"{prefix}{MANIFEST}"]


def _manifest(feed: Feed, prefix: str) -> Content | None:
    try:
        return feed.blackboard.read(f"{prefix}{MANIFEST}")
    except NotFoundError:
        return None


def _take_over(feed: Feed, prefix: str, before: Content | None) -> Entry:
    content = taken_over(_own_content(before), uuid4().int % 10**8)
    # Also over another retention's: that one may have stopped, and finds otherwise that it is not its own any more.
    return _write(feed, prefix, content, tag=before.entry.tag if before else None)


def _write(feed: Feed, prefix: str, content: bytes, *, tag: str | None) -> Entry:
    """Replace the manifest of this tag, or create one where there was none. Where the answer was lost, it is read."""
    board, key = feed.blackboard, f"{prefix}{MANIFEST}"
    try:
        return board.create(key, content) if tag is None else board.replace(key, content, tag=tag)
    except (AlreadyExistsError, ConflictError, UnavailableError):
        there = _manifest(feed, prefix)
        if there is None or there.data != content:
            raise
        return there.entry


def _give_back(feed: Feed, before: Content | None, taken: Entry) -> None:
    """Undo the taking over, unless somebody took it over or invalidated the update meanwhile."""
    content = _own_content(before)
    if content is None:
        return  # there was no manifest, and deleting takes no condition: it may be another's by now
    with suppress(ConflictError):
        feed.blackboard.replace(taken.key, content, tag=taken.tag)


def _own_content(manifest: Content | None) -> bytes | None:
    """What the update's own manifest says; where retention has taken it over, what it said before."""
    if manifest is None:
        return None
    return replaced_by(manifest.data) if is_removal(manifest.data) else manifest.data


def _control_keys(feed: Feed, removal: Removal) -> list[str]:
    """Its records and ended pins, then its claim; tags and pins that hold would have kept it."""
    keys = []
    for area in (RECORDS, PINS):
        folder = feed.control(area, removal.partition)
        for entry in list_all(feed.blackboard, folder, after=f"{folder}{removal.update}"):
            if not entry.key.startswith(f"{folder}{removal.update}."):
                break
            keys.append(entry.key)
    return [*keys, f"{feed.control(CLAIMS, removal.partition)}{removal.update}"]


def _age(name: str, now: datetime) -> timedelta:
    return now - begun(name)
