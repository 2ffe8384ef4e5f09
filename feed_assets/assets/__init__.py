"""The nouns of this project, as Dagster assets.

Here: wiring, metadata, owners, descriptions of the ad assets; and, for sources of any kind, their raw partitions
(`external`) and their cleaned asset (`cleaned`). Not here: business rules (`ads`), reading and writing (`io_manager`),
what good data is (`checks`).
"""

from feed_assets.assets.ad_catalog import ad_catalog
from feed_assets.assets.ad_effectiveness import ad_effectiveness
from feed_assets.assets.catalog import in_catalog
from feed_assets.assets.clean import clean_ads, clean_clicks
from feed_assets.assets.cleaned import Judge, cleaned
from feed_assets.assets.external import raw_key, raw_logs
from feed_assets.assets.fed_kinds import fed_kinds, left_out

__all__ = [
    "Judge",
    "ad_catalog",
    "ad_effectiveness",
    "clean_ads",
    "clean_clicks",
    "cleaned",
    "fed_kinds",
    "in_catalog",
    "left_out",
    "raw_key",
    "raw_logs",
]
