"""Around midnight, one morning after the other: what the sensors ask for, run for real, until there is peace."""

from __future__ import annotations

from datetime import UTC, datetime

from feed_assets_tests.harness import ADS, CLICKS, DAY, EFFECTIVENESS, NEXT_DAY, ad, click

MORNING = datetime(2019, 11, 25, 3, tzinfo=UTC)
NEXT_MORNING = datetime(2019, 11, 26, 3, tzinfo=UTC)
ROUNDS = 6
PLACES = ("clicks", "clicks_next_day", "previous_day_clicks", "orphan_clicks")


def until_peace(shop):
    """Tick both sensors and run what they ask for; the assets of each run by their day."""
    ran = []
    for _ in range(ROUNDS):
        asked = [tick for name in ("late_growth", "new_manifests") if (tick := shop.tick(name)).requests]
        for tick in asked:
            assert all(result.success for result in shop.execute(tick))
            ran += tick.asked.items()
        if not asked:
            return ran
    raise AssertionError(ran)


def places(shop, day):
    """How many clicks a day counts in each place."""
    rows = shop.rows(EFFECTIVENESS, day)
    return {name: sum(row[name] for row in rows) for name in PLACES}


def test_a_click_after_midnight_is_credited_once_the_next_day_has_come(shop):
    shop.land([ad("i1", f"{DAY} 23:59:50")])
    shop.land_clicks([click("k0", f"{DAY} 12:00:00", user="somebody")])
    until_peace(shop.at(MORNING))
    assert places(shop, DAY)["clicks"] == 0

    shop.land([ad("i2", f"{NEXT_DAY} 12:00:00")])
    shop.land_clicks([click("k1", f"{NEXT_DAY} 00:00:10")])
    ran = until_peace(shop.at(NEXT_MORNING))

    assert (DAY, ("ad_effectiveness",)) in ran
    assert places(shop, DAY)["clicks"] == 1
    assert places(shop, NEXT_DAY)["previous_day_clicks"] == 1


def test_a_click_is_counted_on_one_day_whichever_neighbouring_ads_come_late(shop):
    shop.land([ad("i1", f"{DAY} 23:59:00")])
    shop.land([ad("i2", f"{NEXT_DAY} 12:00:00", user="other")])
    shop.land_clicks([click("k0", f"{DAY} 12:00:00", user="somebody")])
    shop.land_clicks([click("k1", f"{NEXT_DAY} 00:10:00"), click("k2", f"{NEXT_DAY} 00:20:00", user="u9")])
    until_peace(shop)
    assert places(shop, DAY)["clicks_next_day"] == 1
    assert places(shop, NEXT_DAY) == {"clicks": 0, "clicks_next_day": 0, "previous_day_clicks": 1, "orphan_clicks": 1}

    # k1 goes over to the next day's own impression.
    shop.land([ad("i3", f"{NEXT_DAY} 00:09:00")], name="late")
    ran = until_peace(shop)
    assert (DAY, ("ad_effectiveness",)) in ran
    assert places(shop, DAY)["clicks"] == 0
    assert places(shop, NEXT_DAY) == {"clicks": 1, "clicks_next_day": 0, "previous_day_clicks": 0, "orphan_clicks": 1}

    # k2, an orphan so far, turns out to belong to an impression of the day before.
    shop.land([ad("i4", f"{DAY} 23:58:00", user="u9")], name="late")
    until_peace(shop)
    assert places(shop, DAY)["clicks_next_day"] == 1
    assert places(shop, NEXT_DAY) == {"clicks": 1, "clicks_next_day": 0, "previous_day_clicks": 1, "orphan_clicks": 0}

    # What concerns no click around midnight runs its own day and no neighbour.
    shop.land([ad("i5", f"{NEXT_DAY} 18:00:00", user="u7")], name="late")
    assert {day for day, _ in until_peace(shop)} == {NEXT_DAY}


def test_an_event_delivered_before_and_after_midnight_is_published_on_one_day_whichever_comes_late(shop):
    shop.land([ad("i1", f"{NEXT_DAY} 00:00:05"), ad("i2", f"{NEXT_DAY} 12:00:00")])
    shop.land([ad("i0", f"{DAY} 12:00:00"), ad("i9", f"{DAY} 23:10:00")])
    until_peace(shop)
    assert [row["impression_id"] for row in shop.rows(ADS, NEXT_DAY)] == ["i1", "i2"]

    shop.land([ad("i1", f"{DAY} 23:59:58")], name="late")
    until_peace(shop)

    assert sorted(row["impression_id"] for row in shop.rows(ADS, DAY)) == ["i0", "i1", "i9"]
    assert [row["impression_id"] for row in shop.rows(ADS, NEXT_DAY)] == ["i2"]
    assert shop.latest(CLICKS, DAY) is None
