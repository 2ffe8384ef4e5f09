"""Writing the result of a step: the files of an update and of its quarantine, and the account of the rows.

Not here: reading and staging (`step`), and publishing (`step`, `audit`).
"""

from __future__ import annotations

from dataclasses import replace

from pyspark.sql import DataFrame, Observation

from feed_assets.engine.judged_rows import (
    FEW_QUARANTINED,
    PLACES_QUARANTINED,
    VERDICT,
    Verdict,
    few_quarantined,
    places_quarantined,
    published_rows,
    verdict_counts,
    with_places,
)
from feed_assets.engine.listed_files import fits_one_task
from feed_assets.engine.update_files import write_files
from feed_assets.file_feed.claims import Claim
from feed_assets.file_feed.errors import FeedError
from feed_assets.file_feed.quarantine import QUARANTINE
from feed_assets.file_feed.record import Facts, Rows
from feed_assets.steps.quarantining import Refused, Unstaged, without_zeros, write_quarantine


class MissingColumnsError(FeedError):
    """A result lacks columns that its feed declares."""


def write(claimed: Claim, frame: DataFrame, facts: Facts, *, read: int) -> list[Unstaged]:
    """Write the rows in the declared columns, `facts.schema`; with a verdict first the quarantine's. Stages nothing.

    `read` is how many raw records there are of this partition. Raises MissingColumnsError.
    """
    if VERDICT not in frame.columns:
        written = write_files(_conform(frame, claimed, facts), claimed.uri)
        rows = Rows(read=written.rows, published=written.rows, quarantined=0, duplicates=0, reasons={})
        return [Unstaged(claimed, written.files, replace(facts, rows=rows))]
    verdicts, counts = Observation(), verdict_counts(frame)
    if fits_one_task(frame):
        judged = frame.observe(verdicts, *counts, few_quarantined(frame))
    else:
        judged = with_places(frame).observe(verdicts, *counts, places_quarantined(frame.sparkSession))
    written = write_files(_conform(published_rows(judged), claimed, facts), claimed.uri)
    found = dict(verdicts.get)
    few, places = found.pop(FEW_QUARANTINED, None), found.pop(PLACES_QUARANTINED, None)
    duplicates = without_zeros(found)
    refused = Refused(duplicates.pop(Verdict.QUARANTINED.value, 0), few or (), places)
    quarantine, reasons = write_quarantine(claimed, frame, refused, facts)
    # Each number has its own count, so that a check can compare them.
    rows = Rows(
        read=read,
        published=written.rows,
        quarantined=refused.count,
        duplicates=sum(duplicates.values()),
        reasons={**reasons, **duplicates},
    )
    details = {**facts.details, QUARANTINE: quarantine.claim.feed.location}
    return [quarantine, Unstaged(claimed, written.files, replace(facts, rows=rows, details=details))]


def _conform(frame: DataFrame, claimed: Claim, facts: Facts) -> DataFrame:
    """The declared columns in the declared order, with their own types, so that the schema check sees them."""
    names = [column.name for column in facts.schema]
    if missing := [name for name in names if name not in frame.columns]:
        raise MissingColumnsError(
            f"The result for {claimed.feed.location} lacks the declared columns {', '.join(missing)}; "
            f"it has {', '.join(frame.columns)}. Return these columns, or declare others in `feed_metadata(...)`."
        )
    return frame if frame.columns == names else frame.select(names)
