"""The figures of a day of ad effectiveness in its metadata: totals that Dagster plots, a sketch and the top ads."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import dagster as dg
from pyspark.sql import Column, functions

from feed_assets.ads.assets import sketches

TOP_ADS = 20
LONGEST_NAME = 36
"""Characters of an ad's or a campaign's name in the table: a UUID is whole, and the UI does not cut the page off."""
SHOWN = ("ad_id", "campaign_id", "impressions", "clicks", "ctr", "ctr_low", "ctr_high", "cost")

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

    Totals are plain numbers, which Dagster plots over the days. The UI cuts off all values of the metadata on the right
    if a table among them is wider than half of a page.
    """
    ads, impressions, clicked, orphans = (summary.get(name) or 0 for name in ("ads", *TOTALS))
    top = [each.asDict() for each in summary.get("top") or ()]
    records = [dg.TableRecord(_row(each)) for each in top]
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


def _row(ad: Mapping[str, Any]) -> dict[str, str | int | float | None]:
    """A line of the table, with rates in percent."""
    rate, low, high = (
        None if ad[name] is None else round(100 * ad[name], 2) for name in ("ctr", "ctr_low", "ctr_high")
    )
    return {
        **{name: None if ad[name] is None else _shortened(ad[name]) for name in ("ad_id", "campaign_id")},
        **{name: ad[name] for name in ("impressions", "clicks")},
        "CTR, %": rate,
        "95 % interval": None if low is None else f"{low:.2f} - {high:.2f}",
        "cost": None if ad["cost"] is None else str(ad["cost"]),
    }


def _shortened(name: str) -> str:
    return name if len(name) <= LONGEST_NAME else f"{name[:LONGEST_NAME]}..."
