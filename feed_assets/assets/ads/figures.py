"""The figures of a day of ad effectiveness in its metadata: totals that Dagster plots, a sketch and the top ads."""

from __future__ import annotations

from typing import Any

import dagster as dg
from pyspark.sql import DataFrame, functions

from feed_assets.assets.ads import sketches

TOP_ADS = 20
SHOWN = (
    "ad_id", "campaign_id", "impressions", "users", "clicks", "ctr", "ctr_low", "ctr_high", "cost", "orphan_clicks",
)  # fmt: skip


def effectiveness_figures(result: DataFrame) -> dict[str, Any]:
    """The metadata of a day's result, `AD_EFFECTIVENESS` rows; persist it first: it is read twice.

    Totals are plain numbers, which Dagster plots over the days.
    """
    names = ("impressions", "clicks", "orphan_clicks")
    (row,) = result.agg(
        functions.count(functions.lit(1)).alias("ads"), *(functions.sum(name).alias(name) for name in names)
    ).collect()
    ads, impressions, clicked, orphans = (row[name] or 0 for name in ("ads", *names))
    top = [each.asDict() for each in result.orderBy(functions.desc("impressions"), "ad_id").limit(TOP_ADS).collect()]
    records = [dg.TableRecord({name: _cell(each[name]) for name in SHOWN}) for each in top]
    rate = {"click-through rate, %": round(100 * clicked / impressions, 4)} if impressions else {}
    return {
        "click-through rate": dg.MetadataValue.md(sketches.click_through_sketch(top)),
        "ads": ads,
        "impressions": impressions,
        "clicks": clicked,
        **rate,
        "orphan clicks": orphans,
        "top ads": dg.MetadataValue.table(records) if records else dg.MetadataValue.text("no ads"),
    }


def _cell(value: object) -> str | int | float | bool | None:
    if isinstance(value, float):
        return round(value, 5)
    return value if isinstance(value, str | int) or value is None else str(value)
