"""Publishing: the manifest that makes an update visible, whole.

Here: publishing a staged update, and publishing local files in one call. Not here: writing the data files, auditing
them, and taking updates out of force (`withdrawal`). After a crash at any step the previous update stays in force.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import datetime
from filecmp import cmp
from pathlib import Path
from tempfile import TemporaryDirectory

from feed_assets.blackboard.port import AlreadyExistsError, ConflictError, Entry, UnavailableError
from feed_assets.file_feed.amending import amend, reread
from feed_assets.file_feed.changes import log_act
from feed_assets.file_feed.claims import Claim, claim
from feed_assets.file_feed.control import StoredRecord
from feed_assets.file_feed.errors import BadNameError, ClaimLostError, FeedError, NotPublishedError, TornUpdateError
from feed_assets.file_feed.feed import Feed, File, Update
from feed_assets.file_feed.manifest import INVALIDATED, MANIFEST, manifest, parse_manifest
from feed_assets.file_feed.names import check_label
from feed_assets.file_feed.reading import Found, newest_valid, read_manifest, updates_from
from feed_assets.file_feed.record import CheckOutcome, Column, Facts, Transition
from feed_assets.file_feed.schema import check_promise, promise
from feed_assets.file_feed.staging import Staged, put_on_record, staged_files
from feed_assets.file_feed.withdrawal import take_out_of_force

_log = logging.getLogger("feed_assets.file_feed")


def publish(
    staged: Staged,
    *,
    now: datetime,
    checks: Sequence[CheckOutcome] = (),
    before_manifest: Callable[[], object] = lambda: None,
) -> Update:
    """Make the update visible by creating its manifest. Calling it again changes nothing.

    First the record says `publishing`, with the outcomes of `checks`: if somebody rejects the update at the same time,
    only one of the two succeeds. Then it promises columns that are new, writes the manifest and looks at what readers
    see. Last come `published` in the record, and the change log; without these the update is published all the same. An
    update that was claimed before the latest one becomes history at once, and its record says so. `before_manifest` is
    called when the record says `publishing`; an error of it is raised, and the update stays invisible.

    The update is not in force if this raises ClaimLostError (the claim was given up), TornUpdateError (its files are
    not the staged ones), NotPublishedError (it was rejected or taken out of force), or SchemaChangeError (it breaks a
    schema that was promised since it was staged). After UnavailableError (storage did not answer), call it again.
    """
    unpromised = _unpromised(staged.claim.feed, staged.record.facts)
    stored = _announce(staged, Transition("publishing", now, author=staged.claim.owner), checks)
    if stored.record.state == "published":
        return _published_before(staged)
    before_manifest()
    return _make_visible(staged, stored, now, unpromised)


def publish_files(
    feed: Feed,
    partition: str | None,
    sources: Sequence[Path],
    *,
    now: datetime,
    owner: str,
    facts: Facts | None = None,
    starting: Callable[[Path], object] = lambda _: None,
) -> Update:
    """Publish local files as one update: claim, upload, stage, publish. No files make an empty update.

    The files keep their names; `starting` is called before each upload. Raises BadNameError if two files share a name,
    or if a name is not legal for a file, AlreadyExistsError or TornUpdateError if another program writes in the same
    second.
    """
    names = [check_label(source.name, "file of an update") for source in sources]
    if MANIFEST in names or len(set(names)) != len(names):
        raise BadNameError(
            f"The files of an update need names of their own, other than {MANIFEST}: got {', '.join(sorted(names))}."
        )
    claimed = claim(feed, partition, now=now, owner=owner)
    uploaded = {_upload(claimed, source, starting) for source in sources}
    files = staged_files(claimed, len(sources))
    if others := sorted(file.path for file in uploaded.symmetric_difference(files)):
        message = f"{claimed.uri}: another program wrote {', '.join(others)}. Nothing was published; publish again."
        raise TornUpdateError(message)
    facts = facts or Facts(run_id=owner)
    unpromised = _unpromised(feed, facts)
    # No audit comes between the two changes, so one write records both.
    changes = (Transition("staged", now, author=owner), Transition("publishing", now, author=owner))
    staged = put_on_record(claimed, files, facts, *changes)
    return _make_visible(staged, StoredRecord(staged.record, staged.key, staged.tag), now, unpromised)


def _unpromised(feed: Feed, facts: Facts) -> tuple[Column, ...]:
    """The schema, if it has columns that are not promised yet; else nothing. Raises SchemaChangeError."""
    return facts.schema if facts.schema and check_promise(feed, facts.schema) else ()


def _make_visible(staged: Staged, stored: StoredRecord, now: datetime, unpromised: Sequence[Column]) -> Update:
    """Promise the schema, write the manifest, look at what readers see, and record `published`."""
    if unpromised:
        # Directly before the manifest: columns of an update that never comes in force must not be promised.
        promise(staged.claim.feed, unpromised)
    entry = _create_manifest(staged)
    newer = _confirm(staged, entry.tag, now)
    written: datetime | None = None
    try:
        written = amend(staged.claim, stored, Transition("published", now, newer, staged.claim.owner)).modified
    except NotPublishedError:
        # Somebody changed the record after `publishing`, and may have stopped before replacing the manifest.
        take_out_of_force(staged.claim)
        raise
    except ClaimLostError as error:
        if not staged.record.files:
            # Without its record, an update without files looks like one that retention has removed.
            _take_back(staged, entry.tag, now, str(error))
            raise
        _log.warning("%s is published, and its record is gone: %s", staged.claim.uri, error)
    except UnavailableError as error:
        _log.warning("%s is published, and its record does not say so yet: %s", staged.claim.uri, error)
    # The time of the later write: readers may have passed the time of the first by now.
    log_act(staged.claim.feed, staged.claim.partition, staged.claim.name, "published", at=written or entry.modified)
    return _update(staged)


def _announce(staged: Staged, change: Transition, checks: Sequence[CheckOutcome]) -> StoredRecord:
    """The record, after it says `publishing`, or `published` if it says that already."""
    if staged.record.state in {"staged", "publishing"}:
        return amend(staged.claim, StoredRecord(staged.record, staged.key, staged.tag), change, checks)
    return reread(staged.claim, staged.key)


def _published_before(staged: Staged) -> Update:
    current = read_manifest(staged.claim.feed, staged.claim.partition, staged.claim.name)
    if current is None or parse_manifest(current.data) != len(staged.record.files):
        raise NotPublishedError(f"{staged.claim.uri} was published, and taken out of force since: write a new update.")
    return _update(staged)


def _create_manifest(staged: Staged) -> Entry:
    """Create the manifest, or find that it is there."""
    claimed, count = staged.claim, len(staged.record.files)
    try:
        return claimed.feed.blackboard.create(f"{claimed.prefix}{MANIFEST}", manifest(count))
    except (AlreadyExistsError, UnavailableError) as error:
        current = read_manifest(claimed.feed, claimed.partition, claimed.name)
        if current is None:
            raise
        if parse_manifest(current.data) != count:
            record = reread(claimed, staged.key).record
            if record.state in {"rejected", "invalidated"}:
                message = f"{claimed.uri} was {record.state} ({record.history[-1].reason}): write a new update."
                raise NotPublishedError(message) from error
            if current.data == INVALIDATED:
                message = f"{claimed.uri} was taken out of force before it was published: write a new update."
                raise NotPublishedError(message) from error
            raise ClaimLostError(f"{claimed.uri} was given up and is being removed: write the update again.") from error
        return current.entry


def _confirm(staged: Staged, tag: str, now: datetime) -> str:
    """Look at what readers see after the manifest; if that is a newer update, return the message on it.

    If retention removed the files of a slow writer, or another program wrote here, it takes the manifest back: readers
    never took it for valid, as it states another number. One LIST.
    """
    claimed, record = staged.claim, staged.record
    found = updates_from(claimed.feed, claimed.partition, start=claimed.name)
    own = found.pop(claimed.name, Found(claimed.name))
    if set(own.files) == set(record.files):
        newer = newest_valid(claimed.feed, claimed.partition, found)
        if newer is None:
            return ""
        reason = f"history at once, as {newer.name} was claimed later and is in force"
        _log.warning("%s: %s", claimed.uri, reason)
        return reason
    others = sorted({file.path for file in set(own.files) - set(record.files)})
    if others:
        message = f"{claimed.uri}: another program wrote {', '.join(others)}. It is not published; write a new update."
        _take_back(staged, tag, now, message, empty=False)
        raise TornUpdateError(message)
    message = f"{claimed.uri} was given up: its writer took too long, and its files were removed. Write it again."
    _take_back(staged, tag, now, message, empty=not own.files)
    raise ClaimLostError(message)


def _take_back(staged: Staged, tag: str, now: datetime, reason: str, *, empty: bool = True) -> None:
    """Undo the manifest of an update whose files are gone or mixed, and record the reason if the record is left."""
    claimed = staged.claim
    key = f"{claimed.prefix}{MANIFEST}"
    if empty:
        claimed.feed.blackboard.delete(key)
    else:
        # Not deleted: another manifest could still make the mixture of files valid.
        with suppress(ConflictError):
            claimed.feed.blackboard.replace(key, INVALIDATED, tag=tag)
    with suppress(FeedError):
        stored = reread(claimed, staged.key)
        amend(claimed, stored, Transition("rejected", now, reason, claimed.owner))


def _update(staged: Staged) -> Update:
    return Update(staged.claim.feed, staged.claim.partition, staged.claim.name, staged.record.files)


def _upload(claimed: Claim, source: Path, starting: Callable[[Path], object]) -> File:
    starting(source)
    board, key = claimed.feed.blackboard, f"{claimed.prefix}{source.name}"
    try:
        entry = board.upload(key, source)
    except AlreadyExistsError:
        # It was sent twice because the first answer was lost, or another program writes here: compare the content.
        # Not the tags: those of large or encrypted objects do not tell it.
        with TemporaryDirectory() as folder:
            entry = board.download(key, stored := Path(folder) / "stored")
            if not cmp(source, stored, shallow=False):
                raise
    return File(source.name, entry.size, entry.tag)
