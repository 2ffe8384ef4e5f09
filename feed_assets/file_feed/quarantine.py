"""The quarantine of a feed: the records that an update could not use, in force exactly while the update is.

It is a feed of its own, `quarantine/<location>`. It has an update of the same name for each update whose record names
it, so its latest update is the quarantine of the update in force; without quarantined records it has no files. Here:
its location, and publishing, rejecting or invalidating both updates. Not here: choosing the records, and writing them
(`steps.quarantining`).
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from datetime import datetime

from feed_assets.file_feed.amending import reread
from feed_assets.file_feed.control import StoredRecord, read_record, stored_record
from feed_assets.file_feed.errors import StartTakenError
from feed_assets.file_feed.feed import Feed, Update, open_feed
from feed_assets.file_feed.publishing import publish
from feed_assets.file_feed.record import CheckOutcome, Record
from feed_assets.file_feed.staging import Staged, staged_of
from feed_assets.file_feed.start_objects import has_start, take_start
from feed_assets.file_feed.withdrawal import invalidate, reject

_log = logging.getLogger("feed_assets.file_feed")

FOLDER = "quarantine"
"""The folder below the base that holds the quarantines of all feeds, each at its feed's location."""

QUARANTINE = "quarantine"
"""The detail of an update's record that names its quarantine: a feed with an update of the same name."""

WAITING = frozenset({"staged", "publishing"})


def quarantine_of(feed: Feed) -> Feed:
    """The feed that keeps the records which this feed could not use. `feed` must have a location."""
    return Feed(feed.blackboard, f"{FOLDER}/{feed.location}")


def counts_what_was_read(record: Record) -> bool:
    """Whether the rows of a record tell how many were read; of a result without a quarantine they count it only."""
    rows = record.facts.rows
    return rows is not None and (QUARANTINE in record.facts.details or rows.read != rows.published)


def publish_both(staged: Staged, *, now: datetime, checks: Sequence[CheckOutcome] = ()) -> Update:
    """Publish an update, then its quarantine. Raises as `publish` does.

    An update that must be the only one of its start is rejected if another one is published, or was: raises
    StartTakenError (see `start_objects`).
    """

    def be_the_only_one() -> None:
        if has_start(staged.record):
            take_start(
                staged,
                finish=lambda other: publish_both(other, now=now),
                withdraw=lambda other, reason: reject_both(other, reason=reason, now=now),
            )

    try:
        update = publish(staged, now=now, checks=checks, before_manifest=be_the_only_one)
    except StartTakenError as taken:
        current = staged_of(staged.claim.feed, reread(staged.claim, staged.key))
        reject_both(current, reason=str(taken), now=now)
        raise
    _publish_quarantine(staged.claim.feed, staged.record, now=now)
    return update


def finish_publication(feed: Feed, record: Record, *, now: datetime) -> None:
    """Do the rest if the writer of a published update stopped after the manifest: record, change log, quarantine.

    Raises as `publish` does.
    """
    stored = stored_record(feed, record.partition, record.update) if record.state == "publishing" else None
    if stored is not None:
        publish(staged_of(feed, stored), now=now)
    _publish_quarantine(feed, record, now=now)


def _publish_quarantine(feed: Feed, record: Record, *, now: datetime) -> None:
    found = _find(feed, record)
    if found is not None and found[1].record.state in WAITING:
        publish(staged_of(*found), now=now)


def reject_both(staged: Staged, *, reason: str, now: datetime, checks: Sequence[CheckOutcome] = ()) -> None:
    """Reject an update and its quarantine; the files of both stay until retention. Raises as `reject` does."""
    reject(staged, reason=reason, checks=checks, now=now)
    found = _find(staged.claim.feed, staged.record)
    if found is not None and found[1].record.state in WAITING:
        reject(staged_of(*found), reason=_because(staged.claim.name, "rejected", reason), now=now)


def invalidate_both(
    feed: Feed, partition: str | None, name: str, *, reason: str, author: str, now: datetime
) -> Feed | None:
    """Take an update and its quarantine out of force. Raises as `invalidate` does.

    Returns the feed of the quarantine, None if the update has none. After an interruption, another call does the rest.
    """
    invalidate(feed, partition, name, reason=reason, author=author, now=now)
    record = read_record(feed, partition, name)
    found = _find(feed, record) if record else None
    if found is None:
        return None
    kept, stored = found
    if stored.record.state in {"published", "publishing"}:
        invalidate(kept, partition, name, reason=_because(name, "invalidated", reason), author=author, now=now)
    elif stored.record.state == "staged":
        reject(staged_of(kept, stored), reason=_because(name, "invalidated", reason), now=now)
    return kept


def _because(name: str, state: str, reason: str) -> str:
    return f"its update {name} was {state}: {reason}"


def _find(feed: Feed, record: Record) -> tuple[Feed, StoredRecord] | None:
    """The quarantine feed that a record names, and the quarantine's own record."""
    location = record.facts.details.get(QUARANTINE)
    kept = _named(feed, str(location)) if location else None
    stored = stored_record(kept, record.partition, record.update) if kept else None
    return (kept, stored) if kept and stored else None


def _named(feed: Feed, location: str) -> Feed | None:
    """The quarantine feed at a location of the blackboard on which `feed` was written.

    `feed` may be opened on another root: a folder above, or the feed itself.
    """
    own = location.removeprefix(f"{FOLDER}/")
    if f"/{feed.location}".endswith(f"/{own}"):
        return Feed(feed.blackboard, f"{feed.location.removesuffix(own)}{location}")
    base = feed.uri.removesuffix(f"/{_in_uri(feed, own)}")
    if base == feed.uri:
        _log.warning(
            "%s was written at %s and moved or copied: its quarantine, %s, is left as it is.", feed.uri, own, location
        )
        return None
    return open_feed(f"{base}/{_in_uri(feed, location)}")


def _in_uri(feed: Feed, location: str) -> str:
    """The location as it stands in the URIs of the feed's store: percent-encoded on a disk."""
    board = feed.blackboard
    return board.uri(location).removeprefix(board.uri("")).removeprefix("/")
