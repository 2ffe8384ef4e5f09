"""Expectations of data, and the audit that publishes or rejects it as Dagster checks."""

from feed_assets.checks.asset_checks import Limits, audit
from feed_assets.checks.deeper_checks import deeper
from feed_assets.quality.column_rules import accepted_values, in_range, not_null, references, schema_as_declared, unique
from feed_assets.quality.expectation import Expectation, Judgement, Reference, Subject
from feed_assets.quality.row_rules import not_empty, quarantined_share, row_count_near_median, rows_accounted
from feed_assets.quality.time_rules import fresh, times_inside

__all__ = [
    "Expectation",
    "Judgement",
    "Limits",
    "Reference",
    "Subject",
    "accepted_values",
    "audit",
    "deeper",
    "fresh",
    "in_range",
    "not_empty",
    "not_null",
    "quarantined_share",
    "references",
    "row_count_near_median",
    "rows_accounted",
    "schema_as_declared",
    "times_inside",
    "unique",
]
