"""Around midnight, one morning after the other: what the sensors ask for, run for real, until there is peace."""

from __future__ import annotations

from datetime import UTC, datetime

from feed_assets_tests.harness import DAY, EFFECTIVENESS, NEXT_DAY, ad, click

MORNING = datetime(2019, 11, 25, 3, tzinfo=UTC)
NEXT_MORNING = datetime(2019, 11, 26, 3, tzinfo=UTC)
ROUNDS = 5


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


def credited(shop, day):
    """The clicks that a day's ads are credited with, and those it leaves to the day before."""
    rows = shop.rows(EFFECTIVENESS, day)
    return sum(row["clicks"] for row in rows), sum(row["previous_day_clicks"] for row in rows)


def test_a_click_after_midnight_is_credited_once_the_next_day_has_come(shop):
    shop.land([ad("i1", f"{DAY} 23:59:50")])
    shop.land_clicks([click("k0", f"{DAY} 12:00:00", user="somebody")])
    until_peace(shop.at(MORNING))
    assert credited(shop, DAY) == (0, 0)

    shop.land([ad("i2", f"{NEXT_DAY} 12:00:00")])
    shop.land_clicks([click("k1", f"{NEXT_DAY} 00:00:10")])
    ran = until_peace(shop.at(NEXT_MORNING))

    assert (DAY, ("ad_effectiveness",)) in ran
    assert credited(shop, DAY) == (1, 0)
    assert credited(shop, NEXT_DAY) == (0, 1)


def test_a_click_whose_ad_comes_after_it_is_not_credited_to_two_days(shop):
    shop.land([ad("i1", f"{DAY} 23:59:00")])
    shop.land_clicks([click("k0", f"{DAY} 12:00:00", user="somebody")])
    shop.land_clicks([click("k1", f"{NEXT_DAY} 00:10:00")])
    until_peace(shop)
    assert credited(shop, DAY) == (1, 0)

    shop.land([ad("i2", f"{NEXT_DAY} 00:09:00")])
    until_peace(shop)

    assert credited(shop, DAY) == (0, 0)
    assert credited(shop, NEXT_DAY) == (1, 0)
