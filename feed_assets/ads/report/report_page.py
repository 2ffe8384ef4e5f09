"""The report as one HTML file that refers to nothing outside itself.

Here: the page's content. Not here: figures (`effectiveness_report`, `accounting`), layout (`report_page.html.jinja`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from importlib.metadata import version
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined

import feed_assets as fa
from feed_assets.ads.report.accounting import account
from feed_assets.ads.report.effectiveness_report import (
    DayFigures,
    days_without_figures,
    figures_of,
    interval,
    percent,
    top_ads,
    totals,
)

TOP_ADS_OF_ONE_DAY = 20
TOP_ADS_OF_SEVERAL_DAYS = 10


@dataclass(frozen=True, slots=True)
class DaySection:
    """A day of the page: its figures, and its most shown ads."""

    figures: DayFigures
    ads: Sequence[Mapping[str, Any]]

    @property
    def scale(self) -> float:
        """The share at the right end of the day's chart: the highest upper limit."""
        return max((ad["ctr_high"] or 0.0 for ad in self.ads), default=0.0) or 1.0


def page(feed: fa.Feed, days: Sequence[str], *, now: datetime) -> str:
    """The report on these days as one HTML page. It names the days without an update between the first and the last."""
    found = fa.file_feed.latest_of_all(feed, now=now, first=min(days, default=""), last=max(days, default=""))
    updates = {day: update for day, update in sorted(found.items()) if day in days}
    top = TOP_ADS_OF_ONE_DAY if len(days) == 1 else TOP_ADS_OF_SEVERAL_DAYS
    figures = [figures_of(day, update) for day, update in updates.items()]
    environment = Environment(
        loader=PackageLoader("feed_assets.ads.report", "."),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update(percent=percent, number=_number, money=_money)
    environment.globals.update(interval=interval)
    return environment.get_template("report_page.html.jinja").render(
        days=[DaySection(of_day, top_ads(updates[of_day.day], top=top)) for of_day in figures],
        total=totals(figures),
        missing=days_without_figures(updates),
        # The right ends of the chart of days.
        most_impressions=max((day.impressions for day in figures), default=0) or 1,
        scale=max((day.ctr_high or 0.0 for day in figures), default=0.0) or 1.0,
        accounting=account(feed, updates),
        location=feed.uri,
        made_at=now,
        program=f"feed_assets {version('feed_assets')}",
    )


def _number(value: int | None) -> str:
    return "-" if value is None else f"{value:,}"


def _money(value: object) -> str:
    """An amount with two digits, with six if it is below a cent; None as `-`."""
    if value is None:
        return "-"
    amount = Decimal(str(value))
    return f"{amount:,.2f}" if amount == 0 or abs(amount) >= Decimal("0.01") else f"{amount:,.6f}"
