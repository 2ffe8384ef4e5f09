"""Days assembled from hours that were checked as they were complete: equal to days that are read at once."""

from __future__ import annotations

import random
from dataclasses import replace
from datetime import date, datetime, timedelta
from importlib import import_module

import dagster as dg
import pyarrow.compute as pc
import pytest

from feed_assets.ads.schemas import KINDS
from feed_assets.file_feed import Facts, claim, reject, stage
from feed_assets.operations.explanation import explain
from feed_assets.sensors.asset_graph import AssetFeedGraph
from feed_assets.sources.loading import load_sources
from feed_assets.sources.raw import read_sets
from feed_assets_tests.assets.test_dirty_days import LENIENT, quarantined
from feed_assets_tests.blackboard.recording import RecordingBlackboard
from feed_assets_tests.harness import (
    ADS,
    AS_OF,
    BOTH_CLEAN,
    CLICKS,
    DAY,
    NEXT_DAY,
    SHOP_ADS,
    SHOP_CLICKS,
    Installation,
    ad,
    ads,
    click,
    messages,
    using_board,
    write_sources,
)

BUFFER = "buffer_hours: 5"
WHILE_OPEN = datetime.fromisoformat(f"{NEXT_DAY}T02:00:00Z")
"""The hours of the day until 20:59 are complete then; the day itself is due at 05:00."""


def hourly(installation: Installation) -> Installation:
    """The same base and instance, which checks hour by hour."""
    return replace(installation, settings=replace(installation.settings, hourly=True), _definitions=None)


@pytest.fixture
def sources(desk: Installation) -> None:
    """A shop that may send until five hours after the day."""
    texts = (each.replace("buffer_hours: 0", BUFFER) for each in (SHOP_ADS, SHOP_CLICKS))
    write_sources(desk.settings.sources_directory, *texts)


def tick(installation: Installation) -> list[tuple[str, str]]:
    """The sensor's tick and its runs: the hours that ran, each with its asset."""
    found = installation.tick("complete_hours")
    for result in installation.execute(found):
        assert result.success, messages(result)
    return sorted(
        (key.path[-1], request.partition_key or "")
        for request in found.requests
        for key in request.asset_selection or ()
    )


def location(installation: Installation) -> str:
    """Where the checked hours of ads are."""
    graph = AssetFeedGraph.of(installation.definitions.get_repository_def())
    return next(each for each in graph.feeds if each.startswith("checked/ads/"))


def dirty(chance: random.Random, count: int) -> list[tuple[str, dict[str, str | None]]]:
    """Ads and clicks of a day in which ids, users, seconds and hours collide, some of them unusable."""
    found = []
    for _ in range(count):
        time = f"{DAY} {chance.choice(['00', '11', '12', '23'])}:{chance.choice(['00:00', '00:01', '59:59'])}"
        name = f"e{chance.randrange(count // 2)}"
        more = {"ad": chance.choice(["a1", "a2", None]), "user": chance.choice(["u1", "u2", None])}
        if chance.random() < 0.6:
            found.append(("ads", dict(ad(name, time, cost=chance.choice(["1", "?", "-1", None]), **more))))
        else:
            found.append(("clicks", dict(click(name, time, **more))))
    return found


@pytest.mark.parametrize("seed", range(2))
def test_a_day_assembled_from_its_hours_equals_the_day_read_at_once_for_any_order_of_arrival(
    shop, sources, seed
) -> None:
    chance = random.Random(seed)
    records = dirty(chance, 60)
    early = hourly(shop.at(WHILE_OPEN))
    delivered = 0
    while delivered < len(records):
        some = records[delivered : delivered + chance.randrange(5, 40)]
        delivered += len(some)
        for kind in ("ads", "clicks"):
            shop.land([row for of, row in some if of == kind], f"{kind}/shop_{kind}", f"delivery-{delivered:03}")
        if delivered < len(records):  # the last delivery comes after the hours were checked
            tick(early)

    results = []
    for each in (shop, hourly(shop).at(AS_OF + timedelta(seconds=5))):
        result = each.run(*BOTH_CLEAN, config=LENIENT)
        assert result.success, messages(result)
        facts = [each.record(feed).facts for feed in (ADS, CLICKS)]
        rows = [sorted(map(str, each.rows(feed))) for feed in (ADS, CLICKS)]
        refused = [sorted(map(str, quarantined(each, feed)[1])) for feed in (ADS, CLICKS)]
        results.append((rows, refused, [each.rows for each in facts], [each.inputs for each in facts]))
    assert results[0] == results[1]
    logged = [entry.user_message for entry in shop.instance.all_logs(result.run_id)]
    assert any("were checked before" in line for line in logged)


def test_a_day_assembled_from_its_hours_has_the_bytes_of_the_day_read_at_once(shop, sources) -> None:
    shop.land([ad("i1", f"{DAY} 05:00:00"), ad("i2", f"{DAY} 20:59:59"), ad("i3", f"{DAY} 05:30:00")])
    shop.land_clicks([click("k1", f"{DAY} 05:00:01")])
    tick(hourly(shop.at(WHILE_OPEN)))

    contents = []
    for each in (shop, hourly(shop).at(AS_OF + timedelta(seconds=5))):
        result = each.run(*BOTH_CLEAN)
        assert result.success, messages(result)
        newest = [max((each.base / feed / DAY).iterdir()) for feed in (ADS, CLICKS)]
        contents.append([[file.read_bytes() for file in sorted(update.glob("*.parquet"))] for update in newest])

    assert any("were checked before" in entry.user_message for entry in shop.instance.all_logs(result.run_id))
    assert contents[0] == contents[1]


def test_each_complete_hour_is_checked_once_and_again_when_it_has_changed(shop, sources) -> None:
    early = hourly(shop.at(WHILE_OPEN))
    shop.land([ad("i1", f"{DAY} 05:00:00"), ad("i2", f"{DAY} 20:59:59"), ad("late", f"{DAY} 21:00:00")])
    shop.land_clicks([click("k1", f"{DAY} 05:00:01")])

    assert tick(early) == [("shop_ads", f"{DAY}-05:00"), ("shop_ads", f"{DAY}-20:00"), ("shop_clicks", f"{DAY}-05:00")]
    assert tick(early) == []

    shop.land([ad("i3", f"{DAY} 05:30:00")], name="y")
    assert tick(hourly(shop.at(WHILE_OPEN + timedelta(minutes=1)))) == [("shop_ads", f"{DAY}-05:00")]


def test_the_page_of_an_hour_in_the_ui_shows_its_growth(shop, sources) -> None:
    shop.land([ad("i1", f"{DAY} 05:00:00"), ad("i2", f"{DAY} 20:59:59")])
    tick(hourly(shop.at(WHILE_OPEN)))
    shop.land([ad("i3", f"{DAY} 05:30:00")], name="y")
    tick(hourly(shop.at(WHILE_OPEN + timedelta(minutes=1))))

    asset = dg.AssetKey(["checked", "ads", "shop_ads"])
    where = dg.AssetRecordsFilter(asset_key=asset, asset_partitions=[f"{DAY}-05:00"])
    (newest,) = shop.instance.fetch_materializations(where, limit=1).records
    (growth,) = newest.asset_materialization.metadata["growth"].records
    hour = shop.base / "raw/ads/shop_ads" / DAY / "05"
    before, late = ((hour / f"{name}.parquet").stat().st_size for name in "xy")
    assert growth.data == {
        "source": "ads/shop_ads",
        "bytes before": before,
        "bytes": before + late,
        "growth": f"{late:+,} bytes ({late / before:+.1%})",
    }


def test_a_change_below_the_threshold_waits_for_the_day(shop, sources) -> None:
    shop.raw_bytes(DAY, {"a": 1000}, hour="05")
    early = hourly(shop.at(WHILE_OPEN))
    (due,) = early.tick("complete_hours").requests
    (read,) = read_sets(shop.board, "ads/shop_ads", [date.fromisoformat(DAY)]).values()
    shop.make(location(early), due.partition_key, [read])

    shop.raw_bytes(DAY, {"b": 49}, hour="05")
    assert early.tick("complete_hours").requests == ()
    shop.raw_bytes(DAY, {"c": 1}, hour="05")
    assert [each.partition_key for each in early.tick("complete_hours").requests] == [f"{DAY}-05:00"]


def test_a_small_change_of_an_hour_of_many_files_waits_too_and_its_listing_is_read_once(desk, sources) -> None:
    desk.raw_bytes(DAY, {f"f{number}": 1000 for number in range(101)}, hour="05")
    recording = RecordingBlackboard(desk.board)
    early = hourly(using_board(desk.at(WHILE_OPEN), recording))
    (due,) = early.tick("complete_hours").requests
    (read,) = read_sets(desk.board, "ads/shop_ads", [date.fromisoformat(DAY)]).values()
    early.make(location(early), due.partition_key, [read])

    desk.raw_bytes(DAY, {"late": 10}, hour="05")

    assert early.tick("complete_hours").requests == ()
    assert early.tick("complete_hours").requests == ()
    assert len([each for each in recording.requests if each.operation == "read" and "read-sets" in each.key]) == 1


def test_a_tick_without_time_looks_at_one_source_and_the_next_goes_on(desk, sources, monkeypatch) -> None:
    monkeypatch.setattr(import_module("feed_assets.sensors.complete_hours"), "TICK_SECONDS", -1)
    desk.raw_bytes(DAY, {"a": 1000}, hour="05")
    desk.raw_bytes(DAY, {"a": 1000}, "clicks/shop_clicks", hour="05")
    early = hourly(desk.at(WHILE_OPEN))

    ticks = [early.tick("complete_hours").requests for _ in range(3)]
    asked = [[key.path[-1] for each in requests for key in each.asset_selection] for requests in ticks]

    assert asked == [["shop_ads"], ["shop_clicks"], []]


def test_an_hour_whose_run_was_killed_before_it_published_is_asked_for_again(desk, sources) -> None:
    desk.raw_bytes(DAY, {"a": 1000}, hour="05")
    early = hourly(desk.at(WHILE_OPEN))
    (due,) = early.tick("complete_hours").requests
    (read,) = read_sets(desk.board, "ads/shop_ads", [date.fromisoformat(DAY)]).values()
    claimed = claim(early.feed(location(early)), due.partition_key, now=early.now, owner="killed")
    staged = stage(claimed, set(), Facts(inputs=(read,)), now=early.now)

    later = early.at(WHILE_OPEN + timedelta(hours=1))
    assert [each.partition_key for each in later.tick("complete_hours").requests] == [due.partition_key]

    reject(staged, reason="bad data", now=later.now)
    assert later.at(WHILE_OPEN + timedelta(hours=2)).tick("complete_hours").requests == ()


def test_a_day_reads_only_the_hours_that_were_not_checked(shop, sources) -> None:
    early = hourly(shop.at(WHILE_OPEN))
    shop.land([*ads(3), ad("other", f"{DAY} 05:00:00")])
    tick(early)
    for hour in ("05", "12"):  # marks what was checked before
        early.rewrite(location(early), marked, f"{DAY}-{hour}:00")
    shop.land([ad("late", f"{DAY} 12:30:00")], name="late")

    result = hourly(shop).run("clean_ads")

    assert result.success, messages(result)
    assert {row["impression_id"]: row["campaign_id"] for row in shop.rows(ADS)} == {
        "other": "checked before",
        **dict.fromkeys(("i0", "i1", "i2", "late"), "c1"),
    }


def test_explain_shows_the_hours_that_were_checked(shop, sources) -> None:
    shop.land(ads(2))
    tick(hourly(shop.at(WHILE_OPEN)))
    shop.land(ads(1, start=2), name="late")
    early = hourly(shop.at(WHILE_OPEN + timedelta(seconds=60)))
    tick(early)

    graph = AssetFeedGraph.of(early.definitions.get_repository_def())
    described = load_sources(shop.settings.sources_directory, KINDS)
    stories = explain(shop.board, graph, described, date.fromisoformat(DAY), now=early.now, store=shop.store)
    hours = [
        (each.asset, each.day, [update.made_because.partition("+")[0] for update in each.updates])
        for each in stories
        if each.asset.startswith("checked")
    ]
    assert hours == [
        ("checked/ads/shop_ads", f"{DAY}-12:00", ["ads/shop_ads grown ", "first on record"]),
        ("checked/clicks/shop_clicks", f"{DAY}-00:00", []),
    ]


def test_the_hours_of_a_day_that_is_not_over_are_checked_also_under_a_fixed_clock(shop, sources) -> None:
    shop.land(ads(2))  # at 12:00
    assert tick(hourly(shop.at(datetime.fromisoformat(f"{DAY}T17:59:00Z")))) == []
    assert tick(hourly(shop.at(datetime.fromisoformat(f"{DAY}T18:00:00Z")))) == [("shop_ads", f"{DAY}-12:00")]


def marked(table):
    number = table.schema.get_field_index("campaign_id")
    return table.set_column(number, "campaign_id", pc.if_else(pc.is_valid(table["ad_id"]), "checked before", ""))


def test_days_of_the_past_and_days_that_were_never_checked_take_no_runs_of_hours(shop, sources) -> None:
    shop.land(ads(3))
    assert tick(hourly(shop)) == []

    result = hourly(shop).run("clean_ads")
    assert result.success, messages(result)
    assert len(shop.rows(ADS)) == 3


def test_hours_that_were_checked_by_another_description_are_not_used(shop, sources) -> None:
    shop.land(ads(2))
    tick(hourly(shop.at(WHILE_OPEN)))
    changed = SHOP_ADS.replace("campaign_id: campaign", "campaign_id: upper(campaign)")
    write_sources(shop.settings.sources_directory, changed, SHOP_CLICKS)

    result = hourly(shop).run("clean_ads")

    assert result.success, messages(result)
    assert {row["campaign_id"] for row in shop.rows(ADS)} == {"C1"}


def test_an_installation_without_it_has_neither_the_assets_nor_the_sensor(desk) -> None:
    names = {sensor.name for sensor in desk.definitions.sensors}
    assert "complete_hours" not in names
    keys = {key.to_user_string() for key in desk.definitions.resolve_asset_graph().get_all_asset_keys()}
    assert not any(key.startswith("checked/") for key in keys)
    assert "complete_hours" in {sensor.name for sensor in hourly(desk).definitions.sensors}
