"""Assets that others make: partners' raw partitions, and feeds published outside this project.

Here: how Dagster knows them. Not here: how they are read; Dagster never makes them.
"""

import dagster as dg

from feed_assets.assets.common import GROUP
from feed_assets.io_manager import feed_metadata, raw_metadata
from feed_assets.io_manager.declaration import COLUMN_SCHEMA
from feed_assets.sources import Source
from feed_assets.transforms import AD_CATALOG

AD_CATALOG_LOCATION = "ad-catalog/v1.0"


def raw_logs(source: Source, partitions: dg.PartitionsDefinition) -> dg.AssetSpec:
    """The hourly raw partitions of one partner, as `feed-assets land` leaves them."""
    return dg.AssetSpec(
        raw_key(source),
        description=(
            f"What {source.name} sent, by the hour of the event, whatever the order and age in which it came. "
            f"Landed with `feed-assets land {source.name} FILE...`; growth of {source.growth_threshold_percent} % "
            f"or more within {source.lookback_days} days makes a day run again. In a clone of the project the "
            "program is `.venv/bin/feed-assets`, here and in other hints."
        ),
        group_name="raw",
        kinds={"parquet"},
        owners=["team:partners"],
        partitions_def=partitions,
        metadata={**raw_metadata(source.key), **_columns(source)},
    )


def _columns(source: Source) -> dict[str, dg.TableSchema]:
    """The partner's columns, as far as the source declares them."""
    columns = [dg.TableColumn(name, type_) for name, type_ in source.format.declared.items()]
    return {COLUMN_SCHEMA: dg.TableSchema(columns)} if columns else {}


def raw_key(source: Source) -> dg.AssetKey:
    """The asset key of a source's raw partitions."""
    return dg.AssetKey(["raw", source.kind.value, source.name])


def ad_catalog() -> dg.AssetSpec:
    """The external feed that says whose ad an ad is. Optional: effectiveness is enriched where it is there."""
    return dg.AssetSpec(
        "ad_catalog",
        description=(
            "Campaign, advertiser and landing page of each ad: an unpartitioned feed that others publish, for "
            f"example with `feed-assets feed publish <base>/{AD_CATALOG_LOCATION} catalog.csv`."
        ),
        group_name=GROUP,
        kinds={"csv"},
        owners=["team:campaigns"],
        metadata=feed_metadata(AD_CATALOG_LOCATION, AD_CATALOG, identity=["ad_id"]),
    )
