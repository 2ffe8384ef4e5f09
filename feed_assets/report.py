"""Figures of ad effectiveness for people: days and top ads, read from the feed.

Here: which numbers a report shows, and the report as a page. Not here: how they came about (`transforms`,
`explanation`), and printing (`cli`). DuckDB reads the few files of a day in milliseconds, so a report needs no Spark.
"""

from __future__ import annotations

import base64
from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from datetime import datetime
from html import escape
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from urllib.parse import unquote, urlsplit

import duckdb

from feed_assets import plots
from feed_assets.file_feed import Feed, Update, latest_of_all
from feed_assets.transforms.effectiveness import Z

TOP_ADS = 20

_DAY = """
    SELECT coalesce(sum(impressions), 0) AS impressions, coalesce(sum(clicks), 0) AS clicks,
           coalesce(sum(orphan_clicks), 0) AS orphan_clicks, sum(cost) AS cost, count(*) AS ads
    FROM read_parquet($files)
"""
_TOP = """
    SELECT ad_id, campaign_id, advertiser, impressions, users, clicks, ctr, ctr_low, ctr_high, cost, cost_per_click,
           median_seconds_to_click, orphan_clicks
    FROM read_parquet($files) ORDER BY impressions DESC, ad_id LIMIT $top
"""


@dataclass(frozen=True, slots=True)
class DayFigures:
    """A day's totals over all ads, with the update they were read from; rates are shares from 0 to 1."""

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


def day_figures(feed: Feed, *, now: datetime, first: str = "", last: str | None = None) -> list[DayFigures]:
    """The totals of every day from first to last that has a valid update of ad effectiveness."""
    updates = latest_of_all(feed, now=now, first=first, last=last)
    return [_figures(day, update) for day, update in sorted(updates.items())]


def top_ads(update: Update, *, top: int = TOP_ADS) -> list[dict[str, Any]]:
    """The ads with the most impressions, a row each as the feed declares them."""
    return _query(update, _TOP, top=top)


def days_picture(days: Sequence[DayFigures]) -> bytes:
    """Impressions and click-through rate of these days, as a PNG."""
    return plots.days([asdict(day) for day in days], title="Impressions and click-through rate")


def ads_picture(rows: Sequence[Mapping[str, Any]], day: str) -> bytes:
    """The click-through rates of a day's top ads, as a PNG."""
    return plots.click_through_rates(rows, title=f"Click-through rate of the most shown ads, {day}")


def page(feed: Feed, days: Sequence[str], *, now: datetime) -> str:
    """The report on these days as one HTML page that refers to nothing outside itself."""
    updates = latest_of_all(feed, now=now, first=min(days, default=""), last=max(days, default=""))
    figures = [_figures(day, updates[day]) for day in days if day in updates]
    ads = {day: top_ads(updates[day]) for day in days if day in updates}
    parts = [
        "<!doctype html><html lang='en'><meta charset='utf-8'><title>Ad effectiveness</title>",
        f"<style>{_STYLE}</style><h1>Ad effectiveness</h1>",
        _image(days_picture(figures)),
        _table([asdict(day) for day in figures]),
    ]
    for day, rows in ads.items():
        parts += [f"<h2>{escape(day)}</h2>", _image(ads_picture(rows, day)), _table(rows)]
    return "\n".join(parts)


def wilson(clicks: int, impressions: int) -> tuple[float, float]:
    """The 95 % Wilson score interval of a share; impressions are at least one."""
    share, spread = clicks / impressions, Z**2 / impressions
    centre = (share + spread / 2) / (1 + spread)
    half = Z / (1 + spread) * (share * (1 - share) / impressions + spread / (4 * impressions)) ** 0.5
    return max(0.0, centre - half), min(1.0, centre + half)


def _figures(day: str, update: Update) -> DayFigures:
    (totals,) = _query(update, _DAY) or [{"impressions": 0, "clicks": 0, "orphan_clicks": 0, "cost": None, "ads": 0}]
    impressions, clicks = int(totals["impressions"]), int(totals["clicks"])
    low, high = wilson(clicks, impressions) if impressions else (None, None)
    return DayFigures(
        day=day,
        update=update.name,
        ads=int(totals["ads"]),
        impressions=impressions,
        clicks=clicks,
        ctr=clicks / impressions if impressions else None,
        ctr_low=low,
        ctr_high=high,
        cost=None if totals["cost"] is None else str(totals["cost"]),
        orphan_clicks=int(totals["orphan_clicks"]),
    )


def _query(update: Update, sql: str, **parameters: object) -> list[dict[str, Any]]:
    if not update.files:
        return []
    with ExitStack() as stack:
        files = local_files(update, stack)
        connection = stack.enter_context(duckdb.connect())
        result = connection.execute(sql, {"files": files, **parameters})
        names = [column[0] for column in result.description or ()]
        return [dict(zip(names, row, strict=True)) for row in result.fetchall()]


def local_files(update: Update, stack: ExitStack) -> list[str]:
    """The update's files as paths on this machine: where they are, or copies that live as long as `stack`."""
    if all(uri.startswith("file:") for uri in update.uris()):
        return [unquote(urlsplit(uri).path) for uri in update.uris()]
    folder = Path(stack.enter_context(TemporaryDirectory()))
    copies = []
    for index, file in enumerate(update.files):
        copy = folder / f"{index}-{Path(file.path).name}"
        copy.write_bytes(update.feed.blackboard.read(update.key(file.path)).data)
        copies.append(str(copy))
    return copies


_STYLE = (
    "body{font:14px system-ui,sans-serif;margin:2em auto;max-width:70em;color:#222}"
    "table{border-collapse:collapse;margin:1em 0}td,th{padding:.25em .7em;text-align:right}"
    "td,th{border-bottom:1px solid #ddd}"
    "th{background:#f5f5f5}td:first-child,th:first-child{text-align:left}img{max-width:100%}"
)


def _table(rows: Iterable[Mapping[str, Any]]) -> str:
    rows = list(rows)
    if not rows:
        return "<p>Nothing.</p>"
    head = "".join(f"<th>{escape(name.replace('_', ' '))}</th>" for name in rows[0])
    body = "".join(f"<tr>{''.join(f'<td>{escape(_cell(value))}</td>' for value in row.values())}</tr>" for row in rows)
    return f"<table><tr>{head}</tr>{body}</table>"


def _cell(value: object) -> str:
    if value is None:
        return ""
    if isinstance(value, float):
        return f"{value:.4f}"
    return f"{value:,}" if isinstance(value, int) else str(value)


def _image(png: bytes) -> str:
    return f"<img alt='plot' src='data:image/png;base64,{base64.b64encode(png).decode()}'>"
