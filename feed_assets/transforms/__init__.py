"""Pure Spark: DataFrame in, DataFrame out.

Here: what the rows mean, as functions of their arguments alone; see `schemas` for what goes in and comes
out. Not here: Dagster, reading or writing, the clock, and anything that makes Spark compute (`count`,
`collect`, `cache`): the caller decides when and how often.
"""

from feed_assets.sources.expressions import SESSION_SETTINGS
from feed_assets.transforms.canonical import SessionSettingsError, canonical
from feed_assets.transforms.cleaning import (
    BOOKKEEPING,
    REASON,
    VERDICT,
    Reason,
    Verdict,
    judge_ads,
    judge_clicks,
    published_rows,
    quarantined_rows,
    verdict_counts,
)
from feed_assets.transforms.effectiveness import (
    ad_effectiveness,
    ads_with_shared_clicks,
    shared_clicks,
    wilson_interval,
)
from feed_assets.transforms.schemas import (
    AD_CATALOG,
    AD_EFFECTIVENESS,
    CLEAN_ADS,
    CLEAN_CLICKS,
    QUARANTINE,
    as_declared,
)

__all__ = [
    "AD_CATALOG",
    "AD_EFFECTIVENESS",
    "BOOKKEEPING",
    "CLEAN_ADS",
    "CLEAN_CLICKS",
    "QUARANTINE",
    "REASON",
    "SESSION_SETTINGS",
    "VERDICT",
    "Reason",
    "SessionSettingsError",
    "Verdict",
    "ad_effectiveness",
    "ads_with_shared_clicks",
    "as_declared",
    "canonical",
    "judge_ads",
    "judge_clicks",
    "published_rows",
    "quarantined_rows",
    "shared_clicks",
    "verdict_counts",
    "wilson_interval",
]
