"""The worked example: how effective ads were, as pure Spark.

Here: the columns, rules and results of ads and clicks, as pure functions. No other room on this level or below knows
ads. Not here: Dagster, reading, writing, the clock, and calls that make Spark compute (`count`, `collect`, `cache`).
"""

from feed_assets.ads.cleaning import check_ads, check_clicks, judge_ads, judge_clicks
from feed_assets.ads.effectiveness import ads_with_shared_clicks, shared_clicks, wilson_interval
from feed_assets.ads.schemas import AD_CATALOG, AD_EFFECTIVENESS, ADS, CLEAN_ADS, CLEAN_CLICKS, CLICKS, KINDS

__all__ = [
    "ADS",
    "AD_CATALOG",
    "AD_EFFECTIVENESS",
    "CLEAN_ADS",
    "CLEAN_CLICKS",
    "CLICKS",
    "KINDS",
    "ads_with_shared_clicks",
    "check_ads",
    "check_clicks",
    "judge_ads",
    "judge_clicks",
    "shared_clicks",
    "wilson_interval",
]
