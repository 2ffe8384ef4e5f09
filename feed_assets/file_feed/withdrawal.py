"""Rejecting staged updates, and invalidating published ones.

Not here: whether an update is good enough, and removing its files (`removal`).

The manifest decides, so it is written first, and the record after it. If a writer stops between the two, the update is
out of force and its record lacks the reason; another call adds it. The other order would leave a record that says
`invalidated` of an update that every reader uses.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from datetime import datetime

from feed_assets.blackboard.port import AlreadyExistsError, ConflictError, Entry, UnavailableError
from feed_assets.file_feed.amending import amend
from feed_assets.file_feed.changes import log_act
from feed_assets.file_feed.claims import Claim
from feed_assets.file_feed.control import StoredRecord, record_key, stored_record
from feed_assets.file_feed.errors import NotPublishedError, NoValidUpdateError
from feed_assets.file_feed.feed import Feed
from feed_assets.file_feed.manifest import INVALIDATED, MANIFEST, NEVER_VALID, parse_manifest
from feed_assets.file_feed.reading import read_manifest
from feed_assets.file_feed.record import CheckOutcome, Facts, Record, Transition, inputs_digest
from feed_assets.file_feed.staging import Staged, claim_of


def reject(staged: Staged, *, reason: str, now: datetime, checks: Sequence[CheckOutcome] = ()) -> Record:
    """Reject the update, with the reason: it never becomes visible. Its files stay until retention.

    Raises NotPublishedError if another writer has published it, or begun to, since it was staged or found.
    """
    stored = StoredRecord(staged.record, staged.key, staged.tag)
    if staged.record.state == "publishing":
        _keep_publishers_out(staged)
    amended = amend(staged.claim, stored, Transition("rejected", now, reason, staged.claim.owner), checks)
    if amended.modified is not None:
        log_act(staged.claim.feed, staged.claim.partition, staged.claim.name, "rejected", at=amended.modified)
    return amended.record


def _keep_publishers_out(staged: Staged) -> None:
    """Create a manifest that is never valid: a publisher that still runs finds that it cannot create its own."""
    claimed = staged.claim
    try:
        claimed.feed.blackboard.create(f"{claimed.prefix}{MANIFEST}", INVALIDATED)
    except (AlreadyExistsError, UnavailableError):
        current = read_manifest(claimed.feed, claimed.partition, claimed.name)
        if current is None:
            raise
        if parse_manifest(current.data) == len(staged.record.files):
            raise NotPublishedError(f"{claimed.uri} was published meanwhile, and stays so.") from None


def invalidate(feed: Feed, partition: str | None, name: str, *, reason: str, author: str, now: datetime) -> None:
    """Take a published update out of force: replace the manifest by INVALIDATED, then record the reason.

    Its quarantine, an update of another feed, stays: `quarantine.invalidate_both` takes out both. The manifest is not
    removed, as a publisher whose answer was lost would create it again. If somebody removed the manifest of a published
    update (or one about to be), this makes that permanent. If the record has no reason, this adds it. Raises
    NoValidUpdateError if the update does not exist, NotPublishedError if it was never published.
    """
    change = Transition("invalidated", now, reason, author)
    current = read_manifest(feed, partition, name)
    stored = stored_record(feed, partition, name)
    state = stored.record.state if stored is not None else None
    if current is None:
        _require_was_published(feed, partition, name, stored)
    elif current.data == INVALIDATED:
        if state == "invalidated":
            return
        if state in {"staged", "rejected"}:
            raise NotPublishedError(_nothing_to_invalidate(feed, partition, name))
    if stored is None:
        stored = StoredRecord(Record(partition, name, "", "", (), Facts(), history=(change,)), "", "")
    claimed = claim_of(feed, stored.record)
    entry = take_out_of_force(claimed)
    try:
        if state is None:
            _create_foreign_record(feed, stored.record)
        elif state != "invalidated":
            amend(claimed, stored, change)
    except UnavailableError as error:
        message = f"{claimed.uri} is out of force, and its record does not say why yet."
        raise UnavailableError(f"{message} {error} Then invalidate it again.", transient=error.transient) from error
    log_act(feed, partition, name, "invalidated", at=entry.modified)


def take_out_of_force(claimed: Claim) -> Entry:
    """Write a manifest that is never valid, and that keeps publishers from creating theirs."""
    board, key = claimed.feed.blackboard, f"{claimed.prefix}{MANIFEST}"
    while True:
        current = read_manifest(claimed.feed, claimed.partition, claimed.name)
        try:
            if current is None:
                return board.create(key, INVALIDATED)
            if current.data not in {INVALIDATED, NEVER_VALID}:  # who sets a pin must see that files are being deleted
                return board.replace(key, INVALIDATED, tag=current.entry.tag)
        except (AlreadyExistsError, ConflictError):
            continue
        return current.entry


def _require_was_published(feed: Feed, partition: str | None, name: str, stored: StoredRecord | None) -> None:
    """Raise NoValidUpdateError or NotPublishedError unless an update without a manifest may have had one."""
    if stored is not None and stored.record.state in {"publishing", "published", "invalidated"}:
        return
    if stored is None and not feed.blackboard.page(feed.update_prefix(partition, name)).entries:
        message = f"{feed.title(partition)} has no update {name}: `feed-assets feed ls {feed.arguments()}` lists them."
        raise NoValidUpdateError(message)
    raise NotPublishedError(_nothing_to_invalidate(feed, partition, name))


def _nothing_to_invalidate(feed: Feed, partition: str | None, name: str) -> str:
    return f"{feed.title(partition)} {name} is not published, so there is nothing to invalidate."


def _create_foreign_record(feed: Feed, record: Record) -> None:
    """Create the record of an update that another program published."""
    key = record_key(feed, record.partition, record.update, inputs_digest(()))
    # If it exists, somebody else invalidates the update at the same time: their record says the same.
    with suppress(AlreadyExistsError):
        feed.blackboard.create(key, record.to_json())
