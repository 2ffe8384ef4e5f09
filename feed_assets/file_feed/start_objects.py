"""One update of a start: an object in the control area, created before the manifest, names the only one.

A start is identified by what its update was made from: its inputs as read, the code version, the configuration, and,
if somebody forced it, by that. Two runs of one start may work at the same time, as a process can stand still until
everybody takes it for dead. Storage decides which of their updates is published: the first to create
`.feed/starts/<partition>/<digest>`. Here: these objects. Not here: attempts and leases, which save the work of the
second run (`starts.attempts`), and publishing (`publishing`). Only updates whose record has the detail START have one.

Retention deletes an object after its update. A publisher that replaces the object of a removed update in the same
moment loses it: another run of the same start, if one is under way at that moment, could then publish, too.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

from feed_assets.blackboard.listing import Wanted, list_all, list_jumping
from feed_assets.blackboard.port import AlreadyExistsError, ConflictError, Content, NotFoundError, UnavailableError
from feed_assets.file_feed.control import StoredRecord, recorded_digests, stored_record
from feed_assets.file_feed.digest import short_digest
from feed_assets.file_feed.errors import (
    ClaimLostError,
    NotPublishedError,
    SchemaChangeError,
    StartTakenError,
    TornUpdateError,
    UnreadableRecordError,
)
from feed_assets.file_feed.feed import Feed, Update
from feed_assets.file_feed.names import is_partition_name, is_update_name
from feed_assets.file_feed.reading import is_valid, updates_from
from feed_assets.file_feed.record import FeedInput, RawInput, Record
from feed_assets.file_feed.staging import Staged, staged_of

STARTS: Final = "starts"
"""The part of the control area that holds these objects."""
START: Final = "start"
"""The detail of a record whose update must be the only one of its start: the key of a forced start, else ""."""
REVISIONS: Final = "revisions"
"""The detail of a record with the revisions of the input slots for which the gate started the run."""


@dataclass(frozen=True, slots=True)
class StartObject:
    """An object as it was read: the update that it names, and the token of its claim; None if it is damaged."""

    key: str
    partition: str | None
    update: str | None
    token: str = ""


def has_start(record: Record) -> bool:
    """Whether the update must be the only one of its start."""
    return START in record.facts.details


def start_digest(record: Record) -> str:
    """16 hex digits that identify a start.

    Unlike `inputs_digest`, a context input counts with its update: a run that reads a newer one is no repetition.
    """
    facts = record.facts
    inputs = sorted(json.dumps(line) for each in facts.inputs if (line := _line(each)) is not None)
    return short_digest(
        json.dumps([inputs, facts.code_version, facts.config_digest, str(facts.details.get(START, ""))])
    )


def take_start(
    staged: Staged, *, finish: Callable[[Staged], object], withdraw: Callable[[Staged, str], object]
) -> None:
    """Make this update the only one of its start: one PUT if no other was before it.

    If another was, `finish` publishes it, in case its writer has stopped. If that update can never be in force, this
    one takes its place; `withdraw` rejects it, with a reason, if it breaks a promise of the feed. Raises
    StartTakenError if the other update is published, or was, and UnavailableError: call it again then.
    """
    feed, partition = staged.claim.feed, staged.claim.partition
    key = f"{feed.control(STARTS, partition)}{start_digest(staged.record)}"
    own = json.dumps({"update": staged.claim.name, "token": staged.claim.token}, sort_keys=True).encode()
    while (there := _there(feed, key, own)) is not None:
        other = _parsed(key, partition, there)
        if other.update is not None:
            _require_gone(feed, other, finish, withdraw)
        try:
            feed.blackboard.replace(key, own, tag=there.entry.tag)
        except ConflictError:
            continue
        except UnavailableError:
            if feed.blackboard.read(key).data != own:
                raise
        return


def update_of_start(feed: Feed, record: Record) -> Update | None:
    """The update in force or in history that is the only one of this record's start; None if there is none.

    A GET, and a LIST if there is an object; nothing is requested if the record has no start.
    """
    if not has_start(record):
        return None
    key = f"{feed.control(STARTS, record.partition)}{start_digest(record)}"
    for each in _read(feed, key):
        if each.update is not None:
            listed = updates_from(feed, record.partition, start=each.update, newest=each.update)
            found = listed.get(each.update)
            if found is not None and is_valid(feed, found):
                return Update(feed, record.partition, each.update, tuple(found.files))
    return None


def _there(feed: Feed, key: str, own: bytes) -> Content | None:
    """The object of another update; None after this one's was created, or was there."""
    while True:
        try:
            feed.blackboard.create(key, own)
        except (AlreadyExistsError, UnavailableError) as error:
            try:
                there = feed.blackboard.read(key)
            except NotFoundError:
                if isinstance(error, UnavailableError):
                    raise error from None
                continue  # retention has just deleted it
            return None if there.data == own else there
        return None


def _require_gone(
    feed: Feed, other: StartObject, finish: Callable[[Staged], object], withdraw: Callable[[Staged, str], object]
) -> None:
    """Return if this update can never be in force; otherwise publish it if it is not, and raise StartTakenError."""
    name = str(other.update)
    found = updates_from(feed, other.partition, start=name, newest=name).get(name)
    valid = found is not None and is_valid(feed, found)
    stored = _record_of(feed, other, valid=valid)
    if stored is None and not valid:
        return
    if stored is not None and stored.record.state in {"staged", "publishing"}:
        try:
            finish(staged_of(feed, stored))
        except SchemaChangeError as error:
            withdraw(staged_of(feed, stored), str(error))
            return
        except (ClaimLostError, NotPublishedError, TornUpdateError):
            stored = _record_of(feed, other, valid=False)
            if stored is None or stored.record.state not in {"published", "invalidated"}:
                return
        else:
            valid = True
    if stored is not None and stored.record.state == "rejected" and not valid:
        return
    title = f"{feed.title(other.partition)} {name}"
    if not valid:
        raise StartTakenError(
            f"{title} was made by the same code from the same inputs, and was taken out of force: force a new start.",
            None,
        )
    files = stored.record.files if stored is not None else found.files if found is not None else ()
    raise StartTakenError(
        f"{title} was made by the same code from the same inputs, and is published.",
        Update(feed, other.partition, name, tuple(files)),
    )


def _record_of(feed: Feed, other: StartObject, *, valid: bool) -> StoredRecord | None:
    """The record of the update that an object names; None if it is gone, or another writer's."""
    try:
        stored = stored_record(feed, other.partition, str(other.update))
    except UnreadableRecordError:
        if valid:
            return None
        raise
    return stored if stored is not None and stored.record.token == other.token else None


# --- all objects of a feed --------------------------------------------------------------------------------------------


def start_objects(feed: Feed, within: str | None = None) -> Iterator[StartObject]:
    """The objects of the feed, or of a partition, in the order of their keys: one listing, and a GET for each."""
    for entry in list_all(feed.blackboard, feed.control(STARTS, within)):
        yield from _read(feed, entry.key)


def drop_start_objects(feed: Feed, removed: Collection[tuple[str | None, str]]) -> int:
    """Delete the objects of removed updates; returns how many. Nothing is requested if none was removed.

    Lists the objects and records of these updates' partitions, and reads each object there: so objects that an
    interrupted call has left go, too.
    """
    if not removed:
        return 0
    partitions = {partition for partition, _ in removed}
    only = None if None in partitions else {partition for partition in partitions if partition is not None}
    recorded: Mapping[str, Mapping[str, str]] | None = None
    folder, wanted, dropped = feed.control(STARTS), Wanted(only=only), 0
    for entry in list_jumping(feed.blackboard, folder, wanted.jump, after=wanted.start):
        partition, slash, _ = entry.key.removeprefix(folder).partition("/")
        if (partition if slash else None) not in partitions:
            continue
        if recorded is None:
            recorded = recorded_digests(feed, only=only)
        # Read one by one, right before it is deleted: see above.
        for found in _read(feed, entry.key):
            if found.update is None or found.update not in recorded.get(found.partition or "", ()):
                feed.blackboard.delete(found.key)
                dropped += 1
    return dropped


def _read(feed: Feed, key: str) -> Iterator[StartObject]:
    """The object under this key; none if it is gone, or if it is no start's."""
    partition, _, name = key.removeprefix(feed.control(STARTS)).rpartition("/")
    if name and (not partition or is_partition_name(partition)):
        with suppress(NotFoundError):
            yield _parsed(key, partition or None, feed.blackboard.read(key))


def _parsed(key: str, partition: str | None, content: Content) -> StartObject:
    with suppress(ValueError, KeyError, TypeError):
        named = json.loads(content.data)
        if is_update_name(str(named["update"])):
            return StartObject(key, partition, str(named["update"]), str(named["token"]))
    return StartObject(key, partition, None)


def _line(each: FeedInput | RawInput) -> list[object] | None:
    """An input as JSON. A source without files counts like no source."""
    if isinstance(each, FeedInput):
        return ["feed", each.feed, each.partition, each.update]
    hours = sorted((hour, found.digest) for hour, found in each.hours.items())
    return ["raw", each.source, each.partition, hours] if hours else None
