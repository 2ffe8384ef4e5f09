"""The asset of ad effectiveness. Not here: attribution, statistics (`ads.effectiveness`), its metadata (`figures`)."""

from collections.abc import Mapping
from datetime import date, timedelta
from typing import Any

import dagster as dg
from pyspark.sql import DataFrame, Observation

import feed_assets as fa
from feed_assets.ads.assets.clean import NO_GATE
from feed_assets.ads.assets.effectiveness_lineage import effectiveness_lineage
from feed_assets.ads.assets.figures import effectiveness_aggregates, effectiveness_figures
from feed_assets.ads.assets.rules import GROUP, OWNERS, Rules
from feed_assets.ads.effectiveness import ads_with_shared_clicks, shared_clicks
from feed_assets.ads.schemas import AD_EFFECTIVENESS, EFFECTIVENESS_FEED

IO_MANAGER = "file_feed"


def ad_effectiveness(partitions: dg.PartitionsDefinition, gate: Mapping[str, Any] = NO_GATE) -> dg.AssetsDefinition:
    """Impressions, clicks, click-through rate and cost of every ad, for each day on which it was shown."""

    @dg.asset(
        ins={
            "clean_ads": dg.AssetIn(partition_mapping=fa.NEIGHBOURING_DAYS, metadata={fa.CONTEXT: True}),
            "clean_clicks": dg.AssetIn(partition_mapping=fa.NEXT_DAY),
            "ad_catalog": dg.AssetIn(input_manager_key=IO_MANAGER, metadata={fa.OPTIONAL: True}),
        },
        partitions_def=partitions,
        io_manager_key=IO_MANAGER,
        group_name=GROUP,
        kinds={"pyspark", "parquet"},
        owners=OWNERS,
        metadata={
            **fa.feed_metadata(
                EFFECTIVENESS_FEED,
                AD_EFFECTIVENESS,
                identity=["ad_id"],
                audited=True,
                warehouse="ad_effectiveness",
                figures=fa.Figures(
                    "campaign_id", ("impressions", "clicks", "cost"), (("CTR", "clicks", "impressions"),)
                ),
            ),
            **gate,
        },
        description=(
            "One row for each ad that was shown or clicked on a day (UTC). A click counts for the day on which the ad "
            "was shown, so a day also reads the next day's clicks, and runs again when they arrive. The ads of the "
            "neighbouring days only attribute clicks near midnight: when they change, a day runs again if it and its "
            "neighbour no longer agree about these clicks."
        ),
        code_version="1",
    )
    def ad_effectiveness(
        context: dg.AssetExecutionContext,
        rules: Rules,
        clean_ads: DataFrame,
        clean_clicks: DataFrame,
        ad_catalog: DataFrame,
    ) -> fa.Observed:
        rows = ads_with_shared_clicks(
            clean_ads,
            clean_clicks,
            ad_catalog,
            day=date.fromisoformat(context.partition_key),
            attribution_window=timedelta(hours=rules.attribution_window_hours),
        )
        summary = Observation()

        def metadata() -> dict[str, Any]:
            found = summary.get
            return {**effectiveness_figures(found), **effectiveness_lineage(), fa.BOUNDARY: _boundary(found)}

        return fa.Observed(rows.observe(summary, *effectiveness_aggregates(), *shared_clicks()), metadata)

    return ad_effectiveness


def _boundary(summary: Mapping[str, Any]) -> dict[str, str]:
    """The digests of the clicks that the day shares with the day before and the day after."""
    digests = {side: summary.get(side) for side in ("before", "after")}
    return {side: f"{digest & 0xFFFFFFFFFFFFFFFF:016x}" if digest else "" for side, digest in digests.items()}
