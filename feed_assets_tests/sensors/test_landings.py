"""Raw partitions report their landings: each change once, bounded in a tick, nothing for what did not change."""

from __future__ import annotations

import importlib

import dagster as dg
import pytest

from feed_assets_tests.harness import AS_OF, DAY, NEXT_DAY, ads, click

RAW = dg.AssetKey(["raw", "ads", "shop_ads"])
NOON = f"{DAY}-12:00"


@pytest.fixture
def reported(desk):
    """Ticks the sensor; the hours it reports, each with the event's numbers."""

    def tick(installation=desk):
        events = installation.tick("landings").events
        return {
            ("/".join(each.asset_key.path[1:]), each.partition): {
                name: value.value for name, value in each.metadata.items()
            }
            for each in events
        }

    return tick


def test_each_change_of_a_raw_hour_is_reported_once(desk, reported):
    desk.raw_bytes(DAY, {"a": 100})
    desk.land_clicks([click("k1", f"{NEXT_DAY} 05:00:00")])

    first = reported()
    assert first["ads/shop_ads", NOON] == {"files": 1, "bytes": 100, "new bytes": 100}
    assert set(first) == {("ads/shop_ads", NOON), ("clicks/shop_clicks", f"{NEXT_DAY}-05:00")}
    assert reported() == {}

    desk.raw_bytes(DAY, {"b": 50})
    assert reported() == {("ads/shop_ads", NOON): {"files": 2, "bytes": 150, "new bytes": 50, "growth, %": 50.0}}

    for path in (desk.base / "raw/ads/shop_ads" / DAY / "12").iterdir():
        path.unlink()
    assert reported() == {("ads/shop_ads", NOON): {"files": 0, "bytes": 0, "new bytes": -150, "growth, %": -100.0}}
    assert reported() == {}


def test_a_tick_says_how_many_hours_it_reported(desk):
    desk.land(ads(3))

    assert desk.tick("landings").skipped == "1 raw hour reported."
    assert desk.tick("landings").skipped == "No raw hour has changed."


def test_the_hours_are_materialized_in_dagster_and_put_nothing_out_of_date(desk, reported):
    desk.land(ads(3))
    reported()

    assert desk.instance.get_materialized_partitions(RAW) == {NOON}
    event = desk.instance.get_latest_materialization_event(RAW).asset_materialization
    assert "dagster/data_version" not in (event.tags or {})
    assert event.description.startswith("1 file, ")


def test_a_tick_reports_a_bounded_number_and_the_next_goes_on(desk, reported, monkeypatch):
    monkeypatch.setattr(importlib.import_module("feed_assets.sensors.landings"), "MAX_EVENTS", 2)
    for hour in ("01", "02", "03", "04", "05"):
        desk.raw_bytes(DAY, {"a": 10}, hour=hour)

    ticks = [reported() for _ in range(4)]

    assert [len(each) for each in ticks] == [2, 2, 1, 0]
    assert len({hour for each in ticks for hour in each}) == 5


def test_a_source_that_changes_all_the_time_keeps_no_other_from_being_reported(desk, reported, monkeypatch):
    monkeypatch.setattr(importlib.import_module("feed_assets.sensors.landings"), "MAX_EVENTS", 2)
    desk.land_clicks([click("k1", f"{NEXT_DAY} 05:00:00")])
    seen = set()
    for tick in range(4):
        for hour in ("01", "02"):
            desk.raw_bytes(DAY, {f"{tick}": 10}, hour=hour)
        seen |= set(reported())

    assert seen == {
        ("ads/shop_ads", f"{DAY}-01:00"),
        ("ads/shop_ads", f"{DAY}-02:00"),
        ("clicks/shop_clicks", f"{NEXT_DAY}-05:00"),
    }


def test_a_tick_without_time_looks_at_one_source_and_the_next_goes_on(desk, reported, monkeypatch):
    monkeypatch.setattr(importlib.import_module("feed_assets.sensors.landings"), "TICK_SECONDS", -1)
    desk.raw_bytes(DAY, {"a": 100})
    desk.land_clicks([click("k1", f"{NEXT_DAY} 05:00:00")])

    ticks = [{source for source, _ in reported()} for _ in range(3)]

    assert ticks == [{"ads/shop_ads"}, {"clicks/shop_clicks"}, set()]


def test_days_before_the_lookback_are_reported_once_and_not_kept(desk, reported):
    desk.raw_bytes("2019-11-20", {"a": 10})
    desk.raw_bytes("2019-11-30", {"a": 10})

    assert {partition[:10] for _, partition in reported()} == {"2019-11-20", "2019-11-30"}
    assert reported() == {}
    assert "2019-11-20-" not in desk.cursors["landings"]


def test_the_cursor_stays_short_however_many_hours_there_are(desk, reported):
    for day in ("2019-11-28", "2019-11-29", "2019-11-30"):
        for hour in range(24):
            desk.raw_bytes(day, {"a": 10}, hour=f"{hour:02}")

    assert len(reported()) == 72
    assert len(desk.cursors["landings"]) < 300


def test_a_tick_whose_cursor_was_lost_after_its_events_reports_only_what_came_since(desk, reported):
    desk.raw_bytes(DAY, {"a": 10}, hour="01")
    reported()
    before = desk.cursors["landings"]
    desk.raw_bytes(DAY, {"a": 10}, hour="02")
    reported()
    desk.cursors["landings"] = before
    desk.raw_bytes(DAY, {"a": 10}, hour="03")

    assert set(reported()) == {("ads/shop_ads", f"{DAY}-03:00")}


def test_a_long_history_is_caught_up_with_in_steps(desk, reported):
    later = desk.at(AS_OF.replace(year=2020, month=3))
    for day in ("2019-11-20", "2020-01-10", "2020-02-29"):
        desk.raw_bytes(day, {"a": 10})

    ticks = [{partition[:10] for _, partition in reported(later)} for _ in range(5)]

    assert ticks == [{"2019-11-20"}, {"2020-01-10"}, set(), {"2020-02-29"}, set()]


def test_an_hour_that_is_no_partition_yet_is_reported_when_it_is_one(desk, reported):
    desk.raw_bytes("2019-12-01", {"a": 10})

    assert reported() == {}
    later = desk.at(AS_OF.replace(day=3))
    assert set(reported(later)) == {("ads/shop_ads", "2019-12-01-12:00")}


@pytest.mark.parametrize("cursor", ["", "nonsense", "[]", '{"ads/shop_ads": {"days": {"x": "y"}, "reached": "x"}}'])
def test_a_cursor_that_says_nothing_starts_afresh(desk, reported, cursor):
    desk.raw_bytes(DAY, {"a": 10})
    desk.cursors["landings"] = cursor

    assert set(reported()) == {("ads/shop_ads", NOON)}
