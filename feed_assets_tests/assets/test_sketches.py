"""Pictures in metadata: drawn, well-formed, and small enough for the UI to show them without a click."""

from __future__ import annotations

import base64
import xml.etree.ElementTree as ET

from hypothesis import given
from hypothesis import strategies as st

from feed_assets.ads.assets.sketches import SHOWN_IN_PLACE, click_through_sketch


def picture(markdown):
    assert len(markdown) < SHOWN_IN_PLACE
    return ET.fromstring(base64.b64decode(markdown.rpartition("base64,")[2].rstrip(")")))


def paths(markdown):
    """What the paths of the picture draw, the last one on top."""
    return [each.attrib["d"] for each in picture(markdown) if each.tag.endswith("path")]


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


def test_the_scale_can_be_read_on_a_light_and_on_a_dark_page():
    svg = picture(click_through_sketch([]))

    for text in (each for each in svg if each.tag.endswith("text")):
        brightness = int(text.get("fill", svg.get("fill", "#000"))[1:2], 16)
        assert 6 <= brightness <= 9
