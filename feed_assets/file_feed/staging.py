"""Staging: recording the files written under a claim, which stay invisible.

Here: counting the files, recording them, and finding a staged update for its audit. Not here: writing the files (any
program may, under the claim's prefix), and making them visible (`publishing`).
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import islice

from feed_assets.blackboard.contents import digests
from feed_assets.blackboard.listing import list_all
from feed_assets.blackboard.port import AlreadyExistsError, UnavailableError
from feed_assets.file_feed.claims import Claim
from feed_assets.file_feed.control import StoredRecord, record_at, record_key, record_keys, stored_record
from feed_assets.file_feed.errors import ClaimLostError, TornUpdateError
from feed_assets.file_feed.feed import Feed, File
from feed_assets.file_feed.manifest import MANIFEST
from feed_assets.file_feed.read_sets import listing_key, summarized
from feed_assets.file_feed.reading import updates_from
from feed_assets.file_feed.record import Facts, Record, Transition, inputs_digest
from feed_assets.file_feed.schema import check_promise
from feed_assets.file_feed.wording import counted

LOOKED_AT = 20
"""How many of the newest records to search for a staged update."""


@dataclass(frozen=True, slots=True)
class Staged:
    """An update that is written and recorded, but not visible. `key` and `tag` belong to its record."""

    claim: Claim
    record: Record
    key: str
    tag: str


def staged_files(claimed: Claim, expected: int) -> tuple[File, ...]:
    """The files written under a claim, synced to the disk. `expected` is the number that their writers committed.

    Removes the markers of directories that Hadoop leaves in buckets. Raises TornUpdateError if the number differs,
    ClaimLostError if there is a manifest: do not stage the files then.
    """
    entries = list(list_all(claimed.feed.blackboard, claimed.prefix))
    markers = [entry.key for entry in entries if entry.key.endswith("/")]
    files = tuple(
        File(entry.key.removeprefix(claimed.prefix), entry.size, entry.tag)
        for entry in entries
        if not entry.key.endswith("/")
    )
    if any(file.path == MANIFEST for file in files):
        raise ClaimLostError(
            f"{claimed.uri} has a {MANIFEST} before it was published: it was given up, or another program wrote it."
        )
    if len(files) != expected:
        raise TornUpdateError(
            f"{claimed.uri} holds {counted(len(files), 'file')}, and {expected} were committed. Nothing was published; "
            "write the update again. Retention removes these files."
        )
    if markers:
        claimed.feed.blackboard.delete(*markers)
    # Sync before the record and the manifest name the files: other programs do not wait for a disk.
    claimed.feed.blackboard.flush(*[f"{claimed.prefix}{file.path}" for file in files])
    return files


def stage(claimed: Claim, files: Sequence[File], facts: Facts, *, now: datetime) -> Staged:
    """Record the files; they stay invisible until `publish`. Calling it again changes nothing.

    Raises SchemaChangeError if the schema breaks the contract of this version.
    """
    if facts.schema:
        check_promise(claimed.feed, facts.schema)
    return put_on_record(claimed, files, facts, Transition("staged", now, author=claimed.owner))


def put_on_record(claimed: Claim, files: Sequence[File], facts: Facts, *history: Transition) -> Staged:
    """Write the record with this history: one PUT, and one before it for the listing of many raw files.

    On a disk, reads the files for their digests.
    Calling it again changes nothing.
    """
    kept, listing = summarized(facts.inputs)
    record = Record(
        partition=claimed.partition,
        update=claimed.name,
        owner=claimed.owner,
        token=claimed.token,
        files=tuple(sorted(_with_digests(claimed, files), key=lambda file: file.path)),
        facts=replace(facts, inputs=kept),
        history=history,
    )
    key = record_key(claimed.feed, claimed.partition, claimed.name, inputs_digest(facts.inputs))
    board, content = claimed.feed.blackboard, record.to_json()
    if listing is not None:
        with suppress(AlreadyExistsError):  # written by this writer: nobody else has the claim
            board.create(listing_key(claimed.feed, claimed.partition, claimed.name), listing)
    try:
        tag = board.create(key, content).tag
    except (AlreadyExistsError, UnavailableError):
        current = stored_record(claimed.feed, claimed.partition, claimed.name)
        if current is None or current.record.to_json() != content:
            raise
        tag = current.tag
    return Staged(claimed, record, key, tag)


def _with_digests(claimed: Claim, files: Sequence[File]) -> list[File]:
    found = digests(claimed.feed.blackboard, [f"{claimed.prefix}{file.path}" for file in files])
    known = {key: digest for key, (_, digest) in found.items()}
    return [replace(file, digest=known.get(f"{claimed.prefix}{file.path}", "")) for file in files]


def find_staged(feed: Feed, partition: str | None, *, root_run_id: str | None = None) -> Staged | None:
    """The newest update that waits for its audit, or None.

    With `root_run_id`, the newest update of that chain of runs, if it waits, or if its audit passed and its run stopped
    before the manifest. Never an older update of an earlier attempt, nor a published one, even if its manifest was
    removed. Looks at the newest LOOKED_AT records: two listings, and a GET for each without a manifest.
    """
    keys = dict(islice(record_keys(feed, partition).items(), LOOKED_AT))
    # A listing shows which updates have a manifest: their records need no reading.
    listed = updates_from(feed, partition, start=min(keys)) if keys else {}
    with_manifest: list[str] = []
    for name, key in keys.items():
        if name in listed and listed[name].manifest is not None:
            with_manifest.append(key)
            continue
        stored = record_at(feed, key)
        if stored is None:
            continue
        if root_run_id is None:
            if stored.record.state == "staged":
                return staged_of(feed, stored)
        elif stored.record.facts.root == root_run_id:
            waits = stored.record.state in {"staged", "publishing"}
            return staged_of(feed, stored) if waits and not _any_of_root(feed, with_manifest, root_run_id) else None
    return None


def _any_of_root(feed: Feed, keys: Sequence[str], root_run_id: str) -> bool:
    """Whether this chain of runs made any of the updates of these records."""
    found = (record_at(feed, key) for key in keys)
    return any(stored is not None and stored.record.facts.root == root_run_id for stored in found)


def claim_of(feed: Feed, record: Record) -> Claim:
    """The claim under which an update was written."""
    return Claim(feed, record.partition, record.update, record.owner, record.token)


def staged_of(feed: Feed, stored: StoredRecord) -> Staged:
    """An update by its record."""
    return Staged(claim_of(feed, stored.record), stored.record, stored.key, stored.tag)
