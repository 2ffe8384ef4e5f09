"""What good data is, and the audit that publishes it or turns it away.

Here: expectations and the checks made of them. Not here: how data is made.
"""

from feed_assets.checks.ads import for_clean, for_effectiveness
from feed_assets.checks.audit import Limits, audit
from feed_assets.checks.expectation import Expectation, Judgement, Reference, Subject
from feed_assets.checks.ready_made import (
    accepted_values,
    fresh,
    in_range,
    not_empty,
    not_null,
    quarantined_share,
    references,
    row_count_near_median,
    rows_accounted,
    schema_as_declared,
    times_inside,
    unique,
)

__all__ = [
    "Expectation",
    "Judgement",
    "Limits",
    "Reference",
    "Subject",
    "accepted_values",
    "audit",
    "for_clean",
    "for_effectiveness",
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
