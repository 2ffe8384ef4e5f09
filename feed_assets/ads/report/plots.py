"""Plots of ad effectiveness: rows in, PNG out.

Here: the plots of `report -o FILE.png` and of the demo. Not here: reading data, and the UI (`ads.assets.sketches`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from io import BytesIO
from math import ceil
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

BLUE = "#2f6f9f"
GREY = "#8a8a8a"
DPI = 110
MOST_DATES = 16
"""Dates that fit below a plot of days without touching each other."""


def click_through_rates(ads: Sequence[Mapping[str, Any]], *, title: str) -> bytes:
    """A PNG with a point and a 95 % interval for each ad.

    `ads` have `ad_id`, `impressions`, `clicks`, `ctr`, `ctr_low` and `ctr_high` (shares from 0 to 1). Ads that
    were not shown, whose `ctr` is None, are left out.
    """
    shown = [ad for ad in ads if ad["ctr"] is not None]
    figure = Figure(figsize=(8, 1.2 + 0.26 * max(len(shown), 3)), layout="constrained")
    axes = figure.subplots()
    positions = range(len(shown))
    rates = [100 * ad["ctr"] for ad in shown]
    axes.errorbar(rates, positions, xerr=_reach(shown), fmt="o", color=BLUE, ecolor=GREY, capsize=3, markersize=5)
    axes.set_yticks(positions, [f"{ad['ad_id']}  ({ad['impressions']:,})" for ad in shown])
    axes.invert_yaxis()
    axes.set_xlim(left=0)
    axes.set_xlabel("click-through rate in %, with 95 % interval")
    axes.set_ylabel("ad (impressions)")
    return _png(figure, axes, title)


def days(rows: Sequence[Mapping[str, Any]], *, title: str) -> bytes:
    """A PNG of impressions, and of click-through rate with its 95 % interval, by day.

    `rows` have `day` (text), `impressions`, `clicks`, `ctr`, `ctr_low`, `ctr_high`.
    """
    figure = Figure(figsize=(8, 5), layout="constrained")
    upper, lower = figure.subplots(2, 1, sharex=True)
    labels = [row["day"] for row in rows]
    upper.bar(labels, [row["impressions"] for row in rows], color=BLUE)
    upper.set_ylabel("impressions")
    rated = [row for row in rows if row["ctr"] is not None]
    rated_days, rates = [row["day"] for row in rated], [100 * row["ctr"] for row in rated]
    lower.errorbar(rated_days, rates, yerr=_reach(rated), fmt="o-", color=BLUE, ecolor=GREY, capsize=3)
    lower.set_ylabel("click-through rate in %")
    lower.set_ylim(bottom=0)
    every = ceil(len(labels) / MOST_DATES) or 1
    lower.set_xticks(range(0, len(labels), every), labels[::every], rotation=30, ha="right")
    _plain(lower)
    return _png(figure, upper, title)


def _reach(rows: Sequence[Mapping[str, Any]]) -> list[list[float]]:
    """How far each interval reaches below and above its rate, in percentage points.

    Never negative, which matplotlib refuses: by rounding, an interval can end just inside its rate.
    """
    below = [max(0.0, 100 * (row["ctr"] - row["ctr_low"])) for row in rows]
    above = [max(0.0, 100 * (row["ctr_high"] - row["ctr"])) for row in rows]
    return [below, above]


def _plain(axes: Axes) -> None:
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(axis="both", color="#e5e5e5", linewidth=0.6)
    axes.set_axisbelow(True)


def _png(figure: Figure, axes: Axes, title: str) -> bytes:
    axes.set_title(title, loc="left", fontsize=11)
    _plain(axes)
    buffer = BytesIO()
    figure.savefig(buffer, format="png", dpi=DPI)
    return buffer.getvalue()
