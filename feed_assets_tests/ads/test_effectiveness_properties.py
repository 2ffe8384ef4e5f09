"""Attribution against a plain reference and another engine, over event sets in which everything collides."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from decimal import Decimal
from functools import cache
from pathlib import Path
from typing import Any

import duckdb
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession

from feed_assets.ads.effectiveness import ads_with_shared_clicks
from feed_assets.ads.schemas import AD_CATALOG, AD_EFFECTIVENESS
from feed_assets_tests.ads import reference
from feed_assets_tests.ads.cases import Case, together
from feed_assets_tests.ads.events import (
    DAY,
    HOUR,
    MICROSECOND,
    MIDNIGHT,
    ONE_DAY,
    Ad,
    Click,
    clean_ads,
    clean_clicks,
    frame,
    rows,
)

OFFSETS = [timedelta(0), MICROSECOND, -MICROSECOND, 6 * HOUR, 12 * HOUR, 23 * HOUR]
MOMENTS = sorted({MIDNIGHT + days * ONE_DAY + offset for days in range(-1, 3) for offset in OFFSETS})
"""Few enough that events coincide, lie a window or a midnight apart, and miss both by a microsecond."""

WINDOWS = [ONE_DAY, 12 * HOUR]
COSTS = [None, Decimal("0.000001"), Decimal("0.1"), Decimal("3.333333")]


def ads_of(
    impressions: Sequence[tuple[datetime, str, str, str, str | None, str | None, Decimal | None]],
) -> tuple[Ad, ...]:
    """Ads whose ids are unique in each day and source, as cleaning leaves them."""
    ads = {
        (moment.date(), source, name): Ad(
            impression_id=name,
            event_time=moment,
            source=source,
            ad_id=ad,
            user_id=user,
            campaign_id=campaign,
            cost=cost,
        )
        for moment, source, name, ad, user, campaign, cost in impressions
    }
    return tuple(ads.values())


def clicks_of(clicks: Sequence[tuple[datetime, str | None, str, str | None]]) -> tuple[Click, ...]:
    return tuple(
        Click(click_id=f"k{number}", event_time=moment, impression_id=name, ad_id=ad, user_id=user)
        for number, (moment, name, ad, user) in enumerate(clicks)
    )


MOMENT, IMPRESSION, AD = st.sampled_from(MOMENTS), st.sampled_from("ijk"), st.sampled_from("ab")
SOURCE = st.sampled_from(["one", "two"])
USER, CAMPAIGN = st.sampled_from(["u", "v", None]), st.sampled_from(["x", "y", None])
CASES = st.builds(
    Case,
    st.lists(st.tuples(MOMENT, SOURCE, IMPRESSION, AD, USER, CAMPAIGN, st.sampled_from(COSTS)), max_size=8).map(ads_of),
    st.lists(st.tuples(MOMENT, st.none() | IMPRESSION, AD, USER), max_size=6).map(clicks_of),
)


def random_case(chance: random.Random) -> Case:
    """The same in bulk: hypothesis finds and shrinks, this covers."""
    impressions = [
        (
            chance.choice(MOMENTS),
            chance.choice(["one", "two"]),
            chance.choice("ijklmn"),
            chance.choice("ab"),
            chance.choice(["u", "v", None]),
            chance.choice(["x", "y", None]),
            chance.choice(COSTS),
        )
        for _ in range(chance.randrange(12))
    ]
    clicks = [
        (
            chance.choice(MOMENTS),
            chance.choice([None, None, *"ijkl"]),
            chance.choice("ab"),
            chance.choice(["u", "v", None]),
        )
        for _ in range(chance.randrange(10))
    ]
    return Case(ads_of(impressions), clicks_of(clicks))


def computed(
    spark: SparkSession, case: Case, *, day: Any = DAY, window: timedelta = ONE_DAY
) -> dict[str, dict[str, Any]]:
    found = ads_with_shared_clicks(
        clean_ads(spark, case.ads),
        clean_clicks(spark, case.clicks),
        frame(spark, [], AD_CATALOG),
        day=day,
        attribution_window=window,
    ).select(AD_EFFECTIVENESS.names)
    return {row["ad_id"]: row for row in rows(found)}


def assert_as_the_reference_says(
    found: Mapping[str, Mapping[str, Any]], cases: Sequence[Case], day: Any, window: timedelta
) -> None:
    expected: dict[str, dict[str, Any]] = {}
    for number, case in enumerate(cases):
        of_case = reference.effectiveness(case.ads, case.clicks, day=day, window=window)
        expected |= {f"{number}/{ad}": row for ad, row in of_case.items()}
    assert found.keys() == expected.keys()
    for ad, row in expected.items():
        assert {name: found[ad][name] for name in row} == row, (ad, cases[int(ad.split("/")[0])])


@settings(max_examples=6, suppress_health_check=list(HealthCheck))
@given(
    cases=st.lists(CASES, min_size=5, max_size=12),
    day=st.sampled_from([DAY, DAY + ONE_DAY]),
    window=st.sampled_from(WINDOWS),
)
def test_small_event_sets_are_attributed_as_the_reference_says(
    spark: SparkSession, cases: list[Case], day: Any, window: timedelta
) -> None:
    found = computed(spark, together(dict(enumerate(cases))), day=day, window=window)

    assert_as_the_reference_says(found, cases, day, window)


@pytest.fixture(scope="module")
def two_thousand() -> list[Case]:
    chance = random.Random(20191127)
    return [random_case(chance) for _ in range(2000)]


@pytest.fixture(scope="module")
def of_two_thousand(spark: SparkSession, two_thousand: list[Case]) -> Callable[..., dict[str, dict[str, Any]]]:
    """What is computed of the two thousand event sets, for a day and a window."""
    everything = together(dict(enumerate(two_thousand)))
    return cache(lambda day, window: computed(spark, everything, day=day, window=window))


@pytest.mark.parametrize("window", WINDOWS)
def test_two_thousand_event_sets_are_attributed_as_the_reference_says(
    two_thousand: list[Case], of_two_thousand: Callable[..., dict[str, dict[str, Any]]], window: timedelta
) -> None:
    assert_as_the_reference_says(of_two_thousand(DAY, window), two_thousand, DAY, window)


def test_totals_reconcile_with_the_day_and_no_click_counts_on_two_days(
    two_thousand: list[Case], of_two_thousand: Callable[..., dict[str, dict[str, Any]]]
) -> None:
    case = together(dict(enumerate(two_thousand)))

    today, tomorrow = of_two_thousand(DAY, ONE_DAY), of_two_thousand(DAY + ONE_DAY, ONE_DAY)

    for day, found in ((DAY, today), (DAY + ONE_DAY, tomorrow)):
        clicks = sum(click.event_time.date() == day for click in case.clicks if click.event_time)
        impressions = sum(ad.event_time.date() == day for ad in case.ads if ad.event_time)
        total = {
            name: sum(row[name] for row in found.values())
            for name in next(iter(found.values()))
            if "click" in name and name not in ("cost_per_click", "median_seconds_to_click")
        }
        assert sum(row["impressions"] for row in found.values()) == impressions
        assert clicks == (
            total["clicks"]
            - total["clicks_next_day"]
            + total["repeat_clicks"]
            + total["previous_day_clicks"]
            + total["orphan_clicks"]
        )
    for ad, row in today.items():
        of_the_day_before = tomorrow[ad]["previous_day_clicks"] if ad in tomorrow else 0
        assert row["clicks"] <= row["impressions"]
        assert row["clicks_next_day"] <= of_the_day_before


def test_the_order_of_rows_makes_no_difference(
    spark: SparkSession, two_thousand: list[Case], of_two_thousand: Callable[..., dict[str, dict[str, Any]]]
) -> None:
    chance = random.Random(2)
    case = together(dict(enumerate(two_thousand)))
    shuffled = Case(tuple(chance.sample(case.ads, len(case.ads))), tuple(chance.sample(case.clicks, len(case.clicks))))

    assert computed(spark, shuffled) == of_two_thousand(DAY, ONE_DAY)


IN_DUCKDB = """
WITH ads AS (SELECT *, event_time::DATE AS day FROM read_parquet('{ads}/*.parquet')),
clicks AS (SELECT *, event_time::DATE AS day FROM read_parquet('{clicks}/*.parquet')),
named AS (
    SELECT click_id, c.event_time AS clicked, c.day, arg_min(a, a.event_time) AS seen, c.ad_id
    FROM clicks c LEFT JOIN ads a ON a.impression_id = c.impression_id AND a.day IN (c.day, c.day - 1)
    WHERE c.impression_id IS NOT NULL GROUP BY ALL
),
guessed AS (
    SELECT click_id, c.event_time AS clicked, c.day, arg_max(a, (a.event_time, a.impression_id)) AS seen, c.ad_id
    FROM clicks c LEFT JOIN ads a ON a.user_id = c.user_id AND a.ad_id = c.ad_id
        AND a.event_time BETWEEN c.event_time - INTERVAL 24 HOURS AND c.event_time
    WHERE c.impression_id IS NULL GROUP BY ALL
),
explained AS (
    SELECT *, row_number() OVER (PARTITION BY seen.impression_id, seen.event_time ORDER BY clicked, click_id) AS nth
    FROM (FROM named UNION ALL FROM guessed)
),
counted AS (
    SELECT coalesce(seen.ad_id, ad_id) AS ad_id,
        count(*) FILTER (seen.day = DATE '{day}' AND nth = 1) AS clicks,
        count(*) FILTER (seen.day = DATE '{day}' AND nth = 1 AND day > DATE '{day}') AS clicks_next_day,
        count(*) FILTER (seen.day = DATE '{day}' AND nth > 1 AND day = DATE '{day}') AS repeat_clicks,
        count(*) FILTER (seen.day < DATE '{day}' AND day = DATE '{day}') AS previous_day_clicks,
        count(*) FILTER (seen.event_time IS NULL AND day = DATE '{day}') AS orphan_clicks,
        median(epoch_us(clicked) - epoch_us(seen.event_time)) FILTER (seen.day = DATE '{day}' AND nth = 1) AS delay
    FROM explained WHERE day IN (DATE '{day}', DATE '{day}' + 1) GROUP BY ALL
),
shown AS (
    SELECT ad_id, count(*) AS impressions, count(DISTINCT user_id) AS users, sum(cost) AS cost
    FROM ads WHERE day = DATE '{day}' GROUP BY ad_id
)
SELECT ad_id, coalesce(impressions, 0), coalesce(users, 0), cost, coalesce(clicks, 0), coalesce(clicks_next_day, 0),
    coalesce(repeat_clicks, 0), coalesce(previous_day_clicks, 0), coalesce(orphan_clicks, 0), delay / 1e6
FROM shown FULL JOIN counted USING (ad_id)
WHERE impressions > 0 OR clicks + repeat_clicks + previous_day_clicks + orphan_clicks > 0
"""


def test_another_engine_gives_the_same_figures_for_thousands_of_rows(spark: SparkSession, tmp_path: Path) -> None:
    chance = random.Random(3)
    ads = [
        Ad(
            impression_id=f"i{number}",
            event_time=MIDNIGHT + timedelta(seconds=chance.randrange(-86_400, 2 * 86_400)),
            ad_id=f"ad{chance.randrange(30)}",
            user_id=chance.choice([None, *[f"u{n}" for n in range(40)]]),
            cost=chance.choice(COSTS),
        )
        for number in range(6000)
    ]
    clicks = [
        Click(
            click_id=f"k{number}",
            event_time=MIDNIGHT + timedelta(seconds=chance.randrange(2 * 86_400)),
            impression_id=chance.choice([None, None, f"i{chance.randrange(6500)}"]),
            ad_id=f"ad{chance.randrange(30)}",
            user_id=chance.choice([None, *[f"u{n}" for n in range(40)]]),
        )
        for number in range(2000)
    ]
    # Clicks that name an impression come after it, so that both engines measure the same delay.
    times = {ad.impression_id: ad.event_time for ad in ads}
    clicks = [
        click
        for click in clicks
        if click.event_time and click.event_time >= (times.get(click.impression_id) or MIDNIGHT)
    ]
    clean_ads(spark, ads).write.parquet(f"{tmp_path}/ads")
    clean_clicks(spark, clicks).write.parquet(f"{tmp_path}/clicks")

    with duckdb.connect() as connection:
        connection.execute("SET TimeZone = 'UTC'")
        query = IN_DUCKDB.format(ads=tmp_path / "ads", clicks=tmp_path / "clicks", day=DAY)
        theirs = sorted(connection.execute(query).fetchall())

    columns = ["ad_id", "impressions", "users", "cost", "clicks", "clicks_next_day", "repeat_clicks"]
    columns += ["previous_day_clicks", "orphan_clicks", "median_seconds_to_click"]
    found = computed(spark, Case(tuple(ads), tuple(clicks)))
    ours = sorted(tuple(row[name] for name in columns) for row in found.values())
    assert ours == theirs
    assert all(any(row[position] for row in ours) for position in range(len(columns)))
