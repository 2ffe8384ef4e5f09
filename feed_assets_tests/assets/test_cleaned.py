"""What the factory of cleaned assets takes, and what it refuses."""

from __future__ import annotations

import dagster as dg
import pytest

from feed_assets.ads import ADS as KIND
from feed_assets.ads import CLEAN_ADS, KINDS, judge_ads
from feed_assets.assets import cleaned
from feed_assets.io_manager import feed_metadata
from feed_assets.sources import load_sources
from feed_assets_tests.harness import ADS, SHOP_ADS, write_sources


def clean(sources, partitions):
    """An asset of the ads of these sources."""
    return cleaned(
        "clean",
        KIND,
        sources,
        partitions,
        lambda _context, records, day, earlier: judge_ads(records, day=day, earlier=earlier),
        metadata=feed_metadata(ADS, CLEAN_ADS),
        description="The ads of a day.",
    )


@pytest.mark.parametrize(
    "other",
    [{"hour_offset": 6}, {"minute_offset": 30}, {"timezone": "Europe/Berlin"}],
    ids=lambda other: next(iter(other)),
)
def test_days_that_do_not_begin_at_midnight_utc_are_refused(tmp_path, other):
    sources = load_sources(write_sources(tmp_path, SHOP_ADS), KINDS)

    with pytest.raises(dg.DagsterInvalidDefinitionError, match="days of raw data are UTC days"):
        clean(sources, dg.DailyPartitionsDefinition("2019-11-20", **other))
