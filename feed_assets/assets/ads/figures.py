"""The figures of a day of ad effectiveness in its metadata: totals that Dagster plots, a sketch and the top ads."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import dagster as dg
from pyspark.sql import Column, functions

from feed_assets.assets.ads import sketches

TOP_ADS = 20
SHOWN = (
    "ad_id", "campaign_id", "impressions", "users", "clicks", "ctr", "ctr_low", "ctr_high", "cost", "orphan_clicks",
)  # fmt: skip


TOTALS = ("impressions", "clicks", "orphan_clicks")


def effectiveness_aggregates() -> list[Column]:
    """The aggregates over a day's `AD_EFFECTIVENESS` rows that its figures are made of."""
    aggregates = (
        "count(1) AS ads",
        *(f"coalesce(sum({name}), 0) AS {name}" for name in TOTALS),
        f"min_by(struct({', '.join(SHOWN)}), struct(-impressions, ad_id), {TOP_ADS}) AS top",
    )
    return [functions.expr(each) for each in aggregates]


def effectiveness_figures(summary: Mapping[str, Any]) -> dict[str, Any]:
    """The metadata of a day's result from its `effectiveness_aggregates`; Spark has none for a day without rows.

    Totals are plain numbers, which Dagster plots over the days.
    """
    ads, impressions, clicked, orphans = (summary.get(name) or 0 for name in ("ads", *TOTALS))
    top = [each.asDict() for each in summary.get("top") or ()]
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
