"""Which columns each column is made from, as Dagster's UI shows it.

Here: the lineage of the ad assets. Not here: the computation itself (`transforms`), and the lineage of updates, which
is in their records.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence

import dagster as dg

from feed_assets.assets.external import raw_key
from feed_assets.sources import Source

COLUMN_LINEAGE = "dagster/column_lineage"
LITERAL = re.compile(r"'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\"")

Columns = Mapping[str, Sequence[str]]

ADS = dg.AssetKey("clean_ads")
CLICKS = dg.AssetKey("clean_clicks")
CATALOG = dg.AssetKey("ad_catalog")

_ATTRIBUTION = {
    ADS: ("impression_id", "event_time", "user_id", "ad_id"),
    CLICKS: ("click_id", "impression_id", "event_time", "user_id", "ad_id"),
}
"""What attribution reads: every count of clicks is made from it."""

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
    return _entry(
        {
            column: [(key, name) for key, names in made_from.items() for name in names]
            for column, made_from in EFFECTIVENESS.items()
        }
    )


def clean_lineage(sources: Iterable[Source]) -> dict[str, dg.TableColumnLineage]:
    """The metadata entry for the clean asset of these sources: from the partners' columns in their expressions.

    A source that does not declare its columns, because its files have a header, has no lineage.
    """
    lineage: dict[str, list[tuple[dg.AssetKey, str]]] = {}
    for source in sources:
        for column, expression in source.expressions.items():
            used = columns_in(expression, source.format.declared)
            lineage.setdefault(column, []).extend((raw_key(source), name) for name in used)
    return _entry(lineage)


def columns_in(expression: str, declared: Iterable[str]) -> list[str]:
    """Which of the declared columns a SQL expression names; case does not count, literals do not either."""
    text = LITERAL.sub("''", expression)
    return [
        name
        for name in declared
        if re.search(rf"`{re.escape(name)}`|(?<![\w`.]){re.escape(name)}(?![\w`]|\s*\()", text, re.IGNORECASE)
    ]


def _entry(lineage: Mapping[str, Iterable[tuple[dg.AssetKey, str]]]) -> dict[str, dg.TableColumnLineage]:
    return {
        COLUMN_LINEAGE: dg.TableColumnLineage(
            {
                column: [dg.TableColumnDep(asset_key=key, column_name=name) for key, name in made_from]
                for column, made_from in lineage.items()
            }
        )
    }
