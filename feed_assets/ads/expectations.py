"""The expectations of the ads' feeds: cleaned events, and effectiveness.

Not here: rules for any feed (`fa.checks`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import feed_assets as fa
from feed_assets import checks
from feed_assets.ads.schemas import CLEAN_ADS_FEED, CLEAN_CLICKS_FEED

NOT_KNOWN: Final = "not known: no record"


def for_clean(declaration: fa.FeedDeclaration) -> tuple[checks.Expectation, ...]:
    """The expectations of a day of cleaned events."""
    own = (
        checks.times_inside("event_time", name="times_inside_day"),
        checks.rows_accounted(),
        checks.quarantined_share(),
    )
    return *_of_any_feed(declaration), *own


def for_effectiveness(declaration: fa.FeedDeclaration) -> tuple[checks.Expectation, ...]:
    """The expectations of a day of ad effectiveness."""
    return (
        *_of_any_feed(declaration),
        checks.Expectation(
            "clicks_within_impressions",
            "No ad has more clicks than impressions, not counting orphan clicks.",
            _clicks_within_impressions,
            {
                "unexplained_ads": "count_if(clicks > impressions)",
                "explained_ads": "count_if(clicks + orphan_clicks > impressions)",
            },
        ),
        checks.Expectation(
            "totals_reconcile",
            "Impressions and clicks add up to the rows of the cleaned input feeds.",
            _totals_reconcile,
            {
                "impressions": "coalesce(sum(impressions), 0)",
                "clicks": "coalesce(sum("
                "clicks - clicks_next_day + repeat_clicks + previous_day_clicks + orphan_clicks), 0)",
            },
        ),
    )


def _of_any_feed(declaration: fa.FeedDeclaration) -> tuple[checks.Expectation, ...]:
    return (
        checks.schema_as_declared(),
        # A day without events is legal if there was input; `row_count_as_usual` only warns.
        checks.not_empty(unless_sent_so=True),
        checks.unique(*declaration.identity, name="identity_unique"),
        checks.not_null(
            *(column.name for column in declaration.columns if not column.nullable), name="required_not_null"
        ),
        checks.row_count_near_median(name="row_count_as_usual"),
    )


def _clicks_within_impressions(_: checks.Subject, counted: Mapping[str, Any]) -> checks.Judgement:
    unexplained, explained = counted["unexplained_ads"], counted["explained_ads"]
    return checks.Judgement(
        unexplained == 0,
        {"ads with more clicks than impressions": unexplained, "explained by orphan clicks": explained},
        f"{unexplained:,} ads have more clicks than impressions, limit 0; orphan clicks explain {explained:,} more.",
    )


def _totals_reconcile(subject: checks.Subject, counted: Mapping[str, Any]) -> checks.Judgement:
    ads, clicks = (_upstream(subject, feed) for feed in (CLEAN_ADS_FEED, CLEAN_CLICKS_FEED))
    observed = {
        "impressions": counted["impressions"],
        "rows of clean ads": NOT_KNOWN if ads is None else ads,
        "clicks": counted["clicks"],
        "rows of clean clicks": NOT_KNOWN if clicks is None else clicks,
    }
    sentence = "; ".join(
        f"{found:,} {what} from " + ("a feed whose update is gone" if rows is None else f"{rows:,} rows of {feed}")
        for what, found, rows, feed in (
            ("impressions", counted["impressions"], ads, CLEAN_ADS_FEED),
            ("clicks", counted["clicks"], clicks, CLEAN_CLICKS_FEED),
        )
    )
    if ads not in (None, counted["impressions"]) or clicks not in (None, counted["clicks"]):
        return checks.Judgement(passed=False, observed=observed, sentence=f"{sentence}.")
    return checks.Judgement(None if None in (ads, clicks) else True, observed, f"{sentence}.")


def _upstream(subject: checks.Subject, feed: str) -> int | None:
    """The rows that were read of a feed: 0 if it was no input or had no update, None if unknown."""
    return None if subject.upstream_rows is None else subject.upstream_rows.get(feed, 0)
