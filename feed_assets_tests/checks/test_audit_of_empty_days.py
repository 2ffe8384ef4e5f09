"""Days without events: published where somebody sent that there are none, and turned away where nothing was sent."""

from __future__ import annotations

from datetime import date, timedelta

import pytest

from feed_assets.ads.schemas import KINDS
from feed_assets.sources.landing import land
from feed_assets.sources.loading import load_source
from feed_assets_tests.harness import (
    ADS,
    CLICKS,
    DAY,
    EFFECTIVENESS,
    NEXT_DAY,
    SHOP_ADS,
    SHOP_CLICKS,
    Installation,
    ads,
    click,
    failed_checks,
    messages,
    settings_below,
    write_sources,
)

DAY_AFTER = str(date.fromisoformat(NEXT_DAY) + timedelta(days=1))
CLICKED_ONLY = SHOP_CLICKS.replace("identity:", "filter: clicked = '1'\nidentity:").replace(
    "impression, ad, user]", "impression, ad, user, clicked]"
)


@pytest.fixture
def with_filter(shop, tmp_path):
    """A shop whose clicks are those records of its log that say so."""
    sources = write_sources(tmp_path / "filtered", SHOP_ADS, CLICKED_ONLY)
    return Installation(settings_below(shop.base, sources), shop.instance)


def delete_clicks(installation, day=DAY):
    for path in (installation.base / "raw/clicks/shop_clicks" / day).rglob("*.parquet"):
        path.unlink()


def send(installation, spark, tmp_path, *lines, again=False):
    """Land a file of the partner's click log."""
    path = tmp_path / "log.csv"
    path.write_text("\n".join(["id,time,impression,ad,user,clicked", *lines]) + "\n", encoding="utf-8")
    source = load_source(installation.settings.sources_directory / "1.yaml", KINDS)
    return land(spark, installation.board, source, path, now=installation.now, again=again)


def test_a_day_whose_log_came_and_has_no_click_is_empty_and_gets_its_effectiveness(with_filter, spark, tmp_path):
    with_filter.land(ads(3))
    landing = send(
        with_filter,
        spark,
        tmp_path,
        f"k1,{DAY} 12:00:00,,a1,u1,0",
        f"k2,{DAY} 13:00:00,,a1,u1,0",
        f"k3,{DAY_AFTER} 01:00:00,,a1,u1,0",
    )
    assert (landing.landed, landing.filtered) == (0, 3)
    assert landing.days == (DAY, DAY_AFTER)

    result = with_filter.run("clean_ads", "clean_clicks", "ad_effectiveness")

    assert result.success, messages(result)
    assert with_filter.rows(CLICKS) == []
    assert with_filter.record(CLICKS).facts.details["empty_sources"] == {
        "clicks/shop_clicks": "log.csv landed with records of that day, and the source's filter leaves them out"
    }
    assert [(row["impressions"], row["clicks"]) for row in with_filter.rows(EFFECTIVENESS)] == [(3, 0)]
    # Of the next day that file has no record, although it has one of the day after: its clicks are still to come.
    assert failed_checks(with_filter.run("clean_clicks", day=NEXT_DAY)) == ["not_empty"]
    assert with_filter.latest(CLICKS, NEXT_DAY) is None


def test_a_source_that_may_be_empty_gives_an_empty_day_which_warns_against_the_usual(shop, tmp_path):
    sources = write_sources(tmp_path / "quiet", SHOP_ADS, f"{SHOP_CLICKS}may_be_empty: true\n")
    quiet = Installation(settings_below(shop.base, sources), shop.instance)
    quiet.land_clicks([click("k1")])
    assert quiet.run("clean_clicks").success

    result = quiet.run("clean_clicks", day=NEXT_DAY)

    assert result.success, messages(result)
    assert failed_checks(result) == ["row_count_as_usual"]
    assert quiet.latest(CLICKS, NEXT_DAY) is not None


def test_a_day_is_turned_away_while_one_of_its_sources_may_be_empty_and_another_is_still_to_come(shop, tmp_path):
    quiet, other = f"{SHOP_CLICKS}may_be_empty: true\n", SHOP_CLICKS.replace("shop_clicks", "mall_clicks")
    both = Installation(settings_below(shop.base, write_sources(tmp_path / "both", quiet, other)), shop.instance)

    assert failed_checks(both.run("clean_clicks")) == ["not_empty"]
    assert both.latest(CLICKS) is None

    both.land([click("k1")], "clicks/mall_clicks")
    assert both.run("clean_clicks").success
    assert [row["source"] for row in both.rows(CLICKS)] == ["mall_clicks"]


def test_a_day_of_which_nothing_at_all_came_is_turned_away_and_the_check_says_why(shop):
    result = shop.run("clean_ads")

    (check,) = [each for each in result.get_asset_check_evaluations() if not each.passed]
    assert (check.check_name, check.description) == ("not_empty", "No rows, and no input was read.")
    assert shop.latest(ADS) is None


def test_a_day_whose_raw_files_were_deleted_before_it_was_processed_fails_until_the_file_is_landed_again(
    with_filter, spark, tmp_path
):
    with_filter.land(ads(3))
    lines = [f"k1,{DAY} 12:00:00,,a1,u1,1", f"k2,{NEXT_DAY} 12:00:00,,a1,u1,1"]
    landing = send(with_filter, spark, tmp_path, *lines)
    delete_clicks(with_filter)
    assert with_filter.tick("late_growth").asked == {
        DAY: ("clean_ads",),
        NEXT_DAY: ("clean_clicks",),
    }

    result = with_filter.run("clean_clicks")

    assert not result.success
    assert any("log.csv" in each and "land --again clicks/shop_clicks" in each for each in messages(result)), messages(
        result
    )
    assert with_filter.latest(CLICKS) is None
    assert send(with_filter, spark, tmp_path, *lines).already_landed

    again = send(with_filter, spark, tmp_path, *lines, again=True)

    assert (again.generation, again.partitions, again.already_landed) == (2, landing.partitions, False)
    assert with_filter.run("clean_clicks").success
    assert [row["click_id"] for row in with_filter.rows(CLICKS)] == ["k1"]
    assert send(with_filter, spark, tmp_path, *lines, again=True).already_landed


def test_a_source_that_may_be_empty_is_not_published_as_empty_where_its_raw_files_were_deleted(shop, spark, tmp_path):
    sources = write_sources(tmp_path / "quiet", SHOP_ADS, f"{CLICKED_ONLY}may_be_empty: true\n")
    quiet = Installation(settings_below(shop.base, sources), shop.instance)
    send(quiet, spark, tmp_path, f"k1,{DAY} 12:00:00,,a1,u1,1")
    delete_clicks(quiet)

    result = quiet.run("clean_clicks")

    assert not result.success
    assert quiet.latest(CLICKS) is None


def test_a_day_whose_raw_files_were_deleted_is_not_published_as_empty(with_filter, spark, tmp_path):
    send(with_filter, spark, tmp_path, f"k1,{DAY} 12:00:00,,a1,u1,1")
    assert with_filter.run("clean_clicks").success
    delete_clicks(with_filter)

    result = with_filter.run("clean_clicks")

    assert any("land --again clicks/shop_clicks" in each for each in messages(result)), messages(result)
    assert len(with_filter.rows(CLICKS)) == 1
