"""Rules that judge records, expectations over an update, and the counts that decide them.

Here: rules, the update under audit, counting for them. Not here: publishing or rejecting (`steps`), Dagster (`checks`,
which has the expectations for a project's audits).
"""

from feed_assets.quality.judging import Rule, deliveries, judge, missing, unparsable, verdicts

__all__ = ["Rule", "deliveries", "judge", "missing", "unparsable", "verdicts"]
