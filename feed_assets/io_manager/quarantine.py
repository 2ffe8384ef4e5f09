"""The quarantine of a feed: the records that an update could not use, in force exactly while the update is.

Here: staging a quarantine beside its update, and making both visible, or turning both away, one after the other. Not
here: which records these are, and why (`transforms.cleaning`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime

from pyspark.sql import DataFrame

from feed_assets.file_feed import (
    CheckOutcome,
    Claim,
    Facts,
    Feed,
    FeedInput,
    Record,
    Rows,
    Staged,
    Update,
    invalidate,
    latest,
    publish,
    reject,
    stage,
    staged_files,
)
from feed_assets.file_feed.control import StoredRecord, stored_record
from feed_assets.file_feed.staging import claim_of
from feed_assets.io_manager.spark_files import Written, write_files
from feed_assets.transforms import quarantined_rows

QUARANTINE = "quarantine"
"""The detail of an update's record that says where its quarantine is: a feed with an update of the same name."""


def quarantine_of(feed: Feed) -> Feed:
    """The feed that keeps the records which this one could not use."""
    return Feed(feed.blackboard, f"quarantine/{feed.location}")


def stage_quarantine(claimed: Claim, judged: DataFrame, rows: Rows, facts: Facts, *, now: datetime) -> dict[str, str]:
    """Write the quarantined records of a judged frame, and stage them under their update's name.

    Returns the details for the record of the update. Without quarantined records an empty quarantine is staged where
    an earlier one is in force, else none. `facts` are those of the update: its run counts.
    """
    feed = quarantine_of(claimed.feed)
    if not rows.quarantined and latest(feed, claimed.partition, now=now) is None:
        return {}
    # The claim of the update is the claim of its quarantine: nothing else is written to this feed.
    kept = replace(claimed, feed=feed)
    written = write_files(quarantined_rows(judged), kept.uri, "json") if rows.quarantined else Written(files=0, rows=0)
    own = replace(
        facts,
        rows=Rows(read=rows.quarantined, published=written.rows, quarantined=0, duplicates=0, reasons={}),
        schema=(),
        inputs=(FeedInput(feed=claimed.feed.location, partition=claimed.partition, update=claimed.name),),
        code_version="",
        config_digest="",
        details={"quarantined_from": f"{claimed.feed.location} {claimed.name}"},
    )
    stage(kept, staged_files(kept, written.files), own, now=now)
    return {QUARANTINE: feed.location}


def publish_both(staged: Staged, *, now: datetime, checks: Sequence[CheckOutcome] = ()) -> Update:
    """Publish an update, then its quarantine. Raises as `publish` does."""
    update = publish(staged, now=now, checks=checks)
    publish_quarantine(staged.claim.feed, staged.record, now=now)
    return update


def publish_quarantine(feed: Feed, record: Record, *, now: datetime) -> None:
    """Publish the quarantine of a published update where that is still to be done; else change nothing."""
    stored = _stored(feed, record)
    if stored is not None and stored.record.state not in {"published", "rejected", "invalidated"}:
        publish(_staged(quarantine_of(feed), stored), now=now)


def reject_both(staged: Staged, *, reason: str, now: datetime, checks: Sequence[CheckOutcome] = ()) -> None:
    """Turn an update and its quarantine away; the files of both stay until retention. Raises as `reject` does."""
    reject(staged, reason=reason, checks=checks, now=now)
    feed = staged.claim.feed
    stored = _stored(feed, staged.record)
    if stored is not None and stored.record.state not in {"published", "rejected", "invalidated"}:
        reject(_staged(quarantine_of(feed), stored), reason=_turned(staged.claim.name, "rejected", reason), now=now)


def invalidate_both(update: Update, record: Record | None, *, reason: str, author: str, now: datetime) -> None:
    """Take an update and its quarantine out of force. Raises as `invalidate` does."""
    invalidate(update.feed, update.partition, update.name, reason=reason, author=author, now=now)
    stored = _stored(update.feed, record) if record else None
    if stored is not None and stored.record.state == "published":
        why = _turned(update.name, "invalidated", reason)
        feed = quarantine_of(update.feed)
        invalidate(feed, update.partition, update.name, reason=why, author=author, now=now)


def _turned(name: str, state: str, reason: str) -> str:
    return f"its update {name} was {state}: {reason}"


def _stored(feed: Feed, record: Record) -> StoredRecord | None:
    if QUARANTINE not in record.facts.details:
        return None
    return stored_record(quarantine_of(feed), record.partition, record.update)


def _staged(feed: Feed, stored: StoredRecord) -> Staged:
    record = stored.record
    return Staged(claim_of(feed, record), record, stored.key, stored.tag)
