from __future__ import annotations

from collections.abc import Iterable
from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest
from pyspark.sql import SparkSession

from feed_assets.ads import AD_CATALOG, AD_EFFECTIVENESS, ad_effectiveness
from feed_assets_tests.ads.events import (
    DAY,
    HOUR,
    MICROSECOND,
    MIDNIGHT,
    NOON,
    ONE_DAY,
    SECOND,
    Ad,
    Click,
    clean_ads,
    clean_clicks,
    described,
    frame,
    rows,
)

NEXT_MIDNIGHT = MIDNIGHT + ONE_DAY


def effectiveness(
    spark: SparkSession,
    ads: Iterable[Ad],
    clicks: Iterable[Click] = (),
    catalog: Iterable[tuple[str | None, ...]] = (),
    **more: Any,
) -> dict[str, dict[str, Any]]:
    """The rows by ad."""
    found = ad_effectiveness(
        clean_ads(spark, ads),
        clean_clicks(spark, clicks),
        frame(spark, list(catalog), AD_CATALOG),
        **{"day": DAY, **more},
    )
    assert described(found.schema) == described(AD_EFFECTIVENESS)
    return {row["ad_id"]: row for row in rows(found)}


def figures(row: dict[str, Any]) -> dict[str, int]:
    """The counts of clicks that are not zero."""
    names = ("clicks", "clicks_next_day", "repeat_clicks", "previous_day_clicks", "orphan_clicks")
    return {name: row[name] for name in names if row[name]}


def test_impressions_and_known_users_are_counted_per_ad(spark: SparkSession) -> None:
    ads = [
        Ad(impression_id="1"),
        Ad(impression_id="2"),
        Ad(impression_id="3", user_id="v"),
        Ad(impression_id="4", user_id=None),
        Ad(impression_id="5", ad_id="b", user_id=None),
    ]

    shown = effectiveness(spark, ads)

    assert {ad: (row["impressions"], row["users"]) for ad, row in shown.items()} == {"a": (4, 2), "b": (1, 0)}


def test_a_click_that_names_its_impression_counts_for_it_whoever_clicked_and_however_late(spark: SparkSession) -> None:
    ads = [Ad(impression_id="shown", event_time=MIDNIGHT, ad_id="a", user_id="u"), Ad(impression_id="other")]
    click = Click(impression_id="shown", event_time=NEXT_MIDNIGHT + 23 * HOUR, user_id="someone else")

    assert figures(effectiveness(spark, ads, [click])["a"]) == {"clicks": 1, "clicks_next_day": 1}


def test_a_click_counts_for_the_ad_that_was_shown_not_for_the_one_it_names(spark: SparkSession) -> None:
    shown = effectiveness(spark, [Ad(impression_id="i", ad_id="shown")], [Click(impression_id="i", ad_id="other")])

    assert {ad: figures(row) for ad, row in shown.items()} == {"shown": {"clicks": 1}}


def test_a_click_that_names_an_unknown_impression_is_an_orphan_even_if_its_user_saw_the_ad(
    spark: SparkSession,
) -> None:
    shown = effectiveness(spark, [Ad()], [Click(impression_id="unknown")])

    assert figures(shown["a"]) == {"orphan_clicks": 1}


def test_a_click_logged_before_the_impression_it_names_took_no_time(spark: SparkSession) -> None:
    shown = effectiveness(spark, [Ad()], [Click(impression_id="i", event_time=NOON - SECOND)])

    assert figures(shown["a"]) == {"clicks": 1}
    assert shown["a"]["median_seconds_to_click"] == 0.0


def test_a_click_on_an_impression_of_the_next_day_is_an_orphan(spark: SparkSession) -> None:
    ads = [Ad(event_time=NEXT_MIDNIGHT)]
    click = Click(impression_id="i", event_time=NEXT_MIDNIGHT - MICROSECOND)

    assert figures(effectiveness(spark, ads, [click])["a"]) == {"orphan_clicks": 1}
    assert figures(effectiveness(spark, ads, [click], day=DAY + ONE_DAY)["a"]) == {}


def test_without_a_name_the_last_impression_of_user_and_ad_wins(spark: SparkSession) -> None:
    ads = [
        Ad(impression_id="early", event_time=NOON - 2 * HOUR),
        Ad(impression_id="last", event_time=NOON - HOUR),
        Ad(impression_id="later", event_time=NOON + MICROSECOND),
        Ad(impression_id="other user", user_id="v", event_time=NOON - SECOND),
        Ad(impression_id="other ad", ad_id="b", event_time=NOON - SECOND),
    ]

    shown = effectiveness(spark, ads, [Click()])

    assert figures(shown["a"]) == {"clicks": 1}
    assert shown["a"]["median_seconds_to_click"] == 3600.0
    assert figures(shown["b"]) == {}


def test_an_impression_at_the_moment_of_the_click_explains_it(spark: SparkSession) -> None:
    shown = effectiveness(spark, [Ad()], [Click()])

    assert figures(shown["a"]) == {"clicks": 1}
    assert shown["a"]["median_seconds_to_click"] == 0.0


@pytest.mark.parametrize("window", [ONE_DAY, HOUR])
def test_the_attribution_window_includes_its_limit(spark: SparkSession, window: timedelta) -> None:
    clicked_at = NEXT_MIDNIGHT + HOUR
    ads = [
        Ad(impression_id="in", ad_id="in", event_time=clicked_at - window),
        Ad(impression_id="out", ad_id="out", event_time=clicked_at - window - MICROSECOND),
    ]
    clicks = [Click(click_id=ad, ad_id=ad, event_time=clicked_at) for ad in ("in", "out")]

    next_day = effectiveness(spark, ads, clicks, day=DAY + ONE_DAY, attribution_window=window)

    assert {ad: row["orphan_clicks"] for ad, row in next_day.items()} == {"in": 0, "out": 1}


@pytest.mark.parametrize("window", [timedelta(0), -HOUR, ONE_DAY + MICROSECOND])
def test_a_window_for_which_not_enough_is_read_is_refused(spark: SparkSession, window: timedelta) -> None:
    with pytest.raises(ValueError, match="attribution_window"):
        effectiveness(spark, [], attribution_window=window)


def test_a_user_who_is_not_known_never_matches(spark: SparkSession) -> None:
    shown = effectiveness(spark, [Ad(user_id=None)], [Click(user_id=None)])

    assert figures(shown["a"]) == {"orphan_clicks": 1}


def test_a_click_after_midnight_counts_for_the_day_shown_and_on_no_other(spark: SparkSession) -> None:
    ads = [Ad(event_time=NEXT_MIDNIGHT - SECOND)]
    clicks = [Click(event_time=NEXT_MIDNIGHT + SECOND)]

    assert figures(effectiveness(spark, ads, clicks)["a"]) == {"clicks": 1, "clicks_next_day": 1}
    assert figures(effectiveness(spark, ads, clicks, day=DAY + ONE_DAY)["a"]) == {"previous_day_clicks": 1}
    assert effectiveness(spark, ads, clicks, day=DAY - ONE_DAY) == {}


def test_an_impression_after_midnight_takes_the_click_from_the_one_before(spark: SparkSession) -> None:
    ads = [
        Ad(impression_id="before", event_time=NEXT_MIDNIGHT - SECOND),
        Ad(impression_id="after", event_time=NEXT_MIDNIGHT + SECOND),
    ]
    clicks = [Click(event_time=NEXT_MIDNIGHT + 2 * SECOND)]

    assert figures(effectiveness(spark, ads, clicks)["a"]) == {}
    assert figures(effectiveness(spark, ads, clicks, day=DAY + ONE_DAY)["a"]) == {"clicks": 1}


def test_an_impression_counts_its_first_click_and_later_ones_as_repeats(spark: SparkSession) -> None:
    clicks = [
        Click(click_id="k1", event_time=NOON + HOUR),
        Click(click_id="k2", event_time=NOON + 2 * HOUR, impression_id="i"),
        Click(click_id="k3", event_time=NEXT_MIDNIGHT + HOUR, impression_id="i"),
    ]

    today = effectiveness(spark, [Ad()], clicks)["a"]
    tomorrow = effectiveness(spark, [Ad()], clicks, day=DAY + ONE_DAY)["a"]

    assert figures(today) == {"clicks": 1, "repeat_clicks": 1}
    assert today["median_seconds_to_click"] == 3600.0
    assert figures(tomorrow) == {"previous_day_clicks": 1}


def test_an_id_delivered_again_after_midnight_is_the_impression_of_the_day_before(spark: SparkSession) -> None:
    ads = [Ad(event_time=NOON), Ad(event_time=NEXT_MIDNIGHT + SECOND)]
    clicks = [Click(impression_id="i", event_time=NEXT_MIDNIGHT + HOUR)]

    assert figures(effectiveness(spark, ads, clicks)["a"]) == {"clicks": 1, "clicks_next_day": 1}
    assert figures(effectiveness(spark, ads, clicks, day=DAY + ONE_DAY)["a"]) == {"previous_day_clicks": 1}


def test_of_three_days_with_one_id_each_click_still_counts_once(spark: SparkSession) -> None:
    ads = [Ad(event_time=NOON + days * ONE_DAY) for days in (-1, 0, 1)]
    clicks = [Click(click_id=f"k{days}", impression_id="i", event_time=NOON + days * ONE_DAY) for days in (0, 1)]

    by_day = [figures(effectiveness(spark, ads, clicks, day=DAY + days * ONE_DAY)["a"]) for days in (-1, 0, 1)]

    assert by_day == [
        {"clicks": 1, "clicks_next_day": 1},
        {"clicks": 1, "clicks_next_day": 1, "previous_day_clicks": 1},
        {"previous_day_clicks": 1},
    ]


def test_of_partners_impressions_with_one_id_the_click_belongs_to_the_one_of_its_ad_then_of_its_user(
    spark: SparkSession,
) -> None:
    ads = [
        Ad(source="one", ad_id="a", user_id="u"),
        Ad(source="two", ad_id="a", user_id=None, event_time=NOON - HOUR),
        Ad(source="three", ad_id="b", user_id="v", event_time=NOON - 2 * HOUR),
        Ad(source="four", ad_id="a", user_id="u", event_time=NEXT_MIDNIGHT + HOUR),
    ]
    clicks = [
        Click(click_id="ad and user", impression_id="i", ad_id="a", user_id="u", event_time=NOON + SECOND),
        Click(click_id="ad", impression_id="i", ad_id="a", user_id="x", event_time=NOON + 2 * SECOND),
        Click(click_id="other ad", impression_id="i", ad_id="b", user_id="u", event_time=NOON + 3 * SECOND),
        Click(click_id="neither", impression_id="i", ad_id="c", user_id="x", event_time=NOON + 4 * SECOND),
    ]

    shown = effectiveness(spark, ads, clicks)

    assert {ad: figures(row) for ad, row in shown.items()} == {
        "a": {"clicks": 2},
        "b": {"clicks": 1, "repeat_clicks": 1},
    }
    # The first belongs to the impression of a second before, and the other one to that of an hour before.
    assert shown["a"]["median_seconds_to_click"] == (1 + 3602) / 2


def test_a_click_on_an_ad_shown_after_midnight_is_not_that_of_the_day_before_with_the_same_id(
    spark: SparkSession,
) -> None:
    ads = [Ad(source="one", ad_id="a"), Ad(source="two", ad_id="b", event_time=NEXT_MIDNIGHT + SECOND)]
    click = Click(impression_id="i", ad_id="b", event_time=NEXT_MIDNIGHT + HOUR)

    assert {ad: figures(row) for ad, row in effectiveness(spark, ads, [click]).items()} == {"a": {}}
    next_day = effectiveness(spark, ads, [click], day=DAY + ONE_DAY)
    assert {ad: figures(row) for ad, row in next_day.items()} == {"b": {"clicks": 1}}


def test_impressions_of_one_id_and_moment_that_two_partners_showed_count_a_click_each(spark: SparkSession) -> None:
    ads = [Ad(source="one", user_id="u"), Ad(source="two", user_id="v")]
    clicks = [Click(click_id="k1", user_id="u"), Click(click_id="k2", user_id="v")]

    assert figures(effectiveness(spark, ads, clicks)["a"]) == {"clicks": 2}


def test_an_ad_that_was_only_clicked_has_a_row_without_rates(spark: SparkSession) -> None:
    (row,) = effectiveness(spark, [], [Click()]).values()

    assert (row["impressions"], row["users"], row["clicks"], row["orphan_clicks"]) == (0, 0, 0, 1)
    rates = ("ctr", "ctr_low", "ctr_high", "cost", "cost_per_click", "median_seconds_to_click", "campaign_id")
    assert {row[name] for name in rates} == {None}


def test_an_ad_without_impression_or_click_on_the_day_has_no_row(spark: SparkSession) -> None:
    ads = [Ad(event_time=NOON - ONE_DAY), Ad(event_time=NOON + ONE_DAY, ad_id="b")]
    clicks = [Click(event_time=NOON + ONE_DAY, ad_id="c"), Click(event_time=NOON + ONE_DAY, ad_id="b")]

    assert effectiveness(spark, ads, clicks, [("d", None, None, None)]) == {}


def test_no_ads_and_no_clicks_make_an_empty_frame(spark: SparkSession) -> None:
    assert effectiveness(spark, []) == {}


def test_costs_are_summed_exactly_and_unknown_ones_left_out(spark: SparkSession) -> None:
    ads = [
        *[Ad(impression_id=f"{n}", user_id=f"{n}", cost=Decimal("0.1")) for n in range(10)],
        Ad(impression_id="unknown", cost=None),
        *[Ad(impression_id=f"b{n}", ad_id="b", cost=Decimal("999999999999.999999")) for n in range(3)],
        Ad(impression_id="c", ad_id="c", cost=None),
    ]

    shown = effectiveness(spark, ads)

    assert {ad: row["cost"] for ad, row in shown.items()} == {
        "a": Decimal("1.000000"),
        "b": Decimal("2999999999999.999997"),
        "c": None,
    }


def test_cost_per_click_is_rounded_half_up_to_a_millionth(spark: SparkSession) -> None:
    cases = {("1", 3): "0.333333", ("2", 3): "0.666667", ("0.000001", 2): "0.000001", ("0.000003", 2): "0.000002"}
    cases |= {("0.000001", 3): "0.000000", ("999999999999.999999", 1): "999999999999.999999"}
    ads, clicks = [], []
    for cost, count in cases:
        name = f"{cost} / {count}"
        for n in range(count):
            ads.append(Ad(impression_id=f"{name}: {n}", ad_id=name, cost=Decimal(cost) if n == 0 else Decimal(0)))
            clicks.append(Click(click_id=f"{name}: {n}", impression_id=f"{name}: {n}", ad_id=name))

    shown = effectiveness(spark, ads, clicks)

    assert {ad: row["cost_per_click"] for ad, row in shown.items()} == {
        f"{cost} / {count}": Decimal(expected) for (cost, count), expected in cases.items()
    }


def test_an_ad_without_clicks_has_a_cost_but_none_per_click(spark: SparkSession) -> None:
    row = effectiveness(spark, [Ad(cost=Decimal(1))])["a"]

    assert (row["cost"], row["cost_per_click"]) == (Decimal(1), None)


def test_the_median_time_to_click_is_exact(spark: SparkSession) -> None:
    delays = {"one": [5], "odd": [1, 2, 900], "even": [1, 2, 4, 900]}
    ads, clicks = [], []
    for ad, seconds in delays.items():
        for n, delay in enumerate(seconds):
            name, clicked_at = f"{ad} {n}", NOON + delay * SECOND
            ads.append(Ad(impression_id=name, ad_id=ad))
            clicks.append(Click(click_id=name, impression_id=name, ad_id=ad, event_time=clicked_at))

    shown = effectiveness(spark, ads, clicks)

    assert {ad: row["median_seconds_to_click"] for ad, row in shown.items()} == {"one": 5.0, "odd": 2.0, "even": 3.0}


def test_the_campaign_is_the_one_shown_most_often_and_of_equals_the_first_by_name(spark: SparkSession) -> None:
    ads = [
        *[Ad(impression_id=f"a{n}", campaign_id=name) for n, name in enumerate(["x", "y", "y", None, None, None])],
        *[Ad(impression_id=f"b{n}", ad_id="b", campaign_id=name) for n, name in enumerate(["z", "x"])],
    ]

    shown = effectiveness(spark, ads, catalog=[("a", "catalog", None, None)])

    assert {ad: row["campaign_id"] for ad, row in shown.items()} == {"a": "y", "b": "x"}


def test_what_the_catalog_knows_is_added_and_names_a_campaign_where_the_logs_do_not(spark: SparkSession) -> None:
    ads = [Ad(campaign_id=None), Ad(impression_id="b", ad_id="b", campaign_id="logged")]
    catalog = [
        ("a", "catalog", "Acme", "https://acme.example"),
        ("never shown", "x", "y", "z"),
        ("b", "catalog", None, None),
    ]

    shown = effectiveness(spark, ads, catalog=catalog)

    known = ("campaign_id", "advertiser", "landing_page")
    assert {ad: tuple(row[name] for name in known) for ad, row in shown.items()} == {
        "a": ("catalog", "Acme", "https://acme.example"),
        "b": ("logged", None, None),
    }


def test_a_catalog_with_several_rows_for_an_ad_multiplies_nothing(spark: SparkSession) -> None:
    catalog = [("a", "c", None, None), ("a", "c", "Acme", "https://acme.example"), ("a", "b", "Zeta", None)]

    for order in (catalog, catalog[::-1]):
        (row,) = effectiveness(spark, [Ad()], [Click()], order).values()
        assert (row["impressions"], row["clicks"], row["advertiser"]) == (1, 1, "Acme")


def test_clicks_never_exceed_impressions_however_often_users_click(spark: SparkSession) -> None:
    clicks = [Click(click_id=f"k{n}", event_time=NOON + n * HOUR) for n in range(12)]
    row = effectiveness(spark, [Ad()], clicks)["a"]

    assert (row["clicks"], row["repeat_clicks"], row["ctr"]) == (1, 11, 1.0)
