"""Pictures so small that the Dagster UI shows them in place: rows in, Markdown with an SVG out.

The UI renders Markdown metadata at once where it is shorter than `SHOWN_IN_PLACE`, and behind a click where it is
longer. Here: such pictures. Not here: the large ones of the report (`plots`), and any reading of data.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from typing import Any

SHOWN_IN_PLACE = 1000
"""Characters of Markdown from which the UI hides it behind a click."""

BLUE, GREY = "#2f6f9f", "#aaa"
HEIGHT, TOP, BOTTOM, LEFT = 90, 12, 80, 44
"""In pixels: the whole picture, the highest and the lowest point of the drawing, the space for the scale."""


def click_through_rates(ads: Sequence[Mapping[str, Any]]) -> str:
    """A dot for each ad's rate and a line for its 95 % interval, in the order given; up to 20 fit.

    `ads` have `ctr`, `ctr_low` and `ctr_high` (shares from 0 to 1, None where an ad was not shown; these are left out).
    """
    shown = [ad for ad in ads if ad["ctr"] is not None][:20]
    most = max((ad["ctr_high"] for ad in shown), default=0.0) or 1.0
    lines, dots = "", ""
    for number, ad in enumerate(shown):
        x = LEFT + 8 + 14 * number
        lines += f"M{x} {_y(ad['ctr_low'], most)}V{_y(ad['ctr_high'], most)}"
        dots += f"M{x} {_y(ad['ctr'], most)}h0"
    drawn = f'<path stroke="{GREY}" d="{lines}"/><path stroke="{BLUE}" stroke-width="6" d="{dots}"/>'
    return _markdown("click-through rates with 95 % intervals", f"{100 * most:.2g} %", drawn)


def clicks_per_hour(clicks: Mapping[int, int]) -> str:
    """A bar for each hour of the day (UTC); `clicks` counts them by hour, missing hours are zero."""
    most = max(clicks.values(), default=0) or 1
    bars = "".join(
        f"M{LEFT + 8 + 12 * hour} {BOTTOM}V{_y(clicks[hour], most)}" for hour in range(24) if clicks.get(hour)
    )
    drawn = f'<path stroke="{BLUE}" stroke-width="9" stroke-linecap="butt" d="{bars}"/>'
    return _markdown("clicks per hour, 0 to 23 UTC", f"{most:,}", drawn)


def _y(value: float, most: float) -> int:
    return round(BOTTOM - (BOTTOM - TOP) * value / most)


def _markdown(name: str, scale: str, drawn: str) -> str:
    svg = (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="340" height="{HEIGHT}" stroke-linecap="round">'
        f'<text y="{TOP}" font-size="11">{scale}</text><text y="{BOTTOM}" font-size="11">0</text>{drawn}</svg>'
    )
    return f"![{name}](data:image/svg+xml;base64,{base64.b64encode(svg.encode()).decode()})"
