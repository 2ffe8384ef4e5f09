"""Pictures so small that the Dagster UI shows them in place: rows in, Markdown with an SVG out.

The UI shows Markdown metadata in place if it is shorter than `SHOWN_IN_PLACE`, else behind a click. The
command `report` has larger pictures (`ads.report.plots`).
"""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from typing import Any

SHOWN_IN_PLACE = 1000
"""Characters of Markdown from which the UI shows it only after a click."""

BLUE, GREY, TEXT = "#2f6f9f", "#aaa", "#777"
"""Colours that can be seen on a light and on a dark page: the picture does not know the theme of the UI."""
HEIGHT, TOP, BOTTOM, LEFT = 90, 12, 80, 44
"""In pixels: the whole picture, the highest and the lowest point of the drawing, the space for the scale."""


def click_through_sketch(ads: Sequence[Mapping[str, Any]]) -> str:
    """A dot for each ad's rate and a line for its 95 % interval, in the order given, at most 20.

    `ads` have `ctr`, `ctr_low` and `ctr_high`: shares from 0 to 1, or None for an ad not shown, which is left out.
    """
    shown = [ad for ad in ads if ad["ctr"] is not None][:20]
    most = max((ad["ctr_high"] for ad in shown), default=0.0) or 1.0
    lines, dots = "", ""
    for number, ad in enumerate(shown):
        x = LEFT + 8 + 14 * number
        lines += f"M{x} {_y(ad['ctr_low'], most)}V{_y(ad['ctr_high'], most)}"
        dots += f"M{x} {_y(ad['ctr'], most)}h0"
    svg = (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="340" height="{HEIGHT}" stroke-linecap="round" '
        f'fill="{TEXT}" font-size="11"><text y="{TOP}">{100 * most:.2g} %</text><text y="{BOTTOM}">0</text>'
        f'<path stroke="{GREY}" d="{lines}"/><path stroke="{BLUE}" stroke-width="6" d="{dots}"/></svg>'
    )
    encoded = base64.b64encode(svg.encode()).decode()
    return f"![click-through rates with 95 % intervals](data:image/svg+xml;base64,{encoded})"


def _y(value: float, most: float) -> int:
    return round(BOTTOM - (BOTTOM - TOP) * value / most)
