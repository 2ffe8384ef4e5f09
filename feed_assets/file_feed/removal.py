"""Removing old updates, so that nobody ever reads half of one.

Here: carrying out a plan, and undoing interrupted removals. Not here: which updates may go (`retention`). A removal may
stop after any step; the next call continues it, and `recovery` undoes removals that stopped before step 3:

1. Take over: replace the update's manifest by one that is never valid, if it is still the manifest of the plan; if the
   plan saw no manifest, create it. From then on a late writer cannot publish the update.
2. Check again: if the update is held, or has become the latest, restore its manifest.
3. Give up: replace the manifest by one that nobody ever restores, if it is still the one of step 1. If storage fails
   before that, as for an update of another user, restore the manifests of the others.
4. Delete the files. 5. Delete the claim, the record and the pins. 6. Delete the manifest, and log the removal.

So the update is invalid before its first file goes: no count ever matches the remaining files. The manifest goes last:
a writer that can create its own manifest after that finds neither files nor record. If several retentions remove one
update, each takes it over with a manifest of its own. Only one gets past step 3 or restores the manifest; the others
see the change. From step 4 on all of them may continue, as nobody restores the update.

A claim that was never written, of a feed whose updates lie at the other level (in partitions, or without them), is not
taken over: its manifest would mix the levels for every reader. Only its control objects go.

Up to TOGETHER updates take each step together, with common listings and deletions: besides two writes for each update,
the requests grow with the pages.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from itertools import islice
from uuid import uuid4

from feed_assets.blackboard.listing import list_folders
from feed_assets.blackboard.port import AlreadyExistsError, BlackboardError, ConflictError, Entry, UnavailableError
from feed_assets.file_feed.changes import log_act
from feed_assets.file_feed.control import CLAIMS, record_key, recorded_digests
from feed_assets.file_feed.feed import Feed
from feed_assets.file_feed.holds import all_pins, held_updates, pin_key
from feed_assets.file_feed.manifest import (
    MANIFEST,
    NEVER_VALID,
    is_removal,
    manifest,
    parse_manifest,
    replaced_by,
    taken_over,
)
from feed_assets.file_feed.names import is_update_name
from feed_assets.file_feed.read_sets import listing_key
from feed_assets.file_feed.reading import Found, newest_valid, read_manifest
from feed_assets.file_feed.recovery import give_back
from feed_assets.file_feed.retention import Removal
from feed_assets.file_feed.scanning import scan

TOGETHER = 100
"""How many updates take each step together: so few that an update that is restored was not invalid for long."""

ROUNDS = 3
"""How often to list and delete the files of an update whose writer keeps adding files."""

CHANGED = "its manifest has changed since this was planned"


@dataclass(frozen=True, slots=True)
class Outcome:
    """The outcome of a removal: removed, or left alone for the reason `why`."""

    removal: Removal
    removed: bool
    why: str = ""


def carry_out(feed: Feed, removals: Iterable[Removal], *, now: datetime) -> list[Outcome]:
    """Remove these updates in this order; returns the outcomes. A plan begins with the oldest, so a stop leaves no gap.

    Leaves alone an update that was published, changed, held or became the latest since it was planned.
    """
    waiting, outcomes = iter(removals), list[Outcome]()
    while batch := list(islice(waiting, TOGETHER)):
        outcomes += _remove(feed, batch, now)
    return outcomes


@dataclass(slots=True)
class _Target:
    """An update that is being removed. `own` is the content of its own manifest, `taken` the manifest of the removal.

    `interrupted` if another retention took it over, `given_up` from step 3 on. `left_alone` says why it stays.
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
    # Listed again after the plan: an update that became the latest since then must not be invalid even for a moment.
    seen = _list_partitions(feed, targets)
    for target in targets:
        _read_own(feed, target, seen)
    _leave_needed(feed, targets, seen, now)
    misplaced = _misplaced(feed, _remaining(targets), seen)
    _delete_control(feed, misplaced)
    _remove_updates(feed, [target for target in _remaining(targets) if target not in misplaced], now)
    return [Outcome(target.removal, removed=not target.left_alone, why=target.left_alone) for target in targets]


def _remove_updates(feed: Feed, targets: Sequence[_Target], now: datetime) -> None:
    """Take the steps from the first on; `left_alone` of the targets says which of them stay."""
    try:
        for target in targets:
            _take_over(feed, target)
        seen = _list_partitions(feed, _remaining(targets))
        _leave_needed(feed, _remaining(targets), seen, now)
        for target in _remaining(targets):
            _give_up(feed, target)
    except BlackboardError:
        _restore(feed, targets)
        raise
    _delete_files(feed, _remaining(targets), seen)
    _delete_control(feed, _remaining(targets))
    prefixes = [feed.update_prefix(*target.place) for target in _remaining(targets)]
    feed.blackboard.delete(*[f"{prefix}{path}" for prefix in prefixes for path in (MANIFEST, "")])
    for target in _remaining(targets):
        if target.taken is not None:  # else another removal gave it up before
            log_act(feed, *target.place, "removed", at=target.taken.modified)


def _restore(feed: Feed, targets: Iterable[_Target]) -> None:
    """Restore the updates that are taken over and not given up. If storage fails, the next retention does."""
    for target in targets:
        if target.taken is not None and not (target.given_up or target.left_alone):
            with suppress(BlackboardError):
                give_back(feed, target.own, target.taken)


def _misplaced(feed: Feed, targets: Sequence[_Target], seen: _Seen) -> list[_Target]:
    """The targets that were never written, if the updates lie at the other level. At most a listing of folders."""
    unwritten = [target for target in targets if not seen.get(target.removal.partition)]
    if any(updates for partition, updates in seen.items() if partition is not None):
        return [target for target in unwritten if target.removal.partition is None]
    inside = [target for target in unwritten if target.removal.partition is not None]
    return inside if inside and any(map(is_update_name, list_folders(feed.blackboard, feed.root))) else []


def _remaining(targets: Iterable[_Target]) -> list[_Target]:
    return [target for target in targets if not target.left_alone]


_Seen = dict[str | None, dict[str, Found]]
"""The updates of partitions, by name."""


def _list_partitions(feed: Feed, targets: Sequence[_Target]) -> _Seen:
    """The partitions of these updates as they are now, in one pass. Never stops half-way because levels are mixed."""
    seen: _Seen = {}
    if targets:
        wanted = {target.removal.partition for target in targets}
        only = None if None in wanted else {partition for partition in wanted if partition is not None}
        for scanned in scan(feed, only=only, mixed=True):
            seen.setdefault(scanned.partition or None, {}).update(scanned.updates)
    return seen


def _found(seen: _Seen, target: _Target) -> Found:
    name = target.removal.update
    return seen.get(target.removal.partition, {}).get(name, Found(name))


def _read_own(feed: Feed, target: _Target, seen: _Seen) -> None:
    """Set `own`, the content of its manifest: a valid update's states the number of its files."""
    listed = _found(seen, target).manifest
    if (listed.tag if listed else None) != target.removal.tag:
        target.left_alone = CHANGED
    elif target.removal.valid:
        target.own = manifest(target.removal.files)
    elif listed is not None:
        current = read_manifest(feed, *target.place)
        if current is None or current.entry.tag != listed.tag:
            target.left_alone = CHANGED
            return
        target.interrupted = is_removal(current.data)
        target.own = replaced_by(current.data) if target.interrupted else current.data
        target.given_up = current.data == NEVER_VALID


def _leave_needed(feed: Feed, targets: Sequence[_Target], seen: _Seen, now: datetime) -> None:
    """Leave alone the updates that must stay by now, and restore those that were taken over."""
    held = held_updates(feed, {target.removal.partition for target in targets}, now=now)
    for target in targets:
        target.left_alone = target.left_alone or held.get(target.place, "") or _needed(feed, target, seen)
        if target.left_alone and target.taken is not None:
            give_back(feed, target.own, target.taken)


def _needed(feed: Feed, target: _Target, seen: _Seen) -> str:
    """Why readers need this update, or ""."""
    partition, name = target.place
    if not target.removal.valid:
        if target.own is None or parse_manifest(target.own) != len(_found(seen, target).files):
            return ""
        if target.interrupted:
            return "another retention is removing it, or was interrupted: then the next one restores it first"
        return "it has become valid since this was planned"
    newest = newest_valid(feed, partition, seen[partition]) if partition in seen else None
    return "it has become the latest since this was planned" if newest is None or newest.name <= name else ""


def _take_over(feed: Feed, target: _Target) -> None:
    if not target.given_up:
        # Also over the manifest of another retention: that one may have stopped; if not, it sees the change.
        _write(feed, target, taken_over(target.own, uuid4().int % 10**8), tag=target.removal.tag)


def _give_up(feed: Feed, target: _Target) -> None:
    if target.taken is not None:
        _write(feed, target, NEVER_VALID, tag=target.taken.tag)
        target.given_up = True


def _write(feed: Feed, target: _Target, content: bytes, *, tag: str | None) -> None:
    """Replace the manifest with this tag, or create it (None); leave the update alone if the manifest changed."""
    board, key = feed.blackboard, f"{feed.update_prefix(*target.place)}{MANIFEST}"
    try:
        target.taken = board.create(key, content) if tag is None else board.replace(key, content, tag=tag)
    except (AlreadyExistsError, ConflictError, UnavailableError) as error:
        current = read_manifest(feed, *target.place)  # the write may have landed, and its answer was lost
        if current is not None and current.data == content:
            target.taken = current.entry
        elif isinstance(error, UnavailableError):
            raise
        else:
            target.left_alone = CHANGED


def _delete_files(feed: Feed, targets: Sequence[_Target], seen: _Seen) -> None:
    """Delete everything below these updates except their manifests, until a listing shows nothing."""
    for _ in range(ROUNDS):
        prefixes = {feed.update_prefix(*target.place): _found(seen, target).paths for target in targets}
        feed.blackboard.delete(*[f"{prefix}{path}" for prefix, paths in prefixes.items() for path in paths])
        seen = _list_partitions(feed, targets)
        targets = [target for target in targets if _found(seen, target).paths]
    for target in targets:
        target.left_alone = "a writer keeps adding files; it can never become valid, and the next call tries again"


def _delete_control(feed: Feed, targets: Sequence[_Target]) -> None:
    """Delete the claims, records, read sets and ended pins of these updates. A pin that holds would have kept them."""
    if not targets:
        return
    places = {target.place for target in targets}
    claims = [f"{feed.control(CLAIMS, partition)}{name}" for partition, name in places]
    within = {partition for partition, _ in places}
    digests = recorded_digests(feed, only=None if None in within else {each for each in within if each is not None})
    records = [
        record_key(feed, partition, name, digests[partition or ""][name])
        for partition, name in places
        if name in digests.get(partition or "", ())
    ]
    pins = [pin_key(feed, held) for held in all_pins(feed) if (held.partition, held.update) in places]
    read_sets = [listing_key(feed, *place) for place in places]
    feed.blackboard.delete(*claims, *records, *read_sets, *pins)
