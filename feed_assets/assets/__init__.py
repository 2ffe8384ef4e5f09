"""The nouns of this project, as Dagster assets.

Here: wiring, metadata, kinds, owners, descriptions. Not here: business rules (`transforms`), reading and
writing (`io_manager`), what good data is (`checks`).
"""

from feed_assets.assets.ad_effectiveness import ad_effectiveness
from feed_assets.assets.catalog import in_catalog
from feed_assets.assets.clean import clean_ads, clean_clicks
from feed_assets.assets.external import ad_catalog, raw_key, raw_logs
from feed_assets.assets.kinds import fed_kinds, left_out

__all__ = [
    "ad_catalog",
    "ad_effectiveness",
    "clean_ads",
    "clean_clicks",
    "fed_kinds",
    "in_catalog",
    "left_out",
    "raw_key",
    "raw_logs",
]
