"""Writing the quarantine of an update: the records that it could not use, each with its reason.

Not here: which records are quarantined (`engine.judged_rows`), and publishing or rejecting (`file_feed.quarantine`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from pyspark.sql import DataFrame, Observation

from feed_assets.engine.judged_rows import quarantined_rows, reason_counts
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


def write_quarantine(
    claimed: Claim, judged: DataFrame, quarantined: int, facts: Facts
) -> tuple[Unstaged, Mapping[str, int]]:
    """Write the quarantined records of a judged frame under their update's name, and count them by reason.

    `quarantined` is the number of these records: the pass that published has counted it. `facts` are the update's.

    Every judged update has a quarantine, possibly without files: so the latest quarantine is always that of the update
    in force, whichever updates are published, overtaken or invalidated.
    """
    feed = quarantine_of(claimed.feed)
    # The update's claim also claims its quarantine: no other process writes to this feed under that name.
    kept = replace(claimed, feed=feed)
    # Few records from many tasks: without a shuffle, a file for each task.
    refused = quarantined_rows(judged)
    refused = refused if estimated_bytes(judged) <= ONE_TASK else refused.hint("rebalance")
    written, reasons = Written(files=0, rows=0), {}
    if quarantined:
        observation = Observation()
        written = write_files(refused.observe(observation, *reason_counts(judged)), kept.uri, "json")
        reasons = counted(observation)
    own = replace(
        facts,
        rows=Rows(read=quarantined, published=written.rows, quarantined=0, duplicates=0, reasons={}),
        schema=(),
        inputs=(FeedInput(feed=claimed.feed.location, partition=claimed.partition, update=claimed.name),),
        code_version="",
        config_digest="",
        details={"quarantined_from": f"{claimed.feed.location} {claimed.name}"},
    )
    return Unstaged(kept, written.files, own), reasons


def counted(observation: Observation) -> dict[str, int]:
    """The counts that an observation found, without zeros; none if Spark knew before that there are no rows."""
    return {name: int(value) for name, value in observation.get.items() if value}
