"""Writing the result of a step: the files of an update and of its quarantine, and the account of the rows.

Not here: reading (`step`), and publishing (`step`, `audit`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import datetime

from pyspark.sql import DataFrame, Observation

from feed_assets.engine.judged_rows import BOOKKEEPING, VERDICT, published_rows, verdict_counts
from feed_assets.engine.update_files import write_files
from feed_assets.file_feed import Claim, Facts, FeedError, Rows, Staged, stage, staged_files
from feed_assets.steps.quarantining import stage_quarantine


class MissingColumnsError(FeedError):
    """A result lacks columns that its feed declares."""


def write(claimed: Claim, frame: DataFrame, facts: Facts, *, read: int, now: Callable[[], datetime]) -> Staged:
    """Write the rows in the declared columns, `facts.schema`, and stage them; with a verdict also the quarantine.

    `read` is how many raw records there are of this partition. Raises MissingColumnsError.
    """
    if VERDICT not in frame.columns:
        written = write_files(_conform(frame, claimed, facts), claimed.uri)
        rows = Rows(read=written.rows, published=written.rows, quarantined=0, duplicates=0, reasons={})
        facts = replace(facts, rows=rows)
    else:
        # Without the columns that only the quarantine needs: `observe` passes on whole rows.
        verdicts = Observation()
        judged = frame.drop(*BOOKKEEPING).observe(verdicts, *verdict_counts(frame))
        written = write_files(_conform(published_rows(judged), claimed, facts), claimed.uri)
        counts = {name: int(value or 0) for name, value in verdicts.get.items()}
        rows = _rows(counts, read=read, published=written.rows)
        details = stage_quarantine(claimed, frame, rows, facts, now=now())
        facts = replace(facts, rows=rows, details={**facts.details, **details})
    return stage(claimed, staged_files(claimed, written.files), facts, now=now())


def _conform(frame: DataFrame, claimed: Claim, facts: Facts) -> DataFrame:
    """The declared columns in the declared order, with their own types, so that the schema check sees them."""
    names = [column.name for column in facts.schema]
    if missing := [name for name in names if name not in frame.columns]:
        raise MissingColumnsError(
            f"The result for {claimed.feed.location} lacks the declared columns {', '.join(missing)}; "
            f"it has {', '.join(frame.columns)}. Return these columns, or declare others in `feed_metadata(...)`."
        )
    return frame.select(names)


def _rows(counts: Mapping[str, int], *, read: int, published: int) -> Rows:
    """The accounting of one write: each number has its own count, so that a check can compare them."""
    quarantined = {name: count for name, count in counts.items() if name.startswith("quarantined") and count}
    duplicates = {name: count for name, count in counts.items() if name.startswith("duplicate") and count}
    return Rows(
        read=read,
        published=published,
        quarantined=sum(quarantined.values()),
        duplicates=sum(duplicates.values()),
        reasons={**quarantined, **duplicates},
    )
