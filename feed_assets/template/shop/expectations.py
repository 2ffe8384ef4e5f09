"""The expectations of the audits: an update that fails one is rejected.

Here: rules for a whole update. Not here: rules for single records (`transforms`).
"""

from collections.abc import Mapping
from typing import Any

from feed_assets import checks

CURRENCIES = ("EUR", "GBP", "USD")
UNCONVERTED_PERCENT = 50


def _mostly_converted(_: checks.Subject, counted: Mapping[str, Any]) -> checks.Judgement:
    percent = 100 * counted["unconverted"] / (counted["records"] or 1)
    return checks.Judgement(
        percent <= UNCONVERTED_PERCENT,
        {"percent": round(percent, 1)},
        f"{percent:.1f} % of orders and refunds have no exchange rate, limit {UNCONVERTED_PERCENT} %.",
    )


OF_REVENUE = (
    checks.schema_as_declared(),
    checks.not_empty(unless_sent_so=True),
    checks.unique("product_id"),
    # An expectation of our own: a name, a sentence, a function, and the SQL aggregates that the function gets.
    checks.Expectation(
        "mostly_converted",
        "Most orders and refunds have an exchange rate.",
        _mostly_converted,
        {"records": "coalesce(sum(orders + refunds), 0)", "unconverted": "coalesce(sum(unconverted), 0)"},
    ),
)


def of_records(identifier: str) -> list[checks.Expectation]:
    """The expectations of a day of orders or refunds."""
    return [
        checks.schema_as_declared(),
        checks.not_empty(unless_sent_so=True),
        checks.unique("source", identifier),
        checks.times_inside("event_time"),
        checks.accepted_values("currency", *CURRENCIES),
        checks.rows_accounted(),
        checks.quarantined_share(),
    ]
