"""The counts of a judged frame, as a step takes them while it writes: published rows, other rows, and reasons."""

from __future__ import annotations

from pyspark.sql import DataFrame, Observation

from feed_assets.engine.judged_rows import published_rows, quarantined_rows, reason_counts, verdict_counts


def counts_of(judged: DataFrame) -> dict[str, int]:
    """The number of rows by verdict; of duplicates and of quarantined rows also by reason."""
    verdicts, reasons = Observation(), Observation()
    published = published_rows(judged.observe(verdicts, *verdict_counts(judged))).count()
    quarantined_rows(judged).observe(reasons, *reason_counts(judged)).count()
    return {"published": published, **verdicts.get, **reasons.get}
