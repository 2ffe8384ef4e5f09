"""Clean ads and clean clicks: a day of what all partners of one kind sent, as one feed.

Here: the two assets. Not here: what is thrown out and why (`transforms.cleaning`).
"""

from collections.abc import Callable, Sequence
from datetime import date, timedelta
from functools import reduce

import dagster as dg
from pyspark.sql import DataFrame

from feed_assets.assets.common import GROUP, IO_MANAGER, OWNERS, Rules
from feed_assets.assets.external import raw_key
from feed_assets.io_manager import feed_metadata
from feed_assets.sources import Source
from feed_assets.transforms import CLEAN_ADS, CLEAN_CLICKS, canonical, judge_ads, judge_clicks


def clean_ads(sources: Sequence[Source], partitions: dg.PartitionsDefinition) -> dg.AssetsDefinition:
    """The ads shown on a day, each event once, ready to use."""

    def judge(records: DataFrame, day: date, _: Rules) -> DataFrame:
        return judge_ads(records, day=day)

    return _clean(
        "clean_ads",
        [source for source in sources if source.kind == "ads"],
        partitions,
        judge,
        metadata=feed_metadata("clean-ads/v1.0", CLEAN_ADS, identity=["impression_id"], audited=True),
        description=(
            "The ads shown on a day (UTC), one row an impression: types checked, re-delivered events kept once (the "
            "earliest), what cannot be used set aside in `quarantine/clean-ads` with its reason."
        ),
    )


def clean_clicks(sources: Sequence[Source], partitions: dg.PartitionsDefinition) -> dg.AssetsDefinition:
    """The clicks of a day, each event once, repeated clicks collapsed."""

    def judge(records: DataFrame, day: date, rules: Rules) -> DataFrame:
        return judge_clicks(records, day=day, repeated_within=timedelta(seconds=rules.repeated_click_seconds))

    return _clean(
        "clean_clicks",
        [source for source in sources if source.kind == "clicks"],
        partitions,
        judge,
        metadata=feed_metadata("clean-clicks/v1.0", CLEAN_CLICKS, identity=["click_id"], audited=True),
        description=(
            "The clicks of a day (UTC), one row a click: re-delivered events kept once (the earliest), repeated clicks "
            "of one user on one ad collapsed, what cannot be used set aside in `quarantine/clean-clicks`."
        ),
    )


def _clean(
    name: str,
    sources: Sequence[Source],
    partitions: dg.PartitionsDefinition,
    judge: Callable[[DataFrame, date, Rules], DataFrame],
    *,
    metadata: dict[str, object],
    description: str,
) -> dg.AssetsDefinition:
    """One asset over all sources of a kind: each brought to the canonical columns, all of them judged together."""

    @dg.asset(
        name=name,
        ins={source.name: dg.AssetIn(raw_key(source), input_manager_key=IO_MANAGER) for source in sources},
        partitions_def=partitions,
        io_manager_key=IO_MANAGER,
        group_name=GROUP,
        kinds={"pyspark", "parquet"},
        owners=OWNERS,
        metadata=metadata,
        description=description,
        code_version="1",
    )
    def clean(context: dg.AssetExecutionContext, rules: Rules, **records: DataFrame) -> DataFrame:
        frames = [canonical(records[source.name], source) for source in sources]
        day = date.fromisoformat(context.partition_key)
        return judge(reduce(DataFrame.unionByName, frames), day, rules)

    return clean
