"""Attribution and figures on small examples, each beside what must come of it.

Planning takes Spark far longer than a few rows do, so the examples of all tests are computed at once (see `example`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import date, timedelta
from decimal import Decimal
from functools import cache
from typing import Any, TypeVar

import pytest
from pyspark.sql import SparkSession

from feed_assets.ads.effectiveness import ads_with_shared_clicks
from feed_assets.ads.schemas import AD_CATALOG, AD_EFFECTIVENESS
from feed_assets_tests.ads.cases import Case, together
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
Shown = Callable[..., dict[str, dict[str, Any]]]
EXAMPLES: dict[str, Case] = {}
"""The events of each test, by its name."""

_Test = TypeVar("_Test", bound=Callable[..., None])


def example(
    ads: Iterable[Ad] = (), clicks: Iterable[Click] = (), catalog: Iterable[tuple[str | None, ...]] = ()
) -> Callable[[_Test], _Test]:
    """The events of a test, which have nothing to do with those of another."""

    def keep(test: _Test) -> _Test:
        EXAMPLES[test.__name__] = Case(tuple(ads), tuple(clicks), tuple(catalog))
        return test

    return keep


def effectiveness(spark: SparkSession, case: Case, day: date, window: timedelta) -> dict[str, dict[str, Any]]:
    """The rows by ad; one task reads all events, as it does those of a small day."""
    found = ads_with_shared_clicks(
        clean_ads(spark, case.ads).coalesce(1),
        clean_clicks(spark, case.clicks).coalesce(1),
        frame(spark, case.catalog, AD_CATALOG).coalesce(1),
        day=day,
        attribution_window=window,
    ).select(AD_EFFECTIVENESS.names)
    assert described(found.schema) == described(AD_EFFECTIVENESS)
    collected = rows(found)
    assert len({row["ad_id"] for row in collected}) == len(collected)
    return {row["ad_id"]: row for row in collected}


@pytest.fixture(scope="module")
def of_all(spark: SparkSession) -> Callable[[date, timedelta], dict[str, dict[str, dict[str, Any]]]]:
    """The rows of each test's example, by ad, for a day and an attribution window."""
    everything = together(EXAMPLES)

    @cache
    def computed(day: date, window: timedelta) -> dict[str, dict[str, dict[str, Any]]]:
        found: dict[str, dict[str, dict[str, Any]]] = {name: {} for name in EXAMPLES}
        for ad, row in effectiveness(spark, everything, day, window).items():
            name, _, within = ad.partition("/")
            found[name][within] = row
        return found

    return computed


@pytest.fixture
def shown(
    of_all: Callable[[date, timedelta], dict[str, dict[str, dict[str, Any]]]], request: pytest.FixtureRequest
) -> Shown:
    """Gives the rows of the test's own example, by ad, for a day."""

    def of_the_test(day: date = DAY, window: timedelta = ONE_DAY) -> dict[str, dict[str, Any]]:
        return of_all(day, window)[request.function.__name__]

    return of_the_test


def figures(row: dict[str, Any]) -> dict[str, int]:
    """The counts of clicks that are not zero."""
    names = ("clicks", "clicks_next_day", "repeat_clicks", "previous_day_clicks", "orphan_clicks")
    return {name: row[name] for name in names if row[name]}


@example(
    [
        Ad(impression_id="1"),
        Ad(impression_id="2"),
        Ad(impression_id="3", user_id="v"),
        Ad(impression_id="4", user_id=None),
        Ad(impression_id="5", ad_id="b", user_id=None),
    ]
)
def test_impressions_and_known_users_are_counted_per_ad(shown: Shown) -> None:
    assert {ad: (row["impressions"], row["users"]) for ad, row in shown().items()} == {"a": (4, 2), "b": (1, 0)}


@example(
    [Ad(impression_id="shown", event_time=MIDNIGHT, ad_id="a", user_id="u"), Ad(impression_id="other")],
    [Click(impression_id="shown", event_time=NEXT_MIDNIGHT + 23 * HOUR, user_id="someone else")],
)
def test_a_click_that_names_its_impression_counts_for_it_whoever_clicked_and_however_late(shown: Shown) -> None:
    assert figures(shown()["a"]) == {"clicks": 1, "clicks_next_day": 1}


@example([Ad(impression_id="i", ad_id="shown")], [Click(impression_id="i", ad_id="other")])
def test_a_click_counts_for_the_ad_that_was_shown_not_for_the_one_it_names(shown: Shown) -> None:
    assert {ad: figures(row) for ad, row in shown().items()} == {"shown": {"clicks": 1}}


@example([Ad()], [Click(impression_id="unknown")])
def test_a_click_that_names_an_unknown_impression_is_an_orphan_even_if_its_user_saw_the_ad(shown: Shown) -> None:
    assert figures(shown()["a"]) == {"orphan_clicks": 1}


@example([Ad()], [Click(impression_id="i", event_time=NOON - SECOND)])
def test_a_click_logged_before_the_impression_it_names_took_no_time(shown: Shown) -> None:
    assert figures(shown()["a"]) == {"clicks": 1}
    assert shown()["a"]["median_seconds_to_click"] == 0.0


@example([Ad(event_time=NEXT_MIDNIGHT)], [Click(impression_id="i", event_time=NEXT_MIDNIGHT - MICROSECOND)])
def test_a_click_on_an_impression_of_the_next_day_is_an_orphan(shown: Shown) -> None:
    assert figures(shown()["a"]) == {"orphan_clicks": 1}
    assert figures(shown(DAY + ONE_DAY)["a"]) == {}


@example(
    [
        Ad(impression_id="early", event_time=NOON - 2 * HOUR),
        Ad(impression_id="last", event_time=NOON - HOUR),
        Ad(impression_id="later", event_time=NOON + MICROSECOND),
        Ad(impression_id="other user", user_id="v", event_time=NOON - SECOND),
        Ad(impression_id="other ad", ad_id="b", event_time=NOON - SECOND),
    ],
    [Click()],
)
def test_without_a_name_the_last_impression_of_user_and_ad_wins(shown: Shown) -> None:
    assert figures(shown()["a"]) == {"clicks": 1}
    assert shown()["a"]["median_seconds_to_click"] == 3600.0
    assert figures(shown()["b"]) == {}


@example([Ad()], [Click()])
def test_an_impression_at_the_moment_of_the_click_explains_it(shown: Shown) -> None:
    assert figures(shown()["a"]) == {"clicks": 1}
    assert shown()["a"]["median_seconds_to_click"] == 0.0


AGES = {
    "an hour": HOUR,
    "more than an hour": HOUR + MICROSECOND,
    "a day": ONE_DAY,
    "more than a day": ONE_DAY + MICROSECOND,
}
CLICKED_AT = NEXT_MIDNIGHT + HOUR


@example(
    [Ad(impression_id=name, ad_id=name, event_time=CLICKED_AT - age) for name, age in AGES.items()],
    [Click(click_id=name, ad_id=name, event_time=CLICKED_AT) for name in AGES],
)
@pytest.mark.parametrize(
    ("window", "too_old"),
    [(ONE_DAY, {"more than a day"}), (HOUR, {"more than an hour", "a day", "more than a day"})],
    ids=["a day", "an hour"],
)
def test_the_attribution_window_includes_its_limit(shown: Shown, window: timedelta, too_old: set[str]) -> None:
    next_day = shown(DAY + ONE_DAY, window)

    assert {ad: row["orphan_clicks"] for ad, row in next_day.items()} == {age: int(age in too_old) for age in AGES}


@pytest.mark.parametrize("window", [timedelta(0), -HOUR, ONE_DAY + MICROSECOND])
def test_a_window_for_which_not_enough_is_read_is_refused(spark: SparkSession, window: timedelta) -> None:
    with pytest.raises(ValueError, match="attribution_window"):
        effectiveness(spark, Case(), DAY, window)


@example([Ad(user_id=None)], [Click(user_id=None)])
def test_a_user_who_is_not_known_never_matches(shown: Shown) -> None:
    assert figures(shown()["a"]) == {"orphan_clicks": 1}


@example([Ad(event_time=NEXT_MIDNIGHT - SECOND)], [Click(event_time=NEXT_MIDNIGHT + SECOND)])
def test_a_click_after_midnight_counts_for_the_day_shown_and_on_no_other(shown: Shown) -> None:
    assert figures(shown()["a"]) == {"clicks": 1, "clicks_next_day": 1}
    assert figures(shown(DAY + ONE_DAY)["a"]) == {"previous_day_clicks": 1}
    assert shown(DAY - ONE_DAY) == {}


@example(
    [
        Ad(impression_id="before", event_time=NEXT_MIDNIGHT - SECOND),
        Ad(impression_id="after", event_time=NEXT_MIDNIGHT + SECOND),
    ],
    [Click(event_time=NEXT_MIDNIGHT + 2 * SECOND)],
)
def test_an_impression_after_midnight_takes_the_click_from_the_one_before(shown: Shown) -> None:
    assert figures(shown()["a"]) == {}
    assert figures(shown(DAY + ONE_DAY)["a"]) == {"clicks": 1}


@example(
    [Ad()],
    [
        Click(click_id="k1", event_time=NOON + HOUR),
        Click(click_id="k2", event_time=NOON + 2 * HOUR, impression_id="i"),
        Click(click_id="k3", event_time=NEXT_MIDNIGHT + HOUR, impression_id="i"),
    ],
)
def test_an_impression_counts_its_first_click_and_later_ones_as_repeats(shown: Shown) -> None:
    today, tomorrow = shown()["a"], shown(DAY + ONE_DAY)["a"]

    assert figures(today) == {"clicks": 1, "repeat_clicks": 1}
    assert today["median_seconds_to_click"] == 3600.0
    assert figures(tomorrow) == {"previous_day_clicks": 1}


@example(
    [Ad(event_time=NOON), Ad(event_time=NEXT_MIDNIGHT + SECOND)],
    [Click(impression_id="i", event_time=NEXT_MIDNIGHT + HOUR)],
)
def test_an_id_delivered_again_after_midnight_is_the_impression_of_the_day_before(shown: Shown) -> None:
    assert figures(shown()["a"]) == {"clicks": 1, "clicks_next_day": 1}
    assert figures(shown(DAY + ONE_DAY)["a"]) == {"previous_day_clicks": 1}


@example(
    [Ad(event_time=NOON + days * ONE_DAY) for days in (-1, 0, 1)],
    [Click(click_id=f"k{days}", impression_id="i", event_time=NOON + days * ONE_DAY) for days in (0, 1)],
)
def test_of_three_days_with_one_id_each_click_still_counts_once(shown: Shown) -> None:
    by_day = [figures(shown(DAY + days * ONE_DAY)["a"]) for days in (-1, 0, 1)]

    assert by_day == [
        {"clicks": 1, "clicks_next_day": 1},
        {"clicks": 1, "clicks_next_day": 1, "previous_day_clicks": 1},
        {"previous_day_clicks": 1},
    ]


@example(
    [
        Ad(source="one", ad_id="a", user_id="u"),
        Ad(source="two", ad_id="a", user_id=None, event_time=NOON - HOUR),
        Ad(source="three", ad_id="b", user_id="v", event_time=NOON - 2 * HOUR),
        Ad(source="four", ad_id="a", user_id="u", event_time=NEXT_MIDNIGHT + HOUR),
    ],
    [
        Click(click_id="ad and user", impression_id="i", ad_id="a", user_id="u", event_time=NOON + SECOND),
        Click(click_id="ad", impression_id="i", ad_id="a", user_id="x", event_time=NOON + 2 * SECOND),
        Click(click_id="other ad", impression_id="i", ad_id="b", user_id="u", event_time=NOON + 3 * SECOND),
        Click(click_id="neither", impression_id="i", ad_id="c", user_id="x", event_time=NOON + 4 * SECOND),
    ],
)
def test_of_partners_impressions_with_one_id_the_click_belongs_to_the_one_of_its_ad_then_of_its_user(
    shown: Shown,
) -> None:
    assert {ad: figures(row) for ad, row in shown().items()} == {
        "a": {"clicks": 2},
        "b": {"clicks": 1, "repeat_clicks": 1},
    }
    # The first belongs to the impression of a second before, and the other one to that of an hour before.
    assert shown()["a"]["median_seconds_to_click"] == (1 + 3602) / 2


@example(
    [Ad(source="one", ad_id="a"), Ad(source="two", ad_id="b", event_time=NEXT_MIDNIGHT + SECOND)],
    [Click(impression_id="i", ad_id="b", event_time=NEXT_MIDNIGHT + HOUR)],
)
def test_a_click_on_an_ad_shown_after_midnight_is_not_that_of_the_day_before_with_the_same_id(shown: Shown) -> None:
    assert {ad: figures(row) for ad, row in shown().items()} == {"a": {}}
    assert {ad: figures(row) for ad, row in shown(DAY + ONE_DAY).items()} == {"b": {"clicks": 1}}


@example(
    [Ad(source="one", user_id="u"), Ad(source="two", user_id="v")],
    [Click(click_id="k1", user_id="u"), Click(click_id="k2", user_id="v")],
)
def test_impressions_of_one_id_and_moment_that_two_partners_showed_count_a_click_each(shown: Shown) -> None:
    assert figures(shown()["a"]) == {"clicks": 2}


@example([], [Click()])
def test_an_ad_that_was_only_clicked_has_a_row_without_rates(shown: Shown) -> None:
    (row,) = shown().values()

    assert (row["impressions"], row["users"], row["clicks"], row["orphan_clicks"]) == (0, 0, 0, 1)
    rates = ("ctr", "ctr_low", "ctr_high", "cost", "cost_per_click", "median_seconds_to_click", "campaign_id")
    assert {row[name] for name in rates} == {None}


@example(
    [Ad(event_time=NOON - ONE_DAY), Ad(event_time=NOON + ONE_DAY, ad_id="b")],
    [Click(event_time=NOON + ONE_DAY, ad_id="c"), Click(event_time=NOON + ONE_DAY, ad_id="b")],
    [("d", None, None, None)],
)
def test_an_ad_without_impression_or_click_on_the_day_has_no_row(shown: Shown) -> None:
    assert shown() == {}


def test_no_ads_and_no_clicks_make_an_empty_frame(spark: SparkSession) -> None:
    assert effectiveness(spark, Case(), DAY, ONE_DAY) == {}


@example(
    [
        *[Ad(impression_id=f"{n}", user_id=f"{n}", cost=Decimal("0.1")) for n in range(10)],
        Ad(impression_id="unknown", cost=None),
        *[Ad(impression_id=f"b{n}", ad_id="b", cost=Decimal("999999999999.999999")) for n in range(3)],
        Ad(impression_id="c", ad_id="c", cost=None),
    ]
)
def test_costs_are_summed_exactly_and_unknown_ones_left_out(shown: Shown) -> None:
    assert {ad: row["cost"] for ad, row in shown().items()} == {
        "a": Decimal("1.000000"),
        "b": Decimal("2999999999999.999997"),
        "c": None,
    }


COSTS_AND_CLICKS = {
    "a third": ("1", 3),
    "two thirds": ("2", 3),
    "half a millionth": ("0.000001", 2),
    "one and a half": ("0.000003", 2),
    "a third of a millionth": ("0.000001", 3),
    "the most": ("999999999999.999999", 1),
}
CLICKED = [
    (ad, f"{ad} {n}", Decimal(cost) if n == 0 else Decimal(0))
    for ad, (cost, clicks) in COSTS_AND_CLICKS.items()
    for n in range(clicks)
]


@example(
    [Ad(impression_id=name, ad_id=ad, cost=cost) for ad, name, cost in CLICKED],
    [Click(click_id=name, impression_id=name, ad_id=ad) for ad, name, _ in CLICKED],
)
def test_cost_per_click_is_rounded_half_up_to_a_millionth(shown: Shown) -> None:
    assert {ad: row["cost_per_click"] for ad, row in shown().items()} == {
        "a third": Decimal("0.333333"),
        "two thirds": Decimal("0.666667"),
        "half a millionth": Decimal("0.000001"),
        "one and a half": Decimal("0.000002"),
        "a third of a millionth": Decimal("0.000000"),
        "the most": Decimal("999999999999.999999"),
    }


@example([Ad(cost=Decimal(1))])
def test_an_ad_without_clicks_has_a_cost_but_none_per_click(shown: Shown) -> None:
    row = shown()["a"]

    assert (row["cost"], row["cost_per_click"]) == (Decimal(1), None)


DELAYS = [
    (ad, f"{ad} {n}", delay)
    for ad, seconds in {"one": [5], "odd": [1, 2, 900], "even": [1, 2, 4, 900]}.items()
    for n, delay in enumerate(seconds)
]


@example(
    [Ad(impression_id=name, ad_id=ad) for ad, name, _ in DELAYS],
    [
        Click(click_id=name, impression_id=name, ad_id=ad, event_time=NOON + delay * SECOND)
        for ad, name, delay in DELAYS
    ],
)
def test_the_median_time_to_click_is_exact(shown: Shown) -> None:
    assert {ad: row["median_seconds_to_click"] for ad, row in shown().items()} == {"one": 5.0, "odd": 2.0, "even": 3.0}


@example(
    [
        *[Ad(impression_id=f"a{n}", campaign_id=name) for n, name in enumerate(["x", "y", "y", None, None, None])],
        *[Ad(impression_id=f"b{n}", ad_id="b", campaign_id=name) for n, name in enumerate(["z", "x"])],
    ],
    catalog=[("a", "catalog", None, None)],
)
def test_the_campaign_is_the_one_shown_most_often_and_of_equals_the_first_by_name(shown: Shown) -> None:
    assert {ad: row["campaign_id"] for ad, row in shown().items()} == {"a": "y", "b": "x"}


@example(
    [Ad(campaign_id=None), Ad(impression_id="b", ad_id="b", campaign_id="logged")],
    catalog=[
        ("a", "catalog", "Acme", "https://acme.example"),
        ("never shown", "x", "y", "z"),
        ("b", "catalog", None, None),
    ],
)
def test_what_the_catalog_knows_is_added_and_names_a_campaign_where_the_logs_do_not(shown: Shown) -> None:
    known = ("campaign_id", "advertiser", "landing_page")
    assert {ad: tuple(row[name] for name in known) for ad, row in shown().items()} == {
        "a": ("catalog", "Acme", "https://acme.example"),
        "b": ("logged", None, None),
    }


SEVERAL = [("c", None, None), ("c", "Acme", "https://acme.example"), ("b", "Zeta", None)]


@example(
    [Ad(impression_id=order, ad_id=order) for order in ("forwards", "backwards")],
    [Click(click_id=order, ad_id=order) for order in ("forwards", "backwards")],
    [*[("forwards", *row) for row in SEVERAL], *[("backwards", *row) for row in SEVERAL[::-1]]],
)
def test_a_catalog_with_several_rows_for_an_ad_multiplies_nothing(shown: Shown) -> None:
    figures_of = {ad: (row["impressions"], row["clicks"], row["advertiser"]) for ad, row in shown().items()}

    assert figures_of == {"forwards": (1, 1, "Acme"), "backwards": (1, 1, "Acme")}


@example([Ad()], [Click(click_id=f"k{n}", event_time=NOON + n * HOUR) for n in range(12)])
def test_clicks_never_exceed_impressions_however_often_users_click(shown: Shown) -> None:
    row = shown()["a"]

    assert (row["clicks"], row["repeat_clicks"], row["ctr"]) == (1, 11, 1.0)
