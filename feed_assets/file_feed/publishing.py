"""Publishing: the manifest that makes an update visible, whole.

Here: publishing what was staged, and local files in one go. Not here: writing the data files (any program may, under
the claim's prefix), whether they are good enough, and taking updates out of force (`withdrawal`). A crash after any
single step leaves the update before in force.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path

from feed_assets.blackboard import AlreadyExistsError, UnavailableError
from feed_assets.file_feed.amending import amend, reread
from feed_assets.file_feed.claims import Claim, claim
from feed_assets.file_feed.control import StoredRecord, list_all
from feed_assets.file_feed.errors import BadNameError, ClaimLostError, NotPublishedError
from feed_assets.file_feed.feed import Feed, Update
from feed_assets.file_feed.manifest import MANIFEST, manifest, parse_manifest
from feed_assets.file_feed.names import check_label
from feed_assets.file_feed.reading import read_manifest
from feed_assets.file_feed.record import CheckOutcome, Facts, Transition
from feed_assets.file_feed.schema import promise
from feed_assets.file_feed.staging import Staged, put_on_record, staged_files
from feed_assets.file_feed.withdrawal import take_out_of_force

_log = logging.getLogger("feed_assets.file_feed")


def publish(staged: Staged, *, now: datetime, checks: Sequence[CheckOutcome] = ()) -> Update:
    """Make the update visible: the manifest, created where there is none. Calling it again changes nothing.

    The record says `publishing` first, with the outcomes of `checks`: where a publisher and a rejection meet, one of
    them finds the other. It says `published` when the manifest is there; if that answer is lost, the manifest still
    tells the truth. Raises ClaimLostError where the claim was given up, NotPublishedError where the update was rejected
    or taken out of force, SchemaChangeError where a schema that it breaks was promised since it was staged,
    UnavailableError where storage did not answer and the manifest is not there: then it may be called again.
    """
    if staged.record.facts.schema:
        # Not before now: what an update that is rejected had added was never promised to anybody.
        promise(staged.claim.feed, staged.record.facts.schema)
    stored = _announce(staged, Transition("publishing", now, author=staged.claim.owner), checks)
    if stored.record.state == "published":
        return _published_before(staged)
    _create_manifest(staged)
    try:
        amend(staged.claim, stored, Transition("published", now, author=staged.claim.owner))
    except NotPublishedError:
        # Somebody decided otherwise between the two changes of the record, and may have stopped before doing it.
        take_out_of_force(staged.claim)
        raise
    except UnavailableError as error:
        _log.warning("%s is published, and its record does not say so yet: %s", staged.claim.uri, error)
    return _update(staged)


def publish_files(
    feed: Feed,
    partition: str | None,
    sources: Sequence[Path],
    *,
    now: datetime,
    owner: str,
    facts: Facts | None = None,
) -> Update:
    """Publish local files as one update: claim, upload, stage, publish. No files make an empty update.

    Raises BadNameError where two files share a name, or one has a name that no file of an update can have.
    """
    names = [check_label(source.name, "file of an update") for source in sources]
    if MANIFEST in names or len(set(names)) != len(names):
        message = (
            f"The files of an update need names of their own, other than {MANIFEST}: got {', '.join(sorted(names))}."
        )
        raise BadNameError(message)
    claimed = claim(feed, partition, now=now, owner=owner)
    for source in sources:
        _upload(claimed, source)
    files = staged_files(claimed, len(sources))
    if facts is not None and facts.schema:
        promise(feed, facts.schema)
    # No audit comes between and nobody goes on with it, so the record says at once what it would say at last: that
    # saves a write, and whoever removes the manifest later leaves an update that was published, and none that waits.
    changes = (Transition("staged", now, author=owner), Transition("published", now, author=owner))
    staged = put_on_record(claimed, files, facts or Facts(run_id=owner), *changes)
    _create_manifest(staged)
    return _update(staged)


def _announce(staged: Staged, change: Transition, checks: Sequence[CheckOutcome]) -> StoredRecord:
    """The record, which says that the update is being published; or that it is published already."""
    if staged.record.state in {"staged", "publishing"}:
        return amend(staged.claim, StoredRecord(staged.record, staged.key, staged.tag), change, checks)
    return reread(staged.claim, staged.key)


def _published_before(staged: Staged) -> Update:
    there = read_manifest(staged.claim.feed, staged.claim.partition, staged.claim.name)
    if there is None or parse_manifest(there.data) != len(staged.record.files):
        message = f"{staged.claim.uri} was published, and taken out of force since: write a new update."
        raise NotPublishedError(message)
    return _update(staged)


def _create_manifest(staged: Staged) -> None:
    claimed, count = staged.claim, len(staged.record.files)
    try:
        claimed.feed.blackboard.create(f"{claimed.prefix}{MANIFEST}", manifest(count))
    except (AlreadyExistsError, UnavailableError) as error:
        there = read_manifest(claimed.feed, claimed.partition, claimed.name)
        if there is None:
            raise
        if parse_manifest(there.data) != count:
            record = reread(claimed, staged.key).record
            if record.state in {"rejected", "invalidated"}:
                message = f"{claimed.uri} was {record.state} ({record.history[-1].reason}): write a new update."
                raise NotPublishedError(message) from error
            message = f"{claimed.uri} was given up and is being removed: write the update again."
            raise ClaimLostError(message) from error


def _update(staged: Staged) -> Update:
    return Update(staged.claim.feed, staged.claim.partition, staged.claim.name, staged.record.files)


def _upload(claimed: Claim, source: Path) -> None:
    board, key = claimed.feed.blackboard, f"{claimed.prefix}{source.name}"
    try:
        board.upload(key, source)
    except AlreadyExistsError:
        # Nobody else writes under this claim, and objects are created whole: it was sent again as its answer was lost.
        there = next((entry for entry in list_all(board, claimed.prefix) if entry.key == key), None)
        if there is None or there.size != source.stat().st_size:
            raise
