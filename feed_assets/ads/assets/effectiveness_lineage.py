"""The column lineage of ad effectiveness in Dagster's metadata."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import dagster as dg

ADS = dg.AssetKey("clean_ads")
CLICKS = dg.AssetKey("clean_clicks")
CATALOG = dg.AssetKey("ad_catalog")

_ATTRIBUTION = {
    ADS: ("impression_id", "event_time", "user_id", "ad_id"),
    CLICKS: ("click_id", "impression_id", "event_time", "user_id", "ad_id"),
}
"""The columns that attribution reads: every count of clicks depends on them."""

_SHOWN = {ADS: ("impression_id",)}
_COST = {ADS: ("cost",)}

EFFECTIVENESS: Mapping[str, Mapping[dg.AssetKey, Sequence[str]]] = {
    "ad_id": {ADS: ("ad_id",), CLICKS: ("ad_id",)},
    "campaign_id": {ADS: ("campaign_id",), CATALOG: ("campaign_id",)},
    "advertiser": {CATALOG: ("advertiser",)},
    "landing_page": {CATALOG: ("landing_page",)},
    "impressions": _SHOWN,
    "users": {ADS: ("user_id",)},
    **dict.fromkeys(
        (
            "clicks", "clicks_next_day", "ctr", "ctr_low", "ctr_high", "median_seconds_to_click", "repeat_clicks",
            "previous_day_clicks", "orphan_clicks",
        ),
        _ATTRIBUTION,
    ),
    "cost": _COST,
    "cost_per_click": {ADS: (*_ATTRIBUTION[ADS], "cost"), CLICKS: _ATTRIBUTION[CLICKS]},
}  # fmt: skip


def effectiveness_lineage() -> dict[str, dg.TableColumnLineage]:
    """The metadata entry for ad effectiveness."""
    return {
        "dagster/column_lineage": dg.TableColumnLineage(
            {
                column: [dg.TableColumnDep(key, name) for key, names in made_from.items() for name in names]
                for column, made_from in EFFECTIVENESS.items()
            }
        )
    }
