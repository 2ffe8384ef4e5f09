"""What the factory of cleaned assets takes, and what it refuses: partitions, names of sources, and no source at all."""

from __future__ import annotations

from datetime import UTC, datetime

import dagster as dg
import pytest

from feed_assets.ads.cleaning import judge_ads
from feed_assets.ads.schemas import ADS as KIND
from feed_assets.ads.schemas import CLEAN_ADS, KINDS
from feed_assets.assets.cleaned import cleaned
from feed_assets.feed_events.declarations import feed_metadata
from feed_assets.sources.loading import load_sources
from feed_assets_tests.harness import ADS, SHOP_ADS, Installation, ads, messages, settings_below, write_sources

NAMES = ["meta", "input", "type", "context", "class", "self"]


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
    [{"hour_offset": 6}, {"minute_offset": 30}, {"timezone": "Europe/Berlin"}, {"fmt": "%Y%m%d"}],
    ids=lambda other: next(iter(other)),
)
def test_days_that_do_not_begin_at_midnight_utc_or_have_other_names_are_refused(tmp_path, other):
    sources = load_sources(write_sources(tmp_path, SHOP_ADS), KINDS)

    with pytest.raises(dg.DagsterInvalidDefinitionError, match="days of raw data are UTC days"):
        clean(sources, dg.DailyPartitionsDefinition(datetime(2019, 11, 20, tzinfo=UTC), **other))


def test_a_source_may_have_a_name_that_python_or_dagster_keeps_for_itself(tmp_path, dagster_instance, spark):
    sources = write_sources(tmp_path / "sources", *(SHOP_ADS.replace("shop_ads", name) for name in NAMES))
    installation = Installation(settings_below(tmp_path / "base", sources), dagster_instance)
    for number, name in enumerate(NAMES):
        installation.land(ads(number + 1), source=f"ads/{name}")

    result = installation.run("clean_ads")

    assert result.success, messages(result)
    sent = [row["source"] for row in installation.rows(ADS)]
    assert {name: sent.count(name) for name in NAMES} == {name: number + 1 for number, name in enumerate(NAMES)}


def test_an_asset_of_a_kind_without_a_source_loads_and_its_run_says_what_is_missing(shop):
    asset = clean((), dg.DailyPartitionsDefinition("2019-11-20", end_date="2019-12-01"))
    installation = shop.with_assets(asset)
    dg.Definitions.validate_loadable(installation.definitions)

    result = installation.run("clean")

    assert not result.success
    assert any("no source of the kind ads is described" in message for message in messages(result)), messages(result)
