"""Days on which one kind of source sent nothing: asked for where somebody said so, and left alone where not."""

from __future__ import annotations

from dataclasses import replace
from datetime import date, timedelta

import pytest

from feed_assets.sources.layout import ledger_prefix
from feed_assets.sources.ledger import Landing, entry_json
from feed_assets_tests.harness import CLICKS, DAY, NEXT_DAY, SHOP_ADS, SHOP_CLICKS, write_sources

SOURCE = "clicks/shop_clicks"
DAY_AFTER = str(date.fromisoformat(NEXT_DAY) + timedelta(days=1))


@pytest.fixture
def may_be_empty(desk, tmp_path):
    sources = write_sources(tmp_path / "empty", SHOP_ADS, f"{SHOP_CLICKS}may_be_empty: true\n")
    return replace(desk, settings=replace(desk.settings, sources_directory=sources), _definitions=None)


def landed_without_clicks(desk, *days):
    """The ledger entry of a log of these days in which nothing passed the source's filter."""
    landing = Landing(
        SOURCE, "log.csv", "0" * 64, "0" * 16, read=5, landed=0, filtered=5, malformed=0,
        quarantined={}, quarantine_key=None, partitions=(), days=days,
    )  # fmt: skip
    desk.board.create(f"{ledger_prefix(SOURCE)}{max(days)}/{landing.digest}.json", entry_json(landing))


def test_a_day_whose_log_landed_without_a_click_is_asked_for_with_its_ads(desk):
    desk.raw_bytes(DAY, {"x": 1})
    desk.raw_bytes(NEXT_DAY, {"x": 1})
    landed_without_clicks(desk, DAY)

    tick = desk.tick("late_growth")

    assert tick.asked == {DAY: ("ad_effectiveness", "clean_ads", "clean_clicks"), NEXT_DAY: ("clean_ads",)}
    assert "log.csv landed with records of that day" in tick.requests[0].tags["feed_assets/why"]


def test_a_day_between_two_days_of_one_log_is_not_empty_until_its_own_log_comes(desk):
    desk.raw_bytes(NEXT_DAY, {"x": 1})

    landed_without_clicks(desk, DAY, DAY_AFTER)

    assert desk.tick("late_growth").asked == {NEXT_DAY: ("clean_ads",)}


def test_a_day_of_ads_that_was_processed_still_gets_its_empty_clicks(desk):
    desk.raw_bytes(DAY, {"x": 1})
    desk.process()
    assert desk.tick("late_growth").asked == {}

    landed_without_clicks(desk, DAY)

    assert desk.tick("late_growth").asked == {DAY: ("ad_effectiveness", "clean_clicks")}


def test_a_source_that_may_be_empty_needs_no_landing(may_be_empty):
    may_be_empty.raw_bytes(DAY, {"x": 1})

    assert may_be_empty.tick("late_growth").asked == {DAY: ("ad_effectiveness", "clean_ads", "clean_clicks")}


def test_a_day_without_data_of_any_kind_is_not_asked_for(may_be_empty):
    assert may_be_empty.tick("late_growth").asked == {}


def test_an_empty_day_is_asked_for_once_and_not_after_it_was_published_or_rejected(may_be_empty):
    may_be_empty.raw_bytes(DAY, {"x": 1})
    may_be_empty.process()
    assert may_be_empty.tick("late_growth").asked
    assert may_be_empty.tick("late_growth").asked == {}

    may_be_empty.process(kind="clicks", good=False)
    assert may_be_empty.tick("late_growth").asked == {}
    may_be_empty.process(kind="clicks")
    assert may_be_empty.latest(CLICKS)
    assert may_be_empty.tick("late_growth").asked == {}
