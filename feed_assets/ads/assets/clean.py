"""The assets clean ads and clean clicks. Not here: their rules (`ads.cleaning`), and the factory (`fa.cleaned`)."""

from collections.abc import Mapping, Sequence
from datetime import date, timedelta
from types import MappingProxyType
from typing import Any

import dagster as dg
from pyspark.sql import DataFrame

import feed_assets as fa
from feed_assets.ads.assets.fed_kinds import left_out
from feed_assets.ads.assets.rules import GROUP, OWNERS, Rules
from feed_assets.ads.cleaning import check_ads, check_clicks, judge_ads, judge_clicks
from feed_assets.ads.schemas import ADS, CLEAN_ADS, CLEAN_ADS_FEED, CLEAN_CLICKS, CLEAN_CLICKS_FEED, CLICKS

RULES = "rules"

NO_GATE: Mapping[str, Any] = MappingProxyType({})
"""The metadata of an asset without a trigger."""

HOURLY = {ADS.name: fa.Hourly(check_ads, CLEAN_ADS), CLICKS.name: fa.Hourly(check_clicks, CLEAN_CLICKS)}
"""How the records of each kind are checked hour by hour, in installations that do."""


def clean_ads(
    sources: Sequence[fa.Source],
    partitions: dg.PartitionsDefinition,
    hourly: fa.Hourly | None = None,
    gate: Mapping[str, Any] = NO_GATE,
) -> dg.AssetsDefinition:
    """The ads shown on a day, each event once, ready to use."""

    def judge(_: dg.AssetExecutionContext, records: DataFrame, day: date, earlier: DataFrame | None) -> DataFrame:
        return judge_ads(records, day=day, earlier=earlier)

    description = (
        "The ads shown on a day (UTC), one row for each impression, with checked types. Of a re-delivered event, the "
        "earliest record is kept. Records that cannot be used are in `quarantine/clean-ads` with their reasons."
    )
    return fa.cleaned(
        "clean_ads",
        ADS,
        sources,
        partitions,
        judge,
        hourly=hourly,
        metadata={
            **fa.feed_metadata(CLEAN_ADS_FEED, CLEAN_ADS, identity=["source", "impression_id"], audited=True),
            **gate,
        },
        required_resource_keys={RULES},  # unused, but a run's configuration may have them
        description=_described(description, sources),
        group_name=GROUP,
        owners=OWNERS,
    )


def clean_clicks(
    sources: Sequence[fa.Source],
    partitions: dg.PartitionsDefinition,
    hourly: fa.Hourly | None = None,
    gate: Mapping[str, Any] = NO_GATE,
) -> dg.AssetsDefinition:
    """The clicks of a day, each event once, repeated clicks collapsed."""

    def judge(context: dg.AssetExecutionContext, records: DataFrame, day: date, earlier: DataFrame | None) -> DataFrame:
        rules: Rules = context.resources.rules
        repeated_within = timedelta(seconds=rules.repeated_click_seconds)
        return judge_clicks(records, day=day, repeated_within=repeated_within, earlier=earlier)

    description = (
        "The clicks of a day (UTC), one row for each click. Of a re-delivered event, the earliest record is kept. "
        "Repeated clicks of one user on one ad count once. Records that cannot be used are in "
        "`quarantine/clean-clicks` with their reasons."
    )
    return fa.cleaned(
        "clean_clicks",
        CLICKS,
        sources,
        partitions,
        judge,
        hourly=hourly,
        metadata={
            **fa.feed_metadata(CLEAN_CLICKS_FEED, CLEAN_CLICKS, identity=["source", "click_id"], audited=True),
            **gate,
        },
        required_resource_keys={RULES},
        description=_described(description, sources),
        group_name=GROUP,
        owners=OWNERS,
    )


def _described(description: str, sources: Sequence[fa.Source]) -> str:
    """The description, and the assets that this installation does not have."""
    return " ".join(filter(None, [description, left_out(sources)]))
