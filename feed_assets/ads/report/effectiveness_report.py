"""Figures of ad effectiveness: days and top ads, read from the feed with DuckDB, so that a report needs no Spark.

Here: the numbers of a report. Not here: computing the feed (`ads`), the page (`report_page`), printing (`cli`).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import date, datetime, timedelta
from decimal import Decimal
from math import sqrt
from typing import Any

import duckdb

import feed_assets as fa
from feed_assets.ads.effectiveness import wilson_interval
from feed_assets.ads.schemas import EFFECTIVENESS_FEED

LOCATION = EFFECTIVENESS_FEED
TOP_ADS = 20

_DAY = """
    SELECT coalesce(sum(impressions), 0) AS impressions, coalesce(sum(clicks), 0) AS clicks,
           coalesce(sum(orphan_clicks), 0) AS orphan_clicks, sum(cost) AS cost, count(*) AS ads
    FROM read_parquet($files, hive_partitioning = false)
"""
_TOP = """
    SELECT ad_id, campaign_id, advertiser, impressions, users, clicks, ctr, ctr_low, ctr_high, cost, cost_per_click,
           median_seconds_to_click, orphan_clicks
    FROM read_parquet($files, hive_partitioning = false) ORDER BY impressions DESC, ad_id LIMIT $top
"""


@dataclass(frozen=True, slots=True)
class DayFigures:
    """A day's totals over all ads, and the update they were read from. Rates are shares from 0 to 1."""

    day: str
    update: str
    ads: int
    impressions: int
    clicks: int
    ctr: float | None
    ctr_low: float | None
    ctr_high: float | None
    cost: str | None
    orphan_clicks: int


def day_figures(feed: fa.Feed, *, now: datetime, first: str = "", last: str | None = None) -> list[DayFigures]:
    """The totals of every day from `first` to `last` with a valid update of ad effectiveness."""
    updates = fa.file_feed.latest_of_all(feed, now=now, first=first, last=last)
    return [figures_of(day, update) for day, update in sorted(updates.items())]


def top_ads(update: fa.Update, *, top: int = TOP_ADS) -> list[dict[str, Any]]:
    """The ads with the most impressions, as rows with the columns of the feed."""
    return _query(update, _TOP, top=top)


def totals(days: Sequence[DayFigures]) -> DayFigures:
    """The sum of the figures of all days. `ads` counts an ad once a day; `day` names the period."""
    impressions, clicks = sum(day.impressions for day in days), sum(day.clicks for day in days)
    costs = [Decimal(day.cost) for day in days if day.cost is not None]
    names = sorted({day.day for day in days})
    return _rated(
        day=" to ".join(dict.fromkeys([names[0], names[-1]])) if names else "",
        update="",
        ads=sum(day.ads for day in days),
        impressions=impressions,
        clicks=clicks,
        cost=str(sum(costs)) if costs else None,
        orphan_clicks=sum(day.orphan_clicks for day in days),
    )


def days_without_figures(partitions: Collection[str]) -> list[str]:
    """The days missing between the first and the last of these partitions, without those whose names are no days."""
    days = [day for name in partitions if (day := _day(name)) is not None]
    length = (max(days) - min(days)).days if days else 0
    between = (str(min(days) + timedelta(days=offset)) for offset in range(length))
    return [name for name in between if name not in partitions]


def _day(name: str) -> date | None:
    try:
        day = date.fromisoformat(name)
    except ValueError:
        return None
    return day if str(day) == name else None


def days_picture(days: Sequence[DayFigures]) -> bytes:
    """Impressions and click-through rate of these days, as a PNG with a gap for each missing day."""
    from feed_assets.ads.report import plots  # noqa: PLC0415 - loads matplotlib, which figures alone do not need

    rows = [asdict(day) for day in days]
    gaps = [{"day": day, "impressions": 0, "ctr": None} for day in days_without_figures([each.day for each in days])]
    return plots.days(sorted([*rows, *gaps], key=lambda row: row["day"]), title="Impressions and click-through rate")


def ads_picture(rows: Sequence[Mapping[str, Any]], day: str) -> bytes:
    """The click-through rates of a day's top ads, as a PNG."""
    from feed_assets.ads.report import plots  # noqa: PLC0415 - as above

    return plots.click_through_rates(rows, title=f"Click-through rate of the most shown ads, {day}")


def percent(share: float | None) -> str:
    """A share from 0 to 1 as text, such as `0.34 %`; small shares get more digits; None is `-`."""
    return "-" if share is None else f"{100 * share:.{_digits(share)}f} %"


def interval(low: float | None, high: float | None) -> str:
    """Both ends of an interval of shares: `0.21 - 0.55 %`."""
    return "-" if low is None or high is None else f"{100 * low:.{_digits(high)}f} - {percent(high)}"


def _digits(share: float) -> int:
    """The digits after the point that show two significant digits: 2, 4 or 6."""
    return next((digits for digits in (2, 4) if 100 * share >= 10 ** (1 - digits) or share == 0), 6)


def figures_of(day: str, update: fa.Update) -> DayFigures:
    """The totals of one update of ad effectiveness."""
    (sums,) = _query(update, _DAY) or [{"impressions": 0, "clicks": 0, "orphan_clicks": 0, "cost": None, "ads": 0}]
    return _rated(
        day=day,
        update=update.name,
        ads=int(sums["ads"]),
        impressions=int(sums["impressions"]),
        clicks=int(sums["clicks"]),
        cost=None if sums["cost"] is None else str(sums["cost"]),
        orphan_clicks=int(sums["orphan_clicks"]),
    )


def _rated(
    *, day: str, update: str, ads: int, impressions: int, clicks: int, cost: str | None, orphan_clicks: int
) -> DayFigures:
    """The figures with their rate and its interval."""
    low, high = wilson_interval(clicks, impressions, sqrt) if impressions else (None, None)
    ctr = clicks / impressions if impressions else None
    return DayFigures(day, update, ads, impressions, clicks, ctr, low, high, cost, orphan_clicks)


def _query(update: fa.Update, sql: str, **parameters: object) -> list[dict[str, Any]]:
    if not update.files:
        return []
    with fa.local_files(update) as files, duckdb.connect() as connection:
        result = connection.execute(sql, {"files": files, **parameters})
        names = [column[0] for column in result.description or ()]
        return [dict(zip(names, row, strict=True)) for row in result.fetchall()]
