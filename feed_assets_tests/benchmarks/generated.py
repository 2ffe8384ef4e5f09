"""Generated days as installations find them: raw hourly partitions below a base, with the sources that describe them.

Here: what the benchmarks that compute something share. Not here: what is measured on it.
"""

from __future__ import annotations

from datetime import date
from pathlib import Path

from feed_assets.ads.schemas import KINDS
from feed_assets.sources.loading import load_sources
from feed_assets.sources.spec import Source
from feed_assets_tests.generator import Shape, generate
from feed_assets_tests.harness import write_sources
from feed_assets_tests.layouts import Portal

PARTNERS = Path(__file__).parents[1] / "sources" / "partners"
CLICK_RATE = 0.05
PARTNER = Portal()


def portal_sources(directory: Path) -> Path:
    """A directory with the descriptions of the one partner whose days are generated here."""
    names = ("portal_ads.yaml", "portal_clicks.yaml")
    return write_sources(directory, *((PARTNERS / name).read_text(encoding="utf-8") for name in names))


def portal(directory: Path) -> tuple[Source, Source]:
    """The partner's ads and clicks, as `portal_sources` left them."""
    ads, clicks = sorted(load_sources(directory, KINDS), key=lambda source: source.key)
    return ads, clicks


def write_day(base: Path, day: date, impressions: int) -> None:
    """A dirty day, and its clicks after midnight; the seed is the day. Users and ads grow with the size."""
    shape = Shape(
        impressions=impressions,
        day=day,
        users=max(100, impressions // 20),
        ads=max(20, impressions // 1000),
        click_rate=CLICK_RATE,
        seed=day.toordinal(),
    )
    PARTNER.write_raw(generate(shape), base)
