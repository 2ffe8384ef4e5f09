"""The ad catalog as an external asset: a feed that others publish. Dagster never makes it."""

import dagster as dg

import feed_assets as fa
from feed_assets.ads.assets.rules import GROUP
from feed_assets.ads.schemas import AD_CATALOG, CATALOG_FEED


def ad_catalog() -> dg.AssetSpec:
    """The external feed with each ad's campaign and advertiser. Optional: it enriches effectiveness if it exists."""
    return dg.AssetSpec(
        "ad_catalog",
        description=(
            "Campaign, advertiser and landing page of each ad. A feed without partitions that others publish, for "
            f"example with `feed-assets feed publish <base>/{CATALOG_FEED} catalog.csv`."
        ),
        group_name=GROUP,
        kinds={"csv"},
        owners=["team:campaigns"],
        metadata=fa.feed_metadata(CATALOG_FEED, AD_CATALOG, identity=["ad_id"]),
    )
