"""Writing the quarantine of an update: the records that it could not use, each with its reason.

Not here: which records are quarantined (`engine.judged_rows`), and publishing or rejecting (`file_feed.quarantine`).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from pyspark.sql import DataFrame

from feed_assets.engine.judged_rows import quarantined_rows
from feed_assets.engine.jvm import estimated_bytes
from feed_assets.engine.listed_files import ONE_TASK
from feed_assets.engine.update_files import Written, write_files
from feed_assets.file_feed import Claim, Facts, FeedInput, Rows
from feed_assets.file_feed.quarantine import quarantine_of


@dataclass(frozen=True, slots=True)
class Unstaged:
    """Files written under a claim, their number, and the facts for their record."""

    claim: Claim
    files: int
    facts: Facts


def write_quarantine(claimed: Claim, judged: DataFrame, rows: Rows, facts: Facts) -> Unstaged:
    """Write the quarantined records of a judged frame under their update's name; `facts` are those of the update.

    Every judged update has a quarantine, possibly without files: so the latest quarantine is always that of the update
    in force, whichever updates are published, overtaken or invalidated.
    """
    feed = quarantine_of(claimed.feed)
    # The update's claim also claims its quarantine: no other process writes to this feed under that name.
    kept = replace(claimed, feed=feed)
    # Few records from many tasks: without a shuffle, a file for each task.
    refused = quarantined_rows(judged)
    refused = refused if estimated_bytes(judged) <= ONE_TASK else refused.hint("rebalance")
    written = write_files(refused, kept.uri, "json") if rows.quarantined else Written(files=0, rows=0)
    own = replace(
        facts,
        rows=Rows(read=rows.quarantined, published=written.rows, quarantined=0, duplicates=0, reasons={}),
        schema=(),
        inputs=(FeedInput(feed=claimed.feed.location, partition=claimed.partition, update=claimed.name),),
        code_version="",
        config_digest="",
        details={"quarantined_from": f"{claimed.feed.location} {claimed.name}"},
    )
    return Unstaged(kept, written.files, own)
