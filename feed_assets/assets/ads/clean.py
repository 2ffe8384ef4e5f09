"""Clean ads and clean clicks: a day of what all partners of one kind sent, as one feed.

Here: the two assets. Not here: what is thrown out and why (`ads.cleaning`), and what cleaned assets of every kind have
in common (`cleaned`).
"""

from collections.abc import Sequence
from datetime import date, timedelta

import dagster as dg
from pyspark.sql import DataFrame

from feed_assets.ads import ADS, CLEAN_ADS, CLEAN_CLICKS, CLICKS, judge_ads, judge_clicks
from feed_assets.assets.ads.fed_kinds import left_out
from feed_assets.assets.ads.rules import GROUP, OWNERS, Rules
from feed_assets.assets.cleaned import cleaned
from feed_assets.io_manager import feed_metadata
from feed_assets.sources import Source

RULES = "rules"


def clean_ads(sources: Sequence[Source], partitions: dg.PartitionsDefinition) -> dg.AssetsDefinition:
    """The ads shown on a day, each event once, ready to use."""

    def judge(_: dg.AssetExecutionContext, records: DataFrame, day: date, earlier: DataFrame | None) -> DataFrame:
        return judge_ads(records, day=day, earlier=earlier)

    description = (
        "The ads shown on a day (UTC), one row an impression: types checked, re-delivered events kept once (the "
        "earliest), what cannot be used set aside in `quarantine/clean-ads` with its reason."
    )
    return cleaned(
        "clean_ads",
        ADS,
        sources,
        partitions,
        judge,
        metadata=feed_metadata("clean-ads/v1.0", CLEAN_ADS, identity=["source", "impression_id"], audited=True),
        required_resource_keys={RULES},  # none is used yet; a run may be configured with them all the same
        description=_described(description, sources),
        group_name=GROUP,
        owners=OWNERS,
    )


def clean_clicks(sources: Sequence[Source], partitions: dg.PartitionsDefinition) -> dg.AssetsDefinition:
    """The clicks of a day, each event once, repeated clicks collapsed."""

    def judge(context: dg.AssetExecutionContext, records: DataFrame, day: date, earlier: DataFrame | None) -> DataFrame:
        rules: Rules = context.resources.rules
        repeated_within = timedelta(seconds=rules.repeated_click_seconds)
        return judge_clicks(records, day=day, repeated_within=repeated_within, earlier=earlier)

    description = (
        "The clicks of a day (UTC), one row a click: re-delivered events kept once (the earliest), repeated clicks "
        "of one user on one ad collapsed, what cannot be used set aside in `quarantine/clean-clicks`."
    )
    return cleaned(
        "clean_clicks",
        CLICKS,
        sources,
        partitions,
        judge,
        metadata=feed_metadata("clean-clicks/v1.0", CLEAN_CLICKS, identity=["source", "click_id"], audited=True),
        required_resource_keys={RULES},
        description=_described(description, sources),
        group_name=GROUP,
        owners=OWNERS,
    )


def _described(description: str, sources: Sequence[Source]) -> str:
    """The description, and which assets this installation has not."""
    return " ".join(filter(None, [description, left_out(sources)]))
