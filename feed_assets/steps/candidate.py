"""Finding the update to audit: the run's own, a staged one, or the one in force. Not here: the audit (`audit`)."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from feed_assets.file_feed.control import read_record, records
from feed_assets.file_feed.errors import FeedError
from feed_assets.file_feed.feed import Feed, Update
from feed_assets.file_feed.reading import latest, updates_from
from feed_assets.file_feed.record import Record
from feed_assets.file_feed.staging import Staged, find_staged
from feed_assets.file_feed.start_objects import update_of_start

LOOKED_AT = 20
"""How many of the newest records are searched for a run's own update."""


class NothingToAuditError(FeedError):
    """An audit was requested for a partition without an update; the message says what to do."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """The update under audit: a staged one, or a published one (then `staged` is None)."""

    update: Update
    record: Record | None
    staged: Staged | None


@dataclass(frozen=True, slots=True)
class NothingToAudit:
    """Why this run has no update to audit, and what to do. `rejected` is its own update if an audit rejected it."""

    reason: str
    rejected: Candidate | None = None


def find_candidate(
    feed: Feed, partition: str | None, *, root_run_id: str, made_here: bool, now: datetime
) -> Candidate | NothingToAudit:
    """The update that this run, or a run that it re-executes, staged; else as `made_here` says.

    A run that was to make an update (`made_here`) audits only its own, and gets the reason if there is none. Any other
    run audits a staged update newer than the latest, else the latest, else raises NothingToAuditError. An update whose
    manifest somebody removed is no candidate.
    """
    own = find_staged(feed, partition, root_run_id=root_run_id)
    if own is not None:
        return _staged_candidate(own)
    in_force = latest(feed, partition, now=now)
    if made_here:
        return _own_candidate(feed, partition, root_run_id, in_force)
    staged = find_staged(feed, partition)
    if staged is not None and (in_force is None or staged.claim.name > in_force.name):
        return _staged_candidate(staged)
    if in_force is None:
        of = f" of {partition}" if partition else ""
        message = f"{feed.location} has nothing staged or valid{of} to check: materialize it."
        raise NothingToAuditError(message + _unfinished(feed, partition))
    return Candidate(in_force, read_record(feed, partition, in_force.name), None)


def _unfinished(feed: Feed, partition: str | None) -> str:
    """Why the newest update is not in force although its audit passed; else empty."""
    for record in records(feed, partition, newest=1):
        if record.state == "publishing":
            run = record.facts.run_id
            return f" The audit of {record.update} had passed when its run {run} stopped: re-execute that run."
        if record.state == "published":
            return f" {record.update} was published, and taken out of force: it is not published again."
    return ""


def _own_candidate(
    feed: Feed, partition: str | None, root_run_id: str, in_force: Update | None
) -> Candidate | NothingToAudit:
    """The update of this run if it was published before, or that of its start; else why this run has none to audit."""
    elsewhere = f"In force is {in_force.name}." if in_force else "No update is in force."
    advice = f"{elsewhere} Materialize {feed.title(partition)} again."
    for record in records(feed, partition, newest=LOOKED_AT):
        if record.facts.root != root_run_id:
            continue
        if record.state not in {"publishing", "published"}:
            if record.state == "rejected" and (instead := update_of_start(feed, record)) is not None:
                return Candidate(instead, read_record(feed, partition, instead.name), None)
            reason = f"This run's update {record.update} was {record.state} ({record.history[-1].reason}). {advice}"
            own = Candidate(Update(feed, partition, record.update, record.files), record, None)
            return NothingToAudit(reason, own if record.state == "rejected" else None)
        valid = in_force
        if in_force is None or in_force.name != record.update:
            update = Update(feed, partition, record.update, ())
            valid = latest(feed, partition, now=update.begun, as_of=update.begun)
        if valid is not None and valid.name == record.update:
            return Candidate(valid, record, None)
        return NothingToAudit(f"This run's update {record.update} was published, and taken out of force. {advice}")
    return NothingToAudit(f"This run staged no update, so none is published. {advice}")


def _staged_candidate(staged: Staged) -> Candidate:
    """The staged update with the sizes that its files have now, by which Spark reads them: one LIST.

    A file that changed since it was staged is judged as it is; publishing refuses it in any case.
    """
    claimed, record = staged.claim, staged.record
    listed = updates_from(claimed.feed, claimed.partition, start=claimed.name, newest=claimed.name)
    present = {file.path: file for file in listed[claimed.name].files} if claimed.name in listed else {}
    files = tuple(present.get(file.path, file) for file in record.files)
    update = Update(feed=claimed.feed, partition=claimed.partition, name=claimed.name, files=files)
    return Candidate(update, record, staged)
