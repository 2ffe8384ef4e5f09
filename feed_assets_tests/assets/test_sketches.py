"""Pictures in metadata: drawn, well-formed, and small enough for the UI to show them without a click."""

from __future__ import annotations

import base64
import xml.etree.ElementTree as ET

from hypothesis import given
from hypothesis import strategies as st

from feed_assets.assets.ads.sketches import SHOWN_IN_PLACE, click_through_sketch


def paths(markdown):
    """What the paths of the picture draw, the last one on top."""
    assert len(markdown) < SHOWN_IN_PLACE
    svg = base64.b64decode(markdown.rpartition("base64,")[2].rstrip(")"))
    return [each.attrib["d"] for each in ET.fromstring(svg) if each.tag.endswith("path")]


rate = st.floats(0, 1)
ad = st.one_of(
    st.tuples(rate, rate, rate).map(sorted).map(lambda t: {"ctr_low": t[0], "ctr": t[1], "ctr_high": t[2]}),
    st.just({"ctr_low": None, "ctr": None, "ctr_high": None}),
)


@given(st.lists(ad, max_size=30))
def test_whatever_the_rates_the_picture_fits_and_has_a_dot_for_each_ad(ads):
    lines, dots = paths(click_through_sketch(ads))

    shown = min(20, sum(ad["ctr"] is not None for ad in ads))
    assert (lines.count("M"), dots.count("M")) == (shown, shown)


def test_the_highest_value_reaches_the_top():
    assert paths(click_through_sketch([{"ctr_low": 0.0, "ctr": 0.1, "ctr_high": 0.2}])) == ["M52 80V12", "M52 46h0"]
