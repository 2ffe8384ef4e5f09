"""The feeds of the example, the columns of each with a sentence (`comment`), and the kinds of records.

Not here: how values are computed (see the other modules).
"""

from __future__ import annotations

from typing import Final

from pyspark.sql.types import (
    DataType,
    DecimalType,
    DoubleType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

import feed_assets as fa

CLEAN_ADS_FEED: Final = "clean-ads/v1.0"
CLEAN_CLICKS_FEED: Final = "clean-clicks/v1.0"
CATALOG_FEED: Final = "ad-catalog/v1.0"
EFFECTIVENESS_FEED: Final = "ad-effectiveness/v1.0"

COST: Final = DecimalType(18, 6)
"""The cost of one impression: up to a trillion, to a millionth."""

TOTAL_COST: Final = DecimalType(28, 6)
"""The cost of up to ten billion impressions: the type that Spark gives a sum of `COST`."""

TEXT: Final = StringType()
COUNT: Final = LongType()
RATIO: Final = DoubleType()
INSTANT: Final = TimestampType()


def _column(name: str, kind: DataType, comment: str, *, required: bool = False) -> StructField:
    return StructField(name, kind, nullable=not required, metadata={"comment": comment})


CLEAN_ADS: Final = StructType(
    [
        _column("impression_id", TEXT, "Identifies the impression; unique in its day and source.", required=True),
        _column("event_time", INSTANT, "When the ad was shown, UTC.", required=True),
        _column("ad_id", TEXT, "The ad that was shown.", required=True),
        _column("campaign_id", TEXT, "The campaign the ad was shown for."),
        _column("user_id", TEXT, "Who saw it: the partner's name for a person, browser or cohort."),
        _column("placement_id", TEXT, "Where on the page or in the app it was shown."),
        _column("cost", COST, "The cost of the impression, in the partner's currency; NULL if unknown."),
        _column("source", TEXT, "The partner's log that has the impression.", required=True),
    ]
)
"""Ads shown, one row an impression, as published by `clean_ads`."""

CLEAN_CLICKS: Final = StructType(
    [
        _column("click_id", TEXT, "Identifies the click; unique in its day and source.", required=True),
        _column("event_time", INSTANT, "When the user clicked, UTC.", required=True),
        _column("impression_id", TEXT, "The impression that was clicked, if the partner sends it."),
        _column("ad_id", TEXT, "The ad that was clicked.", required=True),
        _column("user_id", TEXT, "Who clicked: the partner's name for a person, browser or cohort."),
        _column("source", TEXT, "The partner's log that has the click.", required=True),
    ]
)
"""Clicks, one row each, as published by `clean_clicks`."""

ADS: Final = fa.Kind.of_schema("ads", CLEAN_ADS, identifier="impression_id")
CLICKS: Final = fa.Kind.of_schema("clicks", CLEAN_CLICKS, identifier="click_id")
KINDS: Final = (ADS, CLICKS)

AD_CATALOG: Final = StructType(
    [
        _column("ad_id", TEXT, "The ad.", required=True),
        _column("campaign_id", TEXT, "The campaign it belongs to."),
        _column("advertiser", TEXT, "Who pays for it."),
        _column("landing_page", TEXT, "Where a click on it leads."),
    ]
)
"""Facts about ads, one row an ad, published by others."""

AD_EFFECTIVENESS: Final = StructType(
    [
        _column("ad_id", TEXT, "An ad that was shown or clicked on the day.", required=True),
        _column(
            "campaign_id",
            TEXT,
            "The campaign it was shown for most often on the day, the first by name if several; the catalog's "
            "if the logs name none.",
        ),
        _column("advertiser", TEXT, "Who pays for it, from the catalog."),
        _column("landing_page", TEXT, "Where a click on it leads, from the catalog."),
        _column("impressions", COUNT, "How often it was shown on the day.", required=True),
        _column("users", COUNT, "How many different known users saw it on the day (exact).", required=True),
        _column("clicks", COUNT, "Impressions of the day that were clicked, on the day or the next.", required=True),
        _column("clicks_next_day", COUNT, "The part of `clicks` after midnight.", required=True),
        _column("ctr", RATIO, "Click-through rate: clicks / impressions; NULL without impressions."),
        _column("ctr_low", RATIO, "Lower end of the 95 % Wilson score interval of `ctr`."),
        _column("ctr_high", RATIO, "Upper end of the 95 % Wilson score interval of `ctr`."),
        _column("cost", TOTAL_COST, "Known costs of the day's impressions, summed; NULL if none is known."),
        _column("cost_per_click", TOTAL_COST, "cost / clicks, to a millionth, half up; NULL without clicks."),
        _column("median_seconds_to_click", RATIO, "Exact median of seconds to the first click; NULL without clicks."),
        _column("repeat_clicks", COUNT, "Later clicks on the day on a clicked impression of the day.", required=True),
        _column(
            "previous_day_clicks",
            COUNT,
            "Clicks on the day on impressions of the day before; that day's row counts them as its own.",
            required=True,
        ),
        _column("orphan_clicks", COUNT, "Clicks on the day that no impression explains.", required=True),
    ]
)
"""How effective each ad was on the day it was shown, one row an ad, as published by `ad_effectiveness`."""
