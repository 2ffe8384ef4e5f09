"""Days on which one kind of source sent nothing: asked for where somebody said so, and left alone where not."""

from __future__ import annotations

from dataclasses import replace
from datetime import date, timedelta
from importlib import import_module

import pytest

from feed_assets.sources.ledger import Landing
from feed_assets.sources.raw import read_set
from feed_assets_tests.harness import CLICKS, DAY, NEXT_DAY, SHOP_ADS, SHOP_CLICKS, days, write_sources
from feed_assets_tests.ledger import enter

LATE_GROWTH = import_module("feed_assets.sensors.late_growth")
SOURCE = "clicks/shop_clicks"
DAY_AFTER = str(date.fromisoformat(NEXT_DAY) + timedelta(days=1))


@pytest.fixture
def may_be_empty(desk, tmp_path):
    sources = write_sources(tmp_path / "empty", SHOP_ADS, f"{SHOP_CLICKS}may_be_empty: true\n")
    return replace(desk, settings=replace(desk.settings, sources_directory=sources), _definitions=None)


def landed_without_clicks(desk, *days, source=SOURCE):
    """The ledger entry of a log of these days in which nothing passed the source's filter."""
    landed(desk, *days, source=source)


def landed(desk, *days, partitions=(), generation=1, source=SOURCE):
    """The ledger entry of a log of these days with records in these hours, whose raw files are not there."""
    landing = Landing(
        source, "log.csv", "0" * 64, "0" * 16, read=5, landed=len(partitions), filtered=5 - len(partitions),
        malformed=0, quarantined={}, quarantine_key=None, partitions=partitions, days=days, generation=generation,
        records=(1,) * len(partitions),
    )  # fmt: skip
    enter(desk.board, landing)


def test_a_day_whose_log_landed_without_a_click_is_asked_for_with_its_ads(desk):
    desk.raw_bytes(DAY, {"x": 1})
    desk.raw_bytes(NEXT_DAY, {"x": 1})
    landed_without_clicks(desk, DAY)

    tick = desk.tick("late_growth")

    assert tick.asked == {DAY: ("ad_effectiveness", "clean_ads", "clean_clicks"), NEXT_DAY: ("clean_ads",)}
    assert "log.csv landed with records of that day" in tick.requests[0].tags["feed_assets/why"]


@pytest.mark.parametrize("declared_empty", [False, True])
def test_a_day_whose_landed_raw_files_are_gone_is_not_asked_for_as_empty(desk, may_be_empty, declared_empty):
    installation = may_be_empty if declared_empty else desk
    installation.raw_bytes(DAY, {"x": 1})
    landed(installation, DAY, partitions=(f"{DAY}/12",))

    assert installation.tick("late_growth").asked == {DAY: ("clean_ads",)}
    skipped = installation.tick("late_growth").skipped
    assert f"clicks/shop_clicks {DAY}: log.csv landed with records of that day, and their raw files are gone" in skipped
    assert "feed-assets land --again clicks/shop_clicks" in skipped


def test_raw_files_of_a_superseded_landing_may_be_gone(desk):
    desk.raw_bytes(DAY, {"x": 1})
    landed(desk, DAY, partitions=(f"{DAY}/12",))
    landed(desk, DAY, generation=2)

    assert desk.tick("late_growth").asked == {DAY: ("ad_effectiveness", "clean_ads", "clean_clicks")}


def test_raw_files_that_are_gone_of_another_day_do_not_matter(desk):
    desk.raw_bytes(DAY, {"x": 1})
    landed(desk, DAY, NEXT_DAY, partitions=(f"{NEXT_DAY}/12",))

    assert desk.tick("late_growth").asked == {DAY: ("ad_effectiveness", "clean_ads", "clean_clicks")}


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


def test_empty_days_are_found_where_every_pass_takes_several_ticks(desk, monkeypatch):
    monkeypatch.setattr(LATE_GROWTH, "TICK_SECONDS", -1)
    for day in days(4):
        desk.raw_bytes(day, {"x": 1})
    desk.raw_bytes(days(4)[1], {"x": 1}, SOURCE)
    landed_without_clicks(desk, days(4)[0], days(4)[2])

    ticks = [desk.tick("late_growth") for _ in range(8)]

    everything = ("ad_effectiveness", "clean_ads", "clean_clicks")
    asked = [(day, assets) for tick in ticks for day, assets in tick.asked.items()]
    assert asked == [(day, everything) for day in days(4)[:3]] + [(days(4)[3], ("clean_ads",))]
    assert max(len(tick.cursor) for tick in ticks) < 100


def test_a_source_that_may_be_empty_needs_no_landing(may_be_empty):
    may_be_empty.raw_bytes(DAY, {"x": 1})

    assert may_be_empty.tick("late_growth").asked == {DAY: ("ad_effectiveness", "clean_ads", "clean_clicks")}


def test_a_kind_is_empty_once_nothing_of_any_of_its_sources_is_still_to_come(desk, tmp_path):
    quiet, other = f"{SHOP_CLICKS}may_be_empty: true\n", SHOP_CLICKS.replace("shop_clicks", "mall_clicks")
    sources = write_sources(tmp_path / "both", SHOP_ADS, quiet, other)
    both = replace(desk, settings=replace(desk.settings, sources_directory=sources), _definitions=None)
    both.raw_bytes(DAY, {"x": 1})
    assert both.tick("late_growth").asked == {DAY: ("clean_ads",)}
    both.process()

    landed_without_clicks(both, DAY, source="clicks/mall_clicks")

    assert both.tick("late_growth").asked == {DAY: ("ad_effectiveness", "clean_clicks")}


def test_a_day_without_data_of_any_kind_is_not_asked_for(may_be_empty):
    assert may_be_empty.tick("late_growth").asked == {}


def test_an_empty_day_is_asked_for_once_and_not_after_it_was_published_or_rejected(may_be_empty):
    may_be_empty.raw_bytes(DAY, {"x": 1})
    may_be_empty.process()
    assert may_be_empty.tick("late_growth").asked
    assert may_be_empty.tick("late_growth").asked == {}

    read = read_set(may_be_empty.board, SOURCE, date.fromisoformat(DAY))
    may_be_empty.make(CLICKS, DAY, [read], good=False, details={"empty_sources": {SOURCE: "it may be empty"}})
    may_be_empty.an_hour_ago(CLICKS)
    assert may_be_empty.tick("late_growth").asked == {}
    may_be_empty.process(kind="clicks")
    assert may_be_empty.latest(CLICKS)
    assert may_be_empty.tick("late_growth").asked == {}


def test_a_day_that_was_run_before_its_log_came_is_asked_for_as_empty_once_the_log_has_no_record_of_it(desk):
    desk.raw_bytes(DAY, {"x": 1})
    desk.process()
    desk.process(kind="clicks", good=False)  # by hand, and nothing had come
    assert desk.tick("late_growth").asked == {}

    landed_without_clicks(desk, DAY)

    assert desk.tick("late_growth").asked == {DAY: ("ad_effectiveness", "clean_clicks")}
