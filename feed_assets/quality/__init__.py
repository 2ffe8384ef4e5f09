"""Rules that judge records, expectations over an update, and the counts that decide them.

Not here: publishing or rejecting (`steps`), and Dagster (`checks`, with the expectations for a project's audits).
"""

from feed_assets.quality.judging import Rule, check, deliveries, judge, missing, unparsable, verdicts

__all__ = ["Rule", "check", "deliveries", "judge", "missing", "unparsable", "verdicts"]
