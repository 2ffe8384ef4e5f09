"""Days as they really come: what is set aside, what is collapsed, and which day a click counts for."""

from __future__ import annotations

import json

from feed_assets.file_feed import latest, parse_manifest
from feed_assets_tests.harness import (
    ADS,
    ALL,
    BOTH_CLEAN,
    CLICKS,
    DAY,
    EFFECTIVENESS,
    NEXT_DAY,
    SHOP_ADS,
    SHOP_CLICKS,
    ad,
    ads,
    click,
    failed_checks,
    messages,
    write_sources,
)

LENIENT = {"resources": {"limits": {"config": {"quarantined_share": 1.0}}}}


def quarantined(shop, location=ADS, day=DAY):
    """What the quarantine feed of a feed has in force, as a program reads it that knows JSON and the plain rule."""
    update = latest(shop.feed(f"quarantine/{location}"), day, now=shop.now)
    directory = shop.base / "quarantine" / location / day / update.name
    parts = sorted(directory.glob("part-*"))
    assert parse_manifest((directory / "_SUCCESS").read_bytes()) == len(parts)
    return update.name, [json.loads(line) for part in parts for line in part.read_text().splitlines()]


def test_what_cannot_be_used_is_in_quarantine_with_file_line_and_reason(shop):
    shop.land([*ads(2), ad("bad-cost", cost="?"), ad("no-ad", ad=None), ad("negative", cost="-1")])

    result = shop.run("clean_ads", config=LENIENT)

    assert result.success, messages(result)
    name, records = quarantined(shop)
    assert name == shop.latest(ADS)
    assert sorted(record["reason"] for record in records) == ["missing ad_id", "negative cost", "unparsable cost"]
    assert {record["file"] for record in records} == {"x.parquet"}
    assert sorted(record["line"] for record in records) == [3, 4, 5]
    assert all("time" in json.loads(record["record"]) for record in records)


def test_the_accounting_tells_each_reason_and_the_quarantine_holds_as_many(shop):
    shop.land([*ads(2), *ads(1), ad("bad-cost", cost="?"), ad("worse-cost", cost="!"), ad("no-ad", ad=None)])

    shop.run("clean_ads", config=LENIENT)

    rows = shop.record(ADS).facts.rows
    assert (rows.read, rows.published, rows.quarantined, rows.duplicates) == (6, 2, 3, 1)
    assert rows.reasons == {
        "quarantined: unparsable cost": 2,
        "quarantined: missing ad_id": 1,
        "duplicate: redelivered": 1,
    }
    assert len(quarantined(shop)[1]) == rows.quarantined


def test_a_day_whose_bad_records_were_mended_has_an_empty_quarantine(shop):
    shop.land([ad("mended", cost="?")])
    shop.run("clean_ads", config=LENIENT)
    assert len(quarantined(shop)[1]) == 1
    (shop.base / "raw/ads/shop_ads" / DAY / "12/x.parquet").unlink()
    shop.land([ad("mended", cost="1")], name="again")

    assert shop.run("clean_ads").success
    assert quarantined(shop)[1] == []


def test_a_clean_day_has_an_empty_quarantine(shop):
    shop.land(ads(2))
    shop.run("clean_ads")

    assert shop.latest(f"quarantine/{ADS}") == shop.latest(ADS)
    assert list((shop.base / "quarantine").rglob("part-*")) == []


def test_a_redelivered_event_is_published_once_with_its_earliest_time(shop):
    shop.land([ad("i1", f"{DAY} 12:00:05"), ad("i1", f"{DAY} 12:00:01"), ad("i2")])

    shop.run("clean_ads")

    times = {row["impression_id"]: row["event_time"].strftime("%H:%M:%S") for row in shop.rows(ADS)}
    assert times == {"i1": "12:00:01", "i2": "12:00:00"}


def test_what_was_delivered_before_midnight_is_not_published_again_on_the_next_day(shop):
    again = [ad("i1", f"{NEXT_DAY} 00:20:00"), ad("late", f"{NEXT_DAY} 00:20:00"), ad("i2", f"{NEXT_DAY} 08:00:00")]
    shop.land([ad("i1", f"{DAY} 23:59:50"), ad("late", f"{DAY} 22:59:59"), *again])

    assert shop.run("clean_ads", day=NEXT_DAY, checks=False).success

    # The hour before midnight is read, and no more: nobody delivers again much later than that.
    record = shop.record(ADS, NEXT_DAY)
    assert record.facts.rows.reasons == {"duplicate: redelivered": 1}
    assert (record.facts.rows.read, record.facts.rows.published) == (3, 2)
    evening, today = record.facts.inputs
    assert (evening.partition, evening.context, [file.path for file in evening.files]) == (DAY, True, ["23/x.parquet"])
    assert (today.partition, today.context, len(today.files)) == (NEXT_DAY, False, 2)


def test_two_partners_who_number_their_events_alike_do_not_get_into_each_others_way(shop):
    mall = [text.replace("shop_", "mall_") for text in (SHOP_ADS, SHOP_CLICKS)]
    write_sources(shop.settings.sources_directory, SHOP_ADS, SHOP_CLICKS, *mall)
    shop.land([ad("1"), ad("2", user="u2")])
    shop.land([ad("1", f"{DAY} 12:00:10", ad="b1", user="m1"), ad("2", f"{DAY} 12:00:10", user="m2")], "ads/mall_ads")
    shop.land_clicks([click("1", impression="1"), click("2", f"{DAY} 12:00:40", user="u2")])
    shop.land(
        [
            click("1", f"{DAY} 12:00:30.5", impression="1", ad="b1", user="m1"),
            click("2", f"{DAY} 12:00:40.5", impression="2", user="m2"),
            # The other partner's user of this name clicked a moment before.
            click("3", f"{DAY} 12:00:30.5", user="u1"),
        ],
        "clicks/mall_clicks",
    )

    result = shop.run(*ALL)

    assert result.success, messages(result)
    assert failed_checks(result) == []
    assert sorted((row["source"], row["impression_id"]) for row in shop.rows(ADS)) == [
        ("mall_ads", "1"),
        ("mall_ads", "2"),
        ("shop_ads", "1"),
        ("shop_ads", "2"),
    ]
    assert len(shop.rows(CLICKS)) == 5
    counted = ("impressions", "clicks", "repeat_clicks", "orphan_clicks")
    assert {row["ad_id"]: tuple(row[name] for name in counted) for row in shop.rows(EFFECTIVENESS)} == {
        "a1": (3, 3, 1, 0),
        "b1": (1, 1, 0, 0),
    }


def test_a_click_right_after_midnight_repeats_the_one_right_before(shop):
    shop.land_clicks(
        [click("k1", f"{DAY} 23:59:59.5"), click("k2", f"{NEXT_DAY} 00:00:00"), click("k3", f"{NEXT_DAY} 08:00:00")]
    )

    assert shop.run("clean_clicks", day=NEXT_DAY, checks=False).success
    assert shop.record(CLICKS, NEXT_DAY).facts.rows.reasons == {"duplicate: repeated click": 1}


def test_growth_of_the_evening_before_makes_that_day_run_again_and_not_the_one_after(shop):
    shop.land([ad("i1", f"{DAY} 23:59:50"), ad("i2", f"{NEXT_DAY} 08:00:00")])
    shop.land_clicks([click("k1", f"{DAY} 12:00:00"), click("k2", f"{NEXT_DAY} 12:00:00")])
    assert all(shop.run(*BOTH_CLEAN, day=day).success for day in (DAY, NEXT_DAY))

    shop.land([ad("i3", f"{DAY} 23:59:55")], name="late")

    assert set(shop.tick("late_growth").asked) == {DAY}


def test_how_close_clicks_repeat_each_other_is_a_rule_a_run_can_change(shop):
    shop.land_clicks([click("k1", f"{DAY} 12:00:00"), click("k2", f"{DAY} 12:00:03")])

    assert shop.run("clean_clicks").success
    assert len(shop.rows(CLICKS)) == 2
    assert shop.run(
        "clean_clicks", config={"resources": {"rules": {"config": {"repeated_click_seconds": 3.0}}}}
    ).success
    assert [row["click_id"] for row in shop.rows(CLICKS)] == ["k1"]


def test_a_record_in_the_wrong_day_is_not_published_there(shop):
    shop.land([*ads(1), ad("stray", f"{NEXT_DAY} 00:00:00")], day=DAY)

    shop.run("clean_ads", config=LENIENT)

    assert shop.record(ADS).facts.rows.reasons == {"quarantined: event_time outside the day": 1}


def test_a_click_after_midnight_counts_for_the_day_the_ad_was_shown_once_it_is_there(shop):
    shop.land([ad("i1", f"{DAY} 23:59:50")])
    shop.land_clicks([click("noon", f"{DAY} 12:00:00", user="other")])
    assert shop.run(*ALL).success
    assert sum(row["clicks"] for row in shop.rows(EFFECTIVENESS)) == 0

    shop.land([ad("i2", f"{NEXT_DAY} 08:00:00", user="u2")])
    shop.land_clicks([click("after", f"{NEXT_DAY} 00:00:10")])
    assert shop.run(*ALL, day=NEXT_DAY).success
    tick = shop.tick("new_manifests")

    assert tick.asked == {DAY: ("ad_effectiveness",)}
    assert [result.success for result in shop.execute(tick)] == [True]
    (row,) = shop.rows(EFFECTIVENESS)
    assert (row["clicks"], row["clicks_next_day"], row["orphan_clicks"]) == (1, 1, 1)
    assert sum(row["previous_day_clicks"] for row in shop.rows(EFFECTIVENESS, NEXT_DAY)) == 1


def test_effectiveness_runs_again_without_its_predecessors(shop):
    shop.land(ads(2))
    shop.land_clicks([click("k1", user="u1")])
    assert shop.run(*ALL).success
    before = shop.latest(ADS), shop.latest(CLICKS), shop.latest(EFFECTIVENESS)

    assert shop.run("ad_effectiveness").success
    assert (shop.latest(ADS), shop.latest(CLICKS)) == before[:2]
    assert shop.latest(EFFECTIVENESS) > before[2]
