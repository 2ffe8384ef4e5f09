"""The writer's side: claim a second, stage what was written, then publish, reject or invalidate it.

Here: everything that changes a feed, save retention. Not here: writing the data files (any program may, under
the claim's prefix), and whether they are good enough. A crash after any single step leaves the update before in force.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from uuid import uuid4

from feed_assets.blackboard import AlreadyExistsError, ConflictError, Content, NotFoundError, UnavailableError
from feed_assets.file_feed.control import (
    CLAIMS,
    StoredRecord,
    list_all,
    record_key,
    stored_record,
    stored_records,
)
from feed_assets.file_feed.errors import (
    BadNameError,
    ClaimLostError,
    NotPublishedError,
    NoValidUpdateError,
    TornUpdateError,
)
from feed_assets.file_feed.feed import Feed, File, Update
from feed_assets.file_feed.manifest import INVALIDATED, MANIFEST, MAX_BYTES, NEVER_VALID, manifest, parse_manifest
from feed_assets.file_feed.names import begun, check_label, is_update_name, update_name
from feed_assets.file_feed.record import CheckOutcome, Facts, Record, Transition
from feed_assets.file_feed.schema import check_promise, promise
from feed_assets.file_feed.wording import counted

SECOND = timedelta(seconds=1)
LATEST = datetime.max.replace(tzinfo=UTC)
LOOKED_AT = 20
"""How many records back a staged update is looked for."""


@dataclass(frozen=True, slots=True)
class Claim:
    """The right to write one update, held by nobody else."""

    feed: Feed
    partition: str | None
    name: str
    owner: str
    token: str

    @property
    def prefix(self) -> str:
        """The prefix below which the data files go."""
        return self.feed.update_prefix(self.partition, self.name)

    @property
    def uri(self) -> str:
        """The same for other programs: a folder that does not exist yet."""
        return self.feed.blackboard.uri(f"{self.prefix}x").removesuffix("/x")


@dataclass(frozen=True, slots=True)
class Staged:
    """An update that is written and recorded, and not visible. `key` and `tag` are those of its record."""

    claim: Claim
    record: Record
    key: str
    tag: str


def claim(feed: Feed, partition: str | None, *, now: datetime, owner: str) -> Claim:
    """Claim the second `now`, or the first free one after it and after the newest update that is there.

    `owner` says who (a run id) for people who look later. One LIST, and one PUT unless others claim at the same time.
    """
    moment = max(now, _newest_begun(feed, partition, now) + SECOND)
    token = uuid4().hex
    content = json.dumps({"owner": owner, "token": token}, sort_keys=True).encode()
    while True:
        name = update_name(moment)
        try:
            feed.blackboard.create(f"{feed.control(CLAIMS, partition)}{name}", content)
        except AlreadyExistsError:
            moment += SECOND
        else:
            return Claim(feed, partition, name, owner, token)


def staged_files(claimed: Claim, expected: int) -> tuple[File, ...]:
    """The files written under a claim. `expected` is the number that the writers report to have committed.

    Raises TornUpdateError where another number is there, ClaimLostError where a manifest is: then this must not become
    an update.
    """
    files = tuple(
        File(entry.key.removeprefix(claimed.prefix), entry.size, entry.tag)
        for entry in list_all(claimed.feed.blackboard, claimed.prefix)
        if not entry.key.endswith("/")
    )
    if any(file.path == MANIFEST for file in files):
        message = (
            f"{claimed.uri} has a {MANIFEST} before it was published: it was given up, or another program wrote it."
        )
        raise ClaimLostError(message)
    if len(files) != expected:
        message = (
            f"{claimed.uri} holds {counted(len(files), 'file')}, and {expected} were committed. Nothing was published; "
            "write the update again. Retention removes these files."
        )
        raise TornUpdateError(message)
    return files


def stage(claimed: Claim, files: Sequence[File], facts: Facts, *, now: datetime) -> Staged:
    """Record what was written; it stays invisible until it is published. Calling it again changes nothing.

    Raises SchemaChangeError where the schema breaks the contract of this version.
    """
    return _stage(claimed, files, facts, Transition("staged", now, author=claimed.owner))


def find_staged(feed: Feed, partition: str | None, *, run_id: str | None = None) -> Staged | None:
    """The newest staged update that was neither published nor turned away.

    With `run_id`, that run's, also where it had got as far as to record that it publishes it. To others that looks the
    same as an update that was taken out of force by removing its manifest, so they do not find it.
    """
    settled = {"rejected", "invalidated"} if run_id is not None else {"published", "rejected", "invalidated"}
    for stored in stored_records(feed, partition, newest=LOOKED_AT):
        record = stored.record
        if record.state in settled or (run_id is not None and record.facts.run_id != run_id):
            continue
        if _manifest(feed, partition, record.update) is None:
            return Staged(_claim_of(feed, record), record, stored.key, stored.tag)
    return None


def publish(staged: Staged, *, now: datetime, checks: Sequence[CheckOutcome] = ()) -> Update:
    """Make the update visible: the manifest, created where there is none. Calling it again changes nothing.

    The record says so first, with the outcomes of `checks`. Raises ClaimLostError where the claim was given up,
    NotPublishedError where the update was rejected or invalidated, SchemaChangeError where a schema that it breaks was
    promised since it was staged, UnavailableError where storage did not answer and the manifest is not there: then it
    may be called again.
    """
    feed, record = staged.claim.feed, staged.record
    stored = _own_record(staged)
    if record.facts.schema:
        # Not before now: what an update that is rejected had added was never promised to anybody.
        promise(feed, record.facts.schema)
    if stored.record.state != "published" or stored.record.checks != tuple(checks or stored.record.checks):
        # Also without checks: it is where a rejection at the same time and this one find each other.
        _amend(staged.claim, stored, Transition("published", now, author=staged.claim.owner), checks)
    try:
        feed.blackboard.create(f"{staged.claim.prefix}{MANIFEST}", manifest(len(record.files)))
    except (AlreadyExistsError, UnavailableError) as error:
        there = _manifest(feed, record.partition, record.update)
        if there is None:
            raise
        if parse_manifest(there.data) != len(record.files):
            _own_record(staged)
            message = f"{staged.claim.uri} was given up and is being removed: write the update again."
            raise ClaimLostError(message) from error
    return Update(feed, record.partition, record.update, record.files)


def reject(staged: Staged, *, reason: str, now: datetime, checks: Sequence[CheckOutcome] = ()) -> Record:
    """Turn the update away, with the reason: it never becomes visible. Its files stay until retention.

    Raises NotPublishedError where another has published it, or turned it away, since it was staged or found.
    """
    stored = StoredRecord(staged.record, staged.key, staged.tag)
    record = _amend(staged.claim, stored, Transition("rejected", now, reason, staged.claim.owner), checks)
    if staged.record.state == "published":
        # A publisher got as far as the record. Should it be alive, it finds that its manifest cannot be created.
        _take_out_of_force(staged.claim)
    return record


def invalidate(feed: Feed, partition: str | None, name: str, *, reason: str, author: str, now: datetime) -> None:
    """Take a published update out of force: the reason goes on record, then the manifest states INVALIDATED.

    The manifest is not removed, as a publisher whose answer was lost would create it again. Where somebody removed it,
    and the record says that the update was published, this is what makes that last. Raises NoValidUpdateError where
    there is no such update, NotPublishedError where it was never published.
    """
    change = Transition("invalidated", now, reason, author)
    there = _manifest(feed, partition, name)
    stored = stored_record(feed, partition, name)
    invalidated = stored is not None and stored.record.state == "invalidated"
    if there is None:
        _require_was_published(feed, partition, name, stored)
    elif there.data == INVALIDATED:
        if invalidated:
            return
        raise NotPublishedError(_nothing_to_invalidate(feed, partition, name))
    if stored is None:
        stored = _foreign_record(feed, Record(partition, name, "", "", (), Facts(), history=(change,)))
    elif not invalidated:
        _amend(_claim_of(feed, stored.record), stored, change)
    _take_out_of_force(_claim_of(feed, stored.record))


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
    # No audit comes between, so the record says at once what it would say at last: whoever removes the manifest later
    # leaves an update that was published, and none that waits.
    changes = (Transition("staged", now, author=owner), Transition("published", now, author=owner))
    return publish(_stage(claimed, files, facts or Facts(run_id=owner), *changes), now=now)


def _upload(claimed: Claim, source: Path) -> None:
    board, key = claimed.feed.blackboard, f"{claimed.prefix}{source.name}"
    try:
        board.upload(key, source)
    except AlreadyExistsError:
        # Nobody else writes under this claim, and objects are created whole: it was sent again as its answer was lost.
        there = next((entry for entry in list_all(board, claimed.prefix) if entry.key == key), None)
        if there is None or there.size != source.stat().st_size:
            raise


def _newest_begun(feed: Feed, partition: str | None, now: datetime) -> datetime:
    """When the newest update was begun that is not older than now; else the second before now.

    Raises BadNameError where that is the last second that has a name.
    """
    prefix = feed.prefix(partition)
    newest, after = now - SECOND, f"{prefix}{update_name(now)}"
    while True:
        page = feed.blackboard.page(prefix, after=after, folders=True)
        for folder in page.folders:
            name = folder.removeprefix(prefix).removesuffix("/")
            if is_update_name(name):
                newest = max(newest, begun(name))
        if page.next_after is None:
            break
        after = page.next_after
    if newest > LATEST - SECOND:
        message = f"{feed.title(partition)}: no update can come after {update_name(newest)}. Remove that folder."
        raise BadNameError(message)
    return newest


def _stage(claimed: Claim, files: Sequence[File], facts: Facts, *history: Transition) -> Staged:
    if facts.schema:
        check_promise(claimed.feed, facts.schema)
    record = Record(
        partition=claimed.partition,
        update=claimed.name,
        owner=claimed.owner,
        token=claimed.token,
        files=tuple(sorted(files, key=lambda file: file.path)),
        facts=facts,
        history=history,
    )
    key = record_key(claimed.feed, record)
    board, content = claimed.feed.blackboard, record.to_json()
    try:
        tag = board.create(key, content).tag
    except (AlreadyExistsError, UnavailableError):
        there = stored_record(claimed.feed, claimed.partition, claimed.name)
        if there is None or there.record.to_json() != content:
            raise
        tag = there.tag
    return Staged(claimed, record, key, tag)


def _require_was_published(feed: Feed, partition: str | None, name: str, stored: StoredRecord | None) -> None:
    """Raise NoValidUpdateError or NotPublishedError unless an update without a manifest had one by its record."""
    if stored is not None and stored.record.state in {"published", "invalidated"}:
        return
    if stored is None and not feed.blackboard.page(feed.update_prefix(partition, name)).entries:
        message = f"{feed.title(partition)} has no update {name}: `feed-assets feed ls {feed.uri}` lists them."
        raise NoValidUpdateError(message)
    raise NotPublishedError(_nothing_to_invalidate(feed, partition, name))


def _nothing_to_invalidate(feed: Feed, partition: str | None, name: str) -> str:
    return f"{feed.title(partition)} {name} is not published, so there is nothing to invalidate."


def _foreign_record(feed: Feed, record: Record) -> StoredRecord:
    """Put an update on record that another program published."""
    key = record_key(feed, record)
    try:
        entry = feed.blackboard.create(key, record.to_json())
    except AlreadyExistsError:
        # Somebody else takes it out of force at the same time, which is all that this record says.
        return StoredRecord(record, key, "")
    return StoredRecord(record, key, entry.tag)


def _take_out_of_force(claimed: Claim) -> None:
    """Leave a manifest that makes no update valid, and that no publisher can create again."""
    board, key = claimed.feed.blackboard, f"{claimed.prefix}{MANIFEST}"
    while True:
        there = _manifest(claimed.feed, claimed.partition, claimed.name)
        try:
            if there is None:
                board.create(key, INVALIDATED)
            elif there.data not in {INVALIDATED, NEVER_VALID}:  # who sets a pin must see that files are being deleted
                board.replace(key, INVALIDATED, tag=there.entry.tag)
        except (AlreadyExistsError, ConflictError):
            continue
        return


def _claim_of(feed: Feed, record: Record) -> Claim:
    return Claim(feed, record.partition, record.update, record.owner, record.token)


def _own_record(staged: Staged) -> StoredRecord:
    """One GET: the record, if it is still this claim's and may be published."""
    stored = _reread(staged.claim, staged.key)
    if stored.record.state in {"rejected", "invalidated"}:
        last = stored.record.history[-1]
        message = f"{staged.claim.uri} was {last.state} ({last.reason}), so it is not published: write a new update."
        raise NotPublishedError(message)
    return stored


def _amend(claimed: Claim, stored: StoredRecord, change: Transition, checks: Sequence[CheckOutcome] = ()) -> Record:
    """Add a change to the record. Where another was added meanwhile, it stands if the two cannot both be."""
    before = stored.record.state
    while True:
        record = stored.record
        amended = replace(record, checks=tuple(checks) or record.checks, history=(*record.history, change))
        try:
            claimed.feed.blackboard.replace(stored.key, amended.to_json(), tag=stored.tag)
        except (ConflictError, UnavailableError) as error:
            stored = _reread(claimed, stored.key)
            if stored.record.to_json() == amended.to_json():
                return amended
            if isinstance(error, UnavailableError):
                raise
            if change.state != "invalidated" and stored.record.state not in {before, change.state}:
                message = f"{claimed.uri} was {stored.record.state} meanwhile, and stays so."
                raise NotPublishedError(message) from None
        else:
            return amended


def _reread(claimed: Claim, key: str) -> StoredRecord:
    board = claimed.feed.blackboard
    try:
        content = board.read(key)
        record = Record.from_json(content.data, origin=board.uri(key))
    except NotFoundError:
        record = None
    if record is None or record.token != claimed.token:
        message = f"{claimed.uri} is no longer this writer's: it took too long and was given up. Write it again."
        raise ClaimLostError(message)
    return StoredRecord(record, key, content.entry.tag)


def _manifest(feed: Feed, partition: str | None, name: str) -> Content | None:
    try:
        return feed.blackboard.read(f"{feed.update_prefix(partition, name)}{MANIFEST}", limit=MAX_BYTES + 1)
    except NotFoundError:
        return None
