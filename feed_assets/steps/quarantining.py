"""Writing the quarantine of an update: the records that it could not use, each with its reason.

Not here: which records are quarantined (`engine.judged_rows`), and publishing or rejecting (`file_feed.quarantine`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from uuid import uuid4

from pyspark.sql import DataFrame, Observation, Row

from feed_assets.engine.judged_rows import counted_reasons, quarantined_rows, reason_counts
from feed_assets.engine.listed_files import fits_one_task
from feed_assets.engine.update_files import Written, write_files
from feed_assets.file_feed.claims import Claim
from feed_assets.file_feed.errors import FeedError
from feed_assets.file_feed.quarantine import quarantine_of
from feed_assets.file_feed.record import Facts, FeedInput, Rows


@dataclass(frozen=True, slots=True)
class Unstaged:
    """Files written under a claim, their number, and the facts for their record."""

    claim: Claim
    files: int
    facts: Facts


class QuarantineMismatchError(FeedError):
    """The quarantine has another number of records than the pass that published counted."""


@dataclass(frozen=True, slots=True)
class Refused:
    """The quarantined records, as the pass that published saw them.

    Their number; the first `few`, by `few_quarantined`; the places of all, by `places_quarantined`, None if unknown.
    """

    count: int
    few: Sequence[Row]
    places: bytes | None


def write_quarantine(
    claimed: Claim, judged: DataFrame, refused: Refused, facts: Facts
) -> tuple[Unstaged, Mapping[str, int]]:
    """Write the quarantined records of a judged frame under their update's name, and count them by reason.

    If `refused.few` are all, no pass of their own is needed. `facts` are the update's. Raises QuarantineMismatchError.

    Every judged update has a quarantine, possibly without files: so the latest quarantine is always that of the update
    in force, whichever updates are published, overtaken or invalidated.
    """
    feed = quarantine_of(claimed.feed)
    # The update's claim also claims its quarantine: no other process writes to this feed under that name.
    kept = replace(claimed, feed=feed)
    written, reasons = Written(files=0, rows=0), dict[str, int]()
    if refused.count and len(refused.few) == refused.count:
        written, reasons = _write_lines(kept, refused.few), counted_reasons(judged, refused.few)
    elif refused.count:
        rows, observation = quarantined_rows(judged, refused.places), Observation()
        # Few records from many tasks: without a shuffle, a file for each task.
        rows = rows if fits_one_task(judged) else rows.hint("rebalance")
        written = write_files(rows.observe(observation, *reason_counts(judged)), kept.uri, "json")
        reasons = without_zeros(observation.get)
    if written.rows != refused.count:
        raise QuarantineMismatchError(
            f"{claimed.uri}: {refused.count:,} records were refused, and a second look at the same files found "
            f"{written.rows:,}. Nothing was staged. Let the rules, and the columns `_file` and `_line`, depend on the "
            "records alone."
        )
    own = replace(
        facts,
        rows=Rows(read=refused.count, published=written.rows, quarantined=0, duplicates=0, reasons={}),
        schema=(),
        inputs=(FeedInput(feed=claimed.feed.location, partition=claimed.partition, update=claimed.name),),
        code_version="",
        config_digest="",
        details={"quarantined_from": f"{claimed.feed.location} {claimed.name}"},
    )
    return Unstaged(kept, written.files, own), reasons


def _write_lines(kept: Claim, few: Sequence[Row]) -> Written:
    """Write these records as one file, named as Spark names its files."""
    prefix = kept.feed.update_prefix(kept.partition, kept.name)
    lines = "".join(f"{each.line}\n" for each in few)
    kept.feed.blackboard.create(f"{prefix}part-00000-{uuid4()}-c000.json", lines.encode())
    return Written(files=1, rows=len(few))


def without_zeros(counts: Mapping[str, int]) -> dict[str, int]:
    """The counts that an observation found, without zeros; none if Spark knew before that there are no rows."""
    return {name: int(value) for name, value in counts.items() if value}
