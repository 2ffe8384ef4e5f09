"""Writing the result of a step: the files of an update and of its quarantine, and the account of the rows.

Not here: reading and staging (`step`), and publishing (`step`, `audit`).
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

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
from feed_assets.engine.profiling import digest_counts, digest_found, profile_counts, profile_found
from feed_assets.engine.update_files import Written, write_files
from feed_assets.file_feed.claims import Claim
from feed_assets.file_feed.errors import FeedError
from feed_assets.file_feed.quarantine import QUARANTINE
from feed_assets.file_feed.record import Facts, Rows
from feed_assets.steps.quarantining import Refused, Unstaged, without_zeros, write_quarantine
from feed_assets.steps.run import NOTHING, Content


class MissingColumnsError(FeedError):
    """A result lacks columns that its feed declares."""


PROFILE: Final = "profile"
"""The detail of a record with the profile of the rows (see `engine.profiling`)."""
DIGEST: Final = "digest"
"""The detail of a record with the digest of the rows, in any order."""


def write(claimed: Claim, frame: DataFrame, facts: Facts, *, read: int, content: Content = NOTHING) -> list[Unstaged]:
    """Write the rows in the declared columns, `facts.schema`; with a verdict first the quarantine's. Stages nothing.

    `read` is how many raw records there are of this partition. The details of the facts get the `content` of the rows.
    Raises MissingColumnsError.
    """
    if VERDICT not in frame.columns:
        written, profile = _write_rows(_conform(frame, claimed, facts), claimed, content)
        rows = Rows(read=written.rows, published=written.rows, quarantined=0, duplicates=0, reasons={})
        details = {**facts.details, **profile}
        return [Unstaged(claimed, written.files, replace(facts, rows=rows, details=details))]
    verdicts, counts = Observation(), verdict_counts(frame)
    if fits_one_task(frame):
        judged = frame.observe(verdicts, *counts, few_quarantined(frame))
    else:
        judged = with_places(frame).observe(verdicts, *counts, places_quarantined(frame.sparkSession))
    written, profile = _write_rows(_conform(published_rows(judged), claimed, facts), claimed, content)
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
    details = {**facts.details, **profile, QUARANTINE: quarantine.claim.feed.location}
    return [quarantine, Unstaged(claimed, written.files, replace(facts, rows=rows, details=details))]


def _write_rows(rows: DataFrame, claimed: Claim, content: Content) -> tuple[Written, dict[str, Any]]:
    """Write rows, and the details of the record that describe them. They take no pass of their own."""
    schema = rows.schema
    digest = digest_counts(schema) if content.digest else []
    counts = [*digest, *(profile_counts(schema) if content.profile else [])]
    if not counts:
        return write_files(rows, claimed.uri), {}
    seen = Observation()
    written = write_files(rows.observe(seen, *counts), claimed.uri)
    details: dict[str, Any] = {DIGEST: digest_found(schema, seen.get)} if digest else {}
    if content.profile:
        details[PROFILE] = profile_found(schema, seen.get)
    return written, details


def _conform(frame: DataFrame, claimed: Claim, facts: Facts) -> DataFrame:
    """The declared columns in the declared order, with their own types, so that the schema check sees them."""
    names = [column.name for column in facts.schema]
    if missing := [name for name in names if name not in frame.columns]:
        raise MissingColumnsError(
            f"The result for {claimed.feed.location} lacks the declared columns {', '.join(missing)}; "
            f"it has {', '.join(frame.columns)}. Return these columns, or declare others in `feed_metadata(...)`."
        )
    return frame if frame.columns == names else frame.select(names)
