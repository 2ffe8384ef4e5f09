"""Plots as PNG: a run's change, a calendar of late data, the rate of a delivery, how long runs take and will take.

Not here: reading data, and texts.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import date
from io import BytesIO
from typing import Any

from matplotlib.figure import Figure

from feed_assets.notices.messages import shares

BEFORE, AFTER = "#b9c4cc", "#2f6f9f"
WARNING = "#c0392b"
DPI = 110


def before_and_after(feed: Mapping[str, Any], day: str) -> bytes:
    """A pair of bars for each group that moved most: its first ratio, or without ratios its first sum.

    `feed` is a comparison with figures.
    """
    figures = feed["figures"]
    names = [name for name in figures["totals"] if name != "rows"]
    name = names[-1] if names else "rows"
    share = name in shares(figures)
    shown = [{"group": "in all", **figures["totals"]}, *figures["movers"]]
    figure = Figure(figsize=(8, 1.4 + 0.36 * max(len(shown), 2)), layout="constrained")
    axes = figure.subplots()
    for offset, (label, color) in enumerate((("before", BEFORE), ("after", AFTER))):
        values = [(each[name][offset] or 0) * (100 if share else 1) for each in shown]
        axes.barh([at + 0.38 * offset for at in range(len(shown))], values, height=0.36, label=label, color=color)
    names_shown = [each["group"] or "-" for each in shown]
    # A partner wrote these texts: two dollar signs in one do not make a formula of it.
    axes.set_yticks([at + 0.19 for at in range(len(shown))], names_shown, parse_math=False)
    axes.invert_yaxis()
    axes.set_xlabel(f"{name}, %" if share else name, parse_math=False)
    axes.set_ylabel(figures["by"], parse_math=False)
    axes.legend(frameon=False)
    axes.set_title(f"{feed['feed']} {day}: {feed['before']} and {feed['after']}", loc="left", fontsize=11)
    axes.spines[["top", "right"]].set_visible(False)
    return _png(figure)


def heat_map(days: Sequence[str], sources: Sequence[str], growth: Mapping[tuple[str, str], float]) -> bytes:
    """Growth in percent by day and source since the day was processed; grey where nothing was sent."""
    figure = Figure(figsize=(1.5 + max(3.0, 0.32 * len(days)), 1.2 + 0.36 * max(len(sources), 2)), layout="constrained")
    axes = figure.subplots()
    values = [[growth.get((source, day), float("nan")) for day in days] for source in sources]
    axes.set_facecolor("#dddddd")
    most = max([5.0, *(abs(each) for each in growth.values())])
    image = axes.imshow(values, aspect="auto", cmap="RdBu_r", vmin=-most, vmax=most)
    axes.set_yticks(range(len(sources)), list(sources))
    axes.set_xticks(range(len(days)), list(days), rotation=60, ha="right", fontsize=8)
    axes.set_title("growth since processed, %", loc="left", fontsize=11)
    figure.colorbar(image, ax=axes)
    return _png(figure)


def rate(series: Sequence[int], seconds: int, *, limit: float) -> bytes:
    """Rows acknowledged per second in each period of so many seconds, and the limit of the stream as a line."""
    figure = Figure(figsize=(7, 2.4), layout="constrained")
    axes = figure.subplots()
    axes.bar(
        [(at + 0.5) * seconds for at in range(len(series))],
        [count / seconds for count in series],
        width=0.9 * seconds,
        color=AFTER,
    )
    axes.axhline(limit, color=BEFORE, label=f"limit: {limit:,.0f}")
    axes.set_xlabel("seconds")
    axes.set_ylabel("acknowledged per second")
    axes.legend(frameon=False)
    axes.spines[["top", "right"]].set_visible(False)
    return _png(figure)


def interval_shares(series: str, shares: Mapping[date, float], *, limit: float) -> bytes:
    """The share of the interval between runs that delay and run take, by day, and the share of a warning as a line."""
    figure = Figure(figsize=(7, 2.6), layout="constrained")
    axes = figure.subplots()
    axes.bar(_days(shares), [100 * each for each in shares.values()], color=AFTER)
    axes.axhline(100 * limit, color=WARNING, label=f"warning: {100 * limit:.0f} %")
    axes.set_ylim(0, 130 * max(limit, *shares.values()))
    axes.set_ylabel("% of the interval")
    return _over_days(figure, axes, series)


def deadline_forecast(
    series: str,
    taken: Mapping[date, float],
    expected: Mapping[date, float],
    *,
    band: Sequence[tuple[float, float]],
    limit: float,
) -> bytes:
    """Minutes from the wanted start to the end, by day: taken, expected, and until the deadline.

    `band` has, for each expected day, the minutes between which 90 of 100 such days lie.
    """
    figure = Figure(figsize=(7, 3), layout="constrained")
    axes = figure.subplots()
    axes.scatter(_days(taken), list(taken.values()), color=AFTER, s=12, label="taken")
    days, values = _days(expected), list(expected.values())
    axes.plot(days, values, color=AFTER, linewidth=1, label="expected")
    low, high = zip(*band, strict=True)
    axes.fill_between(
        days,
        low,
        high,
        color=BEFORE,
        alpha=0.5,
        linewidth=0,
        label="90 of 100 days",
    )
    axes.axhline(limit, color=WARNING, label="deadline")
    # An outlier would hide the others.
    axes.set_ylim(0, 1.4 * max(limit, *values, *sorted(taken.values())[: max(1, len(taken) - 2)]))
    axes.set_ylabel("minutes")
    return _over_days(figure, axes, series)


def _days(days: Iterable[date]) -> Any:
    """Days as values of an axis: matplotlib takes them, but its types do not."""
    return list(days)


def _over_days(figure: Figure, axes: Any, title: str) -> bytes:
    axes.tick_params(axis="x", labelsize=7)
    axes.legend(frameon=False, fontsize=8, ncols=4, loc="upper left")
    axes.set_title(title, loc="left", fontsize=11, parse_math=False)
    axes.spines[["top", "right"]].set_visible(False)
    return _png(figure)


def _png(figure: Figure) -> bytes:
    buffer = BytesIO()
    figure.savefig(buffer, format="png", dpi=DPI, metadata={"Software": None})
    return buffer.getvalue()
