"""The worked example: how effective ads were, as pure Spark.

Here: what an ad and a click are: their columns, rules and results, as functions of their arguments alone. Nothing below
or beside this room knows an ad. Not here: Dagster, reading or writing, the clock, and anything that makes Spark compute
(`count`, `collect`, `cache`): the caller decides when and how often.
"""

from feed_assets.ads.cleaning import judge_ads, judge_clicks
from feed_assets.ads.effectiveness import (
    ad_effectiveness,
    ads_with_shared_clicks,
    shared_clicks,
    wilson_interval,
)
from feed_assets.ads.kinds import ADS, CLICKS, KINDS
from feed_assets.ads.schemas import AD_CATALOG, AD_EFFECTIVENESS, CLEAN_ADS, CLEAN_CLICKS

__all__ = [
    "ADS",
    "AD_CATALOG",
    "AD_EFFECTIVENESS",
    "CLEAN_ADS",
    "CLEAN_CLICKS",
    "CLICKS",
    "KINDS",
    "ad_effectiveness",
    "ads_with_shared_clicks",
    "judge_ads",
    "judge_clicks",
    "shared_clicks",
    "wilson_interval",
]
