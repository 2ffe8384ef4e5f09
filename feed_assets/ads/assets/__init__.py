"""The assets of the worked example: clean ads, clean clicks, ad effectiveness, and the catalog that others publish.

Here: their wiring, metadata, owners and descriptions. Not here: business rules (`feed_assets.ads`), and the parts that
assets of any kind share (`feed_assets.assets`).
"""

from feed_assets.ads.assets.ad_catalog import ad_catalog
from feed_assets.ads.assets.ad_effectiveness import ad_effectiveness
from feed_assets.ads.assets.clean import HOURLY, clean_ads, clean_clicks
from feed_assets.ads.assets.fed_kinds import fed_kinds, left_out
from feed_assets.ads.assets.rules import Rules

__all__ = ["HOURLY", "Rules", "ad_catalog", "ad_effectiveness", "clean_ads", "clean_clicks", "fed_kinds", "left_out"]
