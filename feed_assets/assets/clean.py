"""Clean ads and clean clicks: a day of what all partners of one kind sent, as one feed.

Here: the two assets. Not here: what is thrown out and why (`transforms.cleaning`).
"""

from collections.abc import Callable, Mapping, Sequence
from datetime import date, timedelta
from functools import reduce

import dagster as dg
from pyspark.sql import DataFrame

from feed_assets.assets.common import GROUP, IO_MANAGER, OWNERS, Rules
from feed_assets.assets.external import raw_key
from feed_assets.assets.kinds import left_out
from feed_assets.assets.lineage import clean_lineage
from feed_assets.io_manager import feed_metadata
from feed_assets.io_manager.declaration import CONFIGURATION, EVENING_BEFORE
from feed_assets.sources import Kind, Source
from feed_assets.transforms import CLEAN_ADS, CLEAN_CLICKS, canonical, judge_ads, judge_clicks
from feed_assets.transforms.days import ONE_DAY

EVENING_HOURS = 1
"""How far before midnight an event can lie that is delivered again after it: partners retry within minutes."""


def clean_ads(sources: Sequence[Source], partitions: dg.PartitionsDefinition) -> dg.AssetsDefinition:
    """The ads shown on a day, each event once, ready to use."""

    def judge(records: DataFrame, day: date, earlier: DataFrame | None, _: Rules) -> DataFrame:
        return judge_ads(records, day=day, earlier=earlier)

    return _clean(
        "clean_ads",
        sources,
        Kind.ADS,
        partitions,
        judge,
        metadata=feed_metadata("clean-ads/v1.0", CLEAN_ADS, identity=["source", "impression_id"], audited=True),
        description=(
            "The ads shown on a day (UTC), one row an impression: types checked, re-delivered events kept once (the "
            "earliest), what cannot be used set aside in `quarantine/clean-ads` with its reason."
        ),
    )


def clean_clicks(sources: Sequence[Source], partitions: dg.PartitionsDefinition) -> dg.AssetsDefinition:
    """The clicks of a day, each event once, repeated clicks collapsed."""

    def judge(records: DataFrame, day: date, earlier: DataFrame | None, rules: Rules) -> DataFrame:
        repeated_within = timedelta(seconds=rules.repeated_click_seconds)
        return judge_clicks(records, day=day, repeated_within=repeated_within, earlier=earlier)

    return _clean(
        "clean_clicks",
        sources,
        Kind.CLICKS,
        partitions,
        judge,
        metadata=feed_metadata("clean-clicks/v1.0", CLEAN_CLICKS, identity=["source", "click_id"], audited=True),
        description=(
            "The clicks of a day (UTC), one row a click: re-delivered events kept once (the earliest), repeated clicks "
            "of one user on one ad collapsed, what cannot be used set aside in `quarantine/clean-clicks`."
        ),
    )


def _clean(
    name: str,
    all_sources: Sequence[Source],
    kind: Kind,
    partitions: dg.PartitionsDefinition,
    judge: Callable[[DataFrame, date, DataFrame | None, Rules], DataFrame],
    *,
    metadata: dict[str, object],
    description: str,
) -> dg.AssetsDefinition:
    """One asset over all sources of a kind: each brought to the canonical columns, all of them judged together."""
    sources = [source for source in all_sources if source.kind == kind]

    @dg.asset(
        name=name,
        ins={source.name: _records(source) for source in sources},
        partitions_def=partitions,
        io_manager_key=IO_MANAGER,
        group_name=GROUP,
        kinds={"pyspark", "parquet"},
        owners=OWNERS,
        metadata={**metadata, CONFIGURATION: ", ".join(f"{source.name} {source.digest}" for source in sources)},
        description=" ".join(filter(None, [description, left_out(all_sources)])),
        code_version="1",
    )
    def clean(context: dg.AssetExecutionContext, rules: Rules, **records: dict[str, DataFrame]) -> DataFrame:
        day = date.fromisoformat(context.partition_key)
        context.add_output_metadata(clean_lineage(sources))
        today, before = (_events(sources, records, of) for of in (day, day - ONE_DAY))
        return judge(_union(today), day, _union(before) if before else None, rules)

    return clean


def _events(
    sources: Sequence[Source], records: Mapping[str, Mapping[str, DataFrame]], day: date
) -> Sequence[DataFrame]:
    """What each partner that sent something sent of this day, in the canonical columns."""
    return [canonical(records[source.name][str(day)], source) for source in sources if str(day) in records[source.name]]


def _union(frames: Sequence[DataFrame]) -> DataFrame:
    return reduce(DataFrame.unionByName, frames)


def _records(source: Source) -> dg.AssetIn:
    """A frame a day of what a partner sent: the day itself, and the evening before where there is any."""
    return dg.AssetIn(
        raw_key(source),
        input_manager_key=IO_MANAGER,
        dagster_type=dict,
        metadata={EVENING_BEFORE: EVENING_HOURS},
    )
