"""The expectations of the ads' feeds: cleaned events, and effectiveness.

Not here: rules for any feed (`column_rules`, `time_rules`, `row_rules`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from feed_assets.ads.schemas import CLEAN_ADS_FEED, CLEAN_CLICKS_FEED
from feed_assets.datasets.declaration import FeedDeclaration
from feed_assets.quality.column_rules import not_null, schema_as_declared, unique
from feed_assets.quality.expectation import NOT_KNOWN, Expectation, Judgement, Subject
from feed_assets.quality.row_rules import not_empty, quarantined_share, row_count_near_median, rows_accounted
from feed_assets.quality.time_rules import times_inside


def for_clean(declaration: FeedDeclaration) -> tuple[Expectation, ...]:
    """The expectations of a day of cleaned events."""
    own = times_inside("event_time", name="times_inside_day"), rows_accounted(), quarantined_share()
    return *_of_any_feed(declaration), *own


def for_effectiveness(declaration: FeedDeclaration) -> tuple[Expectation, ...]:
    """The expectations of a day of ad effectiveness."""
    return (
        *_of_any_feed(declaration),
        Expectation(
            "clicks_within_impressions",
            "No ad has more clicks than impressions, not counting orphan clicks.",
            _clicks_within_impressions,
            {
                "unexplained_ads": "count_if(clicks > impressions)",
                "explained_ads": "count_if(clicks + orphan_clicks > impressions)",
            },
        ),
        Expectation(
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


def _of_any_feed(declaration: FeedDeclaration) -> tuple[Expectation, ...]:
    return (
        schema_as_declared(),
        # A day without events is legal if there was input; `row_count_as_usual` only warns.
        not_empty(unless_sent_so=True),
        unique(*declaration.identity, name="identity_unique"),
        not_null(*(column.name for column in declaration.columns if not column.nullable), name="required_not_null"),
        row_count_near_median(name="row_count_as_usual"),
    )


def _clicks_within_impressions(_: Subject, counted: Mapping[str, Any]) -> Judgement:
    unexplained, explained = counted["unexplained_ads"], counted["explained_ads"]
    return Judgement(
        unexplained == 0,
        {"ads with more clicks than impressions": unexplained, "explained by orphan clicks": explained},
        f"{unexplained:,} ads have more clicks than impressions, limit 0; orphan clicks explain {explained:,} more.",
    )


def _totals_reconcile(subject: Subject, counted: Mapping[str, Any]) -> Judgement:
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
        return Judgement(passed=False, observed=observed, sentence=f"{sentence}.")
    return Judgement(None if None in (ads, clicks) else True, observed, f"{sentence}.")


def _upstream(subject: Subject, feed: str) -> int | None:
    """The rows that were read of a feed: 0 if it was no input or had no update, None if unknown."""
    return None if subject.upstream_rows is None else subject.upstream_rows.get(feed, 0)
