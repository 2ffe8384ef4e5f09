"""Taking old updates away, so that nobody ever reads half of one.

Here: carrying a plan out, and giving back what an interruption left. Not here: which updates may go (`retention`). An
update is removed in steps, and can be abandoned after any of them; the next call carries on, and `recover` gives back
what was not given up yet:

1. Take it over: its manifest is replaced by one that is never valid, on condition that it is the manifest that was
   planned for, or is created where there is none. From then on a writer that comes back late cannot publish it.
2. Look once more whether it is held, or has become the latest; if so it gets its manifest back.
3. Give it up: that manifest is replaced by one that nobody ever gives back, on condition that it is still there.
4. Delete the files. 5. Delete its claim, its record and its pins. 6. Delete the manifest, and log it.

So it is invalid before the first file goes, and stays so: a count never comes to match what is left. The manifest goes
last: a writer that can create its own afterwards finds neither files nor record. Several retentions may be at an update
at once: each takes it over with a manifest of its own, so only one gets past step 3, or gives it back; the others find
that the manifest is not theirs any more. From step 4 on they may all go on, as it is given up for good.

Many updates take each step together. What is looked at is then listed once for all of them, and their objects are
deleted together: besides two writes for each update, the requests grow with the pages of listings and deletions.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from itertools import islice
from uuid import uuid4

from feed_assets.blackboard import AlreadyExistsError, ConflictError, Entry, UnavailableError
from feed_assets.file_feed.changes import log_act
from feed_assets.file_feed.control import CLAIMS, RECORDS, recorded_digests
from feed_assets.file_feed.feed import Feed
from feed_assets.file_feed.holds import all_pins, held_updates, pin_key
from feed_assets.file_feed.manifest import (
    MANIFEST,
    NEVER_VALID,
    RECOVERABLE_BYTES,
    is_removal,
    manifest,
    parse_manifest,
    replaced_by,
    taken_over,
)
from feed_assets.file_feed.read_sets import listing_key
from feed_assets.file_feed.reading import Found, newest_valid, read_manifest
from feed_assets.file_feed.retention import Removal
from feed_assets.file_feed.scanning import Scanned, scan

TOGETHER = 100
"""How many updates take each step together: few enough that one that is given back was not away for long."""

ROUNDS = 3
"""How often the files of an update are listed and deleted before a writer that keeps adding some is left alone."""

CHANGED = "its manifest has changed since this was planned"


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of a removal: removed, or left alone, and then why."""

    removal: Removal
    removed: bool
    why: str = ""


def recover(feed: Feed, *, within: str | None = None) -> None:
    """Give back what a removal had taken over that was interrupted before it deleted anything: to be called first.

    Such an update may be held by now, or be the latest that there is. A removal that is at work all the same finds that
    the update is not its own any more, and leaves it alone. Costs the listing of the feed, or of the one partition
    `within`. Raises MixedFeedError.
    """
    for scanned in scan(feed, first=within or "", last=within):
        for found in scanned.updates.values():
            # By its size, as reading every manifest would cost a request for each update.
            if found.manifest is None or found.manifest.size not in RECOVERABLE_BYTES:
                continue
            before = read_manifest(feed, scanned.partition or None, found.name)
            if before is not None and is_removal(before.data):
                _give_back(feed, replaced_by(before.data), before.entry)


def carry_out(feed: Feed, removals: Iterable[Removal], *, now: datetime) -> list[Outcome]:
    """Remove them, and tell what became of each, in their order.

    An update that was published, changed, held or has become the latest since it was planned is left alone.
    """
    waiting, outcomes = iter(removals), list[Outcome]()
    while batch := list(islice(waiting, TOGETHER)):
        outcomes += _remove(feed, batch, now)
    return outcomes


@dataclass(slots=True)
class _Target:
    """An update on its way out. `own` is what its own manifest says, `taken` the manifest that took it over.

    `interrupted` where another retention had taken it over, `given_up` from step 3 on. `left_alone` says why it stays.
    """

    removal: Removal
    own: bytes | None = None
    taken: Entry | None = None
    interrupted: bool = False
    given_up: bool = False
    left_alone: str = ""

    @property
    def place(self) -> tuple[str | None, str]:
        return self.removal.partition, self.removal.update


def _remove(feed: Feed, removals: Sequence[Removal], now: datetime) -> list[Outcome]:
    targets = [_Target(removal) for removal in removals]
    seen = _look(feed, targets)
    for target in targets:
        _read_own(feed, target, seen)
    _leave_needed(feed, targets, seen, now)
    for target in _going(targets):
        _take_over(feed, target)
    seen = _look(feed, _going(targets))
    _leave_needed(feed, _going(targets), seen, now)
    for target in _going(targets):
        _give_up(feed, target)
    _delete_files(feed, _going(targets), seen)
    _delete_control(feed, _going(targets))
    prefixes = [feed.update_prefix(*target.place) for target in _going(targets)]
    feed.blackboard.delete(*[f"{prefix}{path}" for prefix in prefixes for path in (MANIFEST, "")])
    for target in _going(targets):
        if target.taken is not None:  # else another removal had given it up before
            log_act(feed, *target.place, "removed", at=target.taken.modified)
    return [Outcome(target.removal, removed=not target.left_alone, why=target.left_alone) for target in targets]


def _going(targets: Iterable[_Target]) -> list[_Target]:
    return [target for target in targets if not target.left_alone]


def _look(feed: Feed, targets: Sequence[_Target]) -> dict[str | None, Scanned]:
    """The partitions of these updates as they are now, in one pass."""
    if not targets:
        return {}
    wanted = {target.removal.partition for target in targets}
    only = None if None in wanted else {partition for partition in wanted if partition is not None}
    return {scanned.partition or None: scanned for scanned in scan(feed, only=only)}


def _found(seen: dict[str | None, Scanned], target: _Target) -> Found:
    scanned = seen.get(target.removal.partition)
    name = target.removal.update
    return scanned.updates.get(name, Found(name)) if scanned else Found(name)


def _read_own(feed: Feed, target: _Target, seen: dict[str | None, Scanned]) -> None:
    """Find out what its own manifest says: that of a valid update states the number of its files."""
    listed = _found(seen, target).manifest
    if (listed.tag if listed else None) != target.removal.tag:
        target.left_alone = CHANGED
    elif target.removal.valid:
        target.own = manifest(target.removal.files)
    elif listed is not None:
        there = read_manifest(feed, *target.place)
        if there is None or there.entry.tag != listed.tag:
            target.left_alone = CHANGED
            return
        target.interrupted = is_removal(there.data)
        target.own = replaced_by(there.data) if target.interrupted else there.data
        target.given_up = there.data == NEVER_VALID


def _leave_needed(feed: Feed, targets: Sequence[_Target], seen: dict[str | None, Scanned], now: datetime) -> None:
    """Leave alone what must stay as things are now, and give back what was taken over of it."""
    held = held_updates(feed, {target.removal.partition for target in targets}, now=now)
    for target in targets:
        target.left_alone = target.left_alone or held.get(target.place, "") or _needed(feed, target, seen)
        if target.left_alone and target.taken is not None:
            _give_back(feed, target.own, target.taken)


def _needed(feed: Feed, target: _Target, seen: dict[str | None, Scanned]) -> str:
    """Why readers need this update, or ""."""
    partition, name = target.place
    if not target.removal.valid:
        if target.own is None or parse_manifest(target.own) != len(_found(seen, target).files):
            return ""
        if target.interrupted:
            return "another retention is at it, or was interrupted: then the next one gives it back first"
        return "it has become valid since this was planned"
    newest = newest_valid(feed, partition, seen[partition].updates) if partition in seen else None
    return "it has become the latest since this was planned" if newest is None or newest.name <= name else ""


def _take_over(feed: Feed, target: _Target) -> None:
    if target.given_up:
        return
    content = taken_over(target.own, uuid4().int % 10**8)
    try:
        # Also over another retention's: that one may have stopped, and finds otherwise that it is not its own any more.
        target.taken = _write(feed, target, content, tag=target.removal.tag)
    except (AlreadyExistsError, ConflictError):
        target.left_alone = CHANGED


def _give_up(feed: Feed, target: _Target) -> None:
    if target.taken is None:
        return
    try:
        target.taken = _write(feed, target, NEVER_VALID, tag=target.taken.tag)
    except (AlreadyExistsError, ConflictError):
        target.left_alone = CHANGED


def _write(feed: Feed, target: _Target, content: bytes, *, tag: str | None) -> Entry:
    """Replace the manifest of this tag, or create one where there was none. Where the answer was lost, it is read."""
    board, key = feed.blackboard, f"{feed.update_prefix(*target.place)}{MANIFEST}"
    try:
        return board.create(key, content) if tag is None else board.replace(key, content, tag=tag)
    except (AlreadyExistsError, ConflictError, UnavailableError):
        there = read_manifest(feed, *target.place)
        if there is None or there.data != content:
            raise
        return there.entry


def _give_back(feed: Feed, own: bytes | None, taken: Entry) -> None:
    """Undo the taking over, unless somebody took it over or invalidated the update meanwhile."""
    if own is None:
        return  # there was no manifest, and deleting takes no condition: it may be another's by now
    with suppress(ConflictError):
        feed.blackboard.replace(taken.key, own, tag=taken.tag)


def _delete_files(feed: Feed, targets: Sequence[_Target], seen: dict[str | None, Scanned]) -> None:
    """Delete everything below these updates save their manifests, until a listing shows that nothing is left."""
    for _ in range(ROUNDS):
        prefixes = {feed.update_prefix(*target.place): _found(seen, target).paths for target in targets}
        feed.blackboard.delete(*[f"{prefix}{path}" for prefix, paths in prefixes.items() for path in paths])
        seen = _look(feed, targets)
        targets = [target for target in targets if _found(seen, target).paths]
    for target in targets:
        target.left_alone = "a writer keeps adding files; it can never become valid, and the next call tries again"


def _delete_control(feed: Feed, targets: Sequence[_Target]) -> None:
    """Delete the claims, records, read sets and ended pins of these updates. Holds would have kept the updates."""
    if not targets:
        return
    places = {target.place for target in targets}
    claims = [f"{feed.control(CLAIMS, partition)}{name}" for partition, name in places]
    within = {partition for partition, _ in places}
    digests = recorded_digests(feed, only=None if None in within else {each for each in within if each is not None})
    records = [
        f"{feed.control(RECORDS, partition)}{name}.{digests[partition or ''][name]}.json"
        for partition, name in places
        if name in digests.get(partition or "", ())
    ]
    pins = [pin_key(feed, held) for held in all_pins(feed) if (held.partition, held.update) in places]
    read_sets = [listing_key(feed, *place) for place in places]
    feed.blackboard.delete(*claims, *records, *read_sets, *pins)
