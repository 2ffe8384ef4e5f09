"""How effective each ad was on the day it was shown: which impression a click belongs to, and the sums.

Here: attribution and the figures per ad. Not here: cleaning, and which days' updates are read.

A click belongs to at most one impression:

- If the click names an impression: the impression of that id on the click's day or the day before. Partners may use
  the same ids: of several impressions, one of the click's ad is preferred, then one of its user, then the earliest. No
  attribution window applies. Clocks may disagree: a click logged before its impression has a delay of 0.
- Else, if the user is known: the last impression of that user and that ad at or before the click, at most the
  attribution window ago. Of equally late impressions, the last by impression id.
- If no impression is found, the click is an orphan.

The source of an event does not matter, because a partner's ads and clicks are two sources. So users with equal names
are one user, also of different partners.

An impression counts one click, the first, so that a CTR is a share. It counts on the day shown, with clicks from that
day or the next. So each click of a day is counted in exactly one place of one day:

    clicks on the day = (clicks - clicks_next_day) + repeat_clicks + previous_day_clicks + orphan_clicks

Clicks count for the ad of their impression, orphans for the ad they name.

Two neighbouring days share the later day's clicks. Both days compute which click counts where, each from the inputs it
read. `shared_clicks` gives a digest of the result for each midnight: if the digests of two days are equal, no click
counts on both days or on neither.

Expressions are SQL, as everywhere where days are processed: PySpark's own functions call Java for each part of one,
which takes ten times as long as parsing the whole. They also name the variable of a lambda anew each time, and Java
would compile it anew.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import date, timedelta
from statistics import NormalDist
from typing import Final, TypeVar

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - as everyone writes Spark
from pyspark.sql.types import LongType, StructField, StructType

import feed_assets as fa
from feed_assets.ads.schemas import AD_EFFECTIVENESS, COUNT, TOTAL_COST

CONFIDENCE: Final = 0.95
Z: Final = NormalDist().inv_cdf((1 + CONFIDENCE) / 2)
"""About 1.96: the quantile of the standard normal distribution for a two-sided interval of this confidence."""
_Number = TypeVar("_Number", float, Column)

SHOWN: Final = 1
CLICKED: Final = 2
"""The order of events at the same moment: an impression at the moment of a click explains the click."""

CLICKS_BEFORE: Final = "_clicks_before"
CLICKS_AFTER: Final = "_clicks_after"
"""Hashes, for each ad, of the day's clicks on impressions of the day before, and of the next day's on the day's own."""

SORTED: Final = "merge"
"""The hint for joins of sums. Spark would broadcast small sides instead, and each takes a job and a wait of its own."""

ONE_DAY: Final = timedelta(days=1)
MICROSECOND: Final = timedelta(microseconds=1)
COUNTS: Final = [field.name for field in AD_EFFECTIVENESS if field.dataType == COUNT]
MICROSECONDS_A_SECOND: Final = 1_000_000


def shared_clicks() -> list[Column]:
    """Aggregates `before` and `after`: BIGINT digests of the clicks that the day shares with its neighbours.

    Use them on a frame of `ads_with_shared_clicks`. `before` covers the day's clicks that belong to impressions of the
    day before, `after` the next day's clicks that belong to impressions of the day, each with its ad; NULL without such
    clicks. A day's `after` equals the next day's `before` if both attribute the same clicks alike.
    """
    digests = {"before": CLICKS_BEFORE, "after": CLICKS_AFTER}
    return [
        F.expr(f"bit_xor(IF({column} IS NOT NULL, xxhash64(ad_id, {column}), NULL)) AS {name}")
        for name, column in digests.items()
    ]


def ads_with_shared_clicks(
    ads: DataFrame,
    clicks: DataFrame,
    catalog: DataFrame,
    *,
    day: date,
    attribution_window: timedelta = ONE_DAY,
) -> DataFrame:
    """One row, as `AD_EFFECTIVENESS` declares it, for each ad with an impression or a click on the UTC day.

    Two more columns are those from which `shared_clicks` makes its digests.

    `ads` (`CLEAN_ADS`) hold the day before, the day and the next, `clicks` (`CLEAN_CLICKS`) the day and the next, as
    far as they exist; rows of other days are ignored. `catalog` is an `AD_CATALOG`; of several rows for an ad, always
    the same row is used. Raises ValueError unless the window is positive and at most a day.
    """
    if not timedelta() < attribution_window <= ONE_DAY:
        raise ValueError(
            f"attribution_window is {attribution_window}; it takes more than zero and at most {ONE_DAY}, "
            "because a click is compared with the impressions of its own day and the day before."
        )
    shown = ads.filter(fa.within_days("event_time", day - ONE_DAY, days=3))
    clicked = clicks.filter(fa.within_days("event_time", day, days=2))
    clicked = clicked.selectExpr("*", "xxhash64(source, click_id) AS _click")
    explained = _by_name(shown, clicked, day).unionByName(_by_user(shown, clicked, attribution_window))
    impressions = _impressions(_shown_on(day, shown))
    per_ad = impressions.join(_clicks(explained, day), "ad_id", "full_outer")
    # Nullable, so that a NULL in a required column stays for a check to find.
    columns = [StructField(each.name, each.dataType, metadata=each.metadata) for each in AD_EFFECTIVENESS]
    shared = [StructField(name, LongType()) for name in (CLICKS_BEFORE, CLICKS_AFTER)]
    return _figures(_enriched(per_ad, catalog)).to(StructType([*columns, *shared]))


def _by_name(ads: DataFrame, clicks: DataFrame, day: date) -> DataFrame:
    """The clicks that name an impression: its source and id, clicked_at, shown_at (NULL for orphans), ad_id, `_click`.

    `_click` is a hash that identifies the click. An id has few impressions: at most one for each source and day.
    """
    before, today, after = (fa.within_days("event_time", each) for each in (day - ONE_DAY, day, day + ONE_DAY))
    named = clicks.filter("impression_id IS NOT NULL").selectExpr("*", f"{today} AS _today")
    impression = f"struct(event_time, source, ad_id, user_id, {before} AS before, {after} AS after)"
    alike = F.expr(f"collect_list({impression}) AS _alike")
    impressions = _touched(ads, named, "impression_id").groupBy("impression_id").agg(alike)
    # A click on the next day can belong to the day or the next day, as in the next day's own run.
    near = "filter(_alike, shown -> NOT if(_today, shown.after, shown.before))"
    differs = "NOT shown.ad_id <=> ad_id, NOT shown.user_id <=> user_id"
    ranked = f"transform({near}, shown -> struct({differs}, shown.event_time, shown.source, shown.ad_id))"
    return (
        named.join(impressions.hint(SORTED), "impression_id", "left")
        .selectExpr("*", f"array_min({ranked}) AS _seen")
        .selectExpr(
            "_seen.source",
            "impression_id",
            "event_time AS clicked_at",
            "_seen.event_time AS shown_at",
            "coalesce(_seen.ad_id, ad_id) AS ad_id",
            "_click",
        )
    )


def _by_user(ads: DataFrame, clicks: DataFrame, attribution_window: timedelta) -> DataFrame:
    """The clicks that name no impression, in the columns of `_by_name`.

    A window visits the impressions and clicks of each user and ad once, in order of time. A join would pair each click
    with each impression, and some users have ten thousand of both.
    """
    unnamed = clicks.filter("impression_id IS NULL")
    known = unnamed.filter("user_id IS NOT NULL")
    columns = "user_id", "ad_id", "event_time", "impression_id", "source"
    events = (
        _touched(ads, known, "user_id", "ad_id")
        .selectExpr(*columns, f"{SHOWN} AS _what", "CAST(NULL AS BIGINT) AS _click")
        .unionByName(known.selectExpr(*columns, f"{CLICKED} AS _what", "_click"))
    )
    so_far = """PARTITION BY user_id, ad_id ORDER BY event_time, _what, impression_id, source
        ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW"""
    impression = f"IF(_what = {SHOWN}, struct(event_time, impression_id, source), NULL)"
    ago = "unix_micros(event_time) - unix_micros(_last.event_time)"
    attributed = (
        events.selectExpr("*", f"last({impression}) IGNORE NULLS OVER ({so_far}) AS _last")
        .filter(f"_what = {CLICKED}")
        .selectExpr("*", f"IF({ago} <= {attribution_window // MICROSECOND}L, _last, NULL) AS _seen")
        .selectExpr(
            "_seen.source",
            "_seen.impression_id",
            "event_time AS clicked_at",
            "_seen.event_time AS shown_at",
            "ad_id",
            "_click",
        )
    )
    anonymous = unnamed.filter("user_id IS NULL").selectExpr(
        "CAST(NULL AS STRING) AS source",
        "impression_id",
        "event_time AS clicked_at",
        "CAST(NULL AS TIMESTAMP) AS shown_at",
        "ad_id",
        "_click",
    )
    return attributed.unionByName(anonymous)


def _touched(ads: DataFrame, clicks: DataFrame, *key: str) -> DataFrame:
    """The ads that share this key with a click, and others.

    Nearly none of a day's ads are clicked. Hashes of keys are so small that Spark can broadcast them, and drop most ads
    where it reads them, before the shuffle. Two keys with one hash do no harm: callers compare the keys themselves.
    If one task reads all, it joins them, because a broadcast takes a job of its own.
    """
    hashed = f"xxhash64({', '.join(key)}) AS _key"
    keys = clicks.selectExpr(hashed)
    if fa.fits_one_task(ads) and fa.fits_one_task(clicks):
        keys = keys.hint("shuffle_hash")
    return ads.selectExpr("*", hashed).join(keys, "_key", "left_semi").drop("_key")


def _shown_on(day: date, ads: DataFrame) -> DataFrame:
    """The ads of the day. Of large days, Parquet's statistics leave out the rows of others."""
    if fa.fits_one_task(ads):
        return ads.filter(fa.within_days("event_time", day))
    start, end = (f"TIMESTAMP '{each} 00:00:00Z'" for each in (day, day + ONE_DAY))
    return ads.filter(f"event_time >= {start} AND event_time < {end}")


def _impressions(ads: DataFrame) -> DataFrame:
    """Per ad: impressions, users, cost, and the campaign it was shown for most often.

    Grouping by user first lets many tasks count a popular ad, and leaves one row for each user of an ad.
    """
    per_user = ads.groupBy("ad_id", "user_id").agg(*map(F.expr, ("count(1) AS _shown", "sum(cost) AS cost")))
    sums = "sum(_shown) AS impressions", "count(user_id) AS users", "sum(cost) AS cost"
    totals = per_user.groupBy("ad_id").agg(*map(F.expr, sums))
    per_campaign = ads.filter("campaign_id IS NOT NULL").groupBy("ad_id", "campaign_id").count()
    most_often = per_campaign.groupBy("ad_id").agg(F.expr("min(struct(-count, campaign_id)) AS _top"))
    return totals.join(most_often.hint(SORTED), "ad_id", "left").selectExpr(
        "ad_id", "impressions", "users", "cost", "_top.campaign_id"
    )


def _clicks(explained: DataFrame, day: date) -> DataFrame:
    """Per ad: the counts of the day's clicks, the median time to click, the hashes of shared clicks."""
    today = fa.within_days("clicked_at", day)
    of_today = f"(shown_at IS NOT NULL AND {fa.within_days('shown_at', day)})"
    of_yesterday = f"(shown_at IS NOT NULL AND {fa.within_days('shown_at', day - ONE_DAY)})"
    impression = F.expr(f"IF({of_today}, struct(source, impression_id, shown_at), NULL) AS _impression")
    of_impression = (
        "min(clicked_at) AS _first",
        f"count_if({today}) AS _today",
        f"count_if({of_yesterday}) AS _of_yesterday",
        f"bit_xor(IF({of_yesterday}, _click, NULL)) AS {CLICKS_BEFORE}",
        f"bit_xor(IF({of_today} AND NOT {today}, _click, NULL)) AS {CLICKS_AFTER}",
    )
    clicked = "(_impression IS NOT NULL)"
    after_midnight = f"({clicked} AND {fa.within_days('_first', day + ONE_DAY)})"
    delay = "greatest(unix_micros(_first) - unix_micros(_impression.shown_at), 0)"
    of_ad = (
        f"count_if({clicked}) AS clicks",
        f"count_if({after_midnight}) AS clicks_next_day",
        f"sum(IF({clicked}, _today, NULL)) - count_if({clicked} AND NOT {after_midnight}) AS repeat_clicks",
        "sum(_of_yesterday) AS previous_day_clicks",
        f"sum(IF({clicked}, NULL, _today - _of_yesterday)) AS orphan_clicks",
        f"percentile(IF({clicked}, {delay}, NULL), 0.5D) / {MICROSECONDS_A_SECOND} AS median_seconds_to_click",
        f"bit_xor({CLICKS_BEFORE}) AS {CLICKS_BEFORE}",
        f"bit_xor({CLICKS_AFTER}) AS {CLICKS_AFTER}",
    )
    per_impression = explained.filter(f"{today} OR {of_today}").groupBy("ad_id", impression)
    return per_impression.agg(*map(F.expr, of_impression)).groupBy("ad_id").agg(*map(F.expr, of_ad))


def _enriched(per_ad: DataFrame, catalog: DataFrame) -> DataFrame:
    """The rows with the catalog's columns of the ad; of several catalog rows for an ad, the greatest."""
    greatest = F.expr("max(struct(campaign_id, advertiser, landing_page)) AS _known")
    known = catalog.groupBy("ad_id").agg(greatest)
    return per_ad.join(known.hint(SORTED), "ad_id", "left").selectExpr(
        "* EXCEPT (campaign_id, _known)",
        "coalesce(campaign_id, _known.campaign_id) AS campaign_id",
        "_known.advertiser",
        "_known.landing_page",
    )


def _figures(per_ad: DataFrame) -> DataFrame:
    """The rows with the rates, and with zeros for missing counts."""
    impressions, clicks = F.col("impressions"), F.col("clicks")
    low, high = (F.when(impressions > 0, end) for end in wilson_interval(clicks, impressions, F.sqrt))
    cost = F.col("cost").cast(TOTAL_COST)
    return per_ad.fillna(0, COUNTS).withColumns(
        {
            "cost": cost,
            "ctr": F.when(impressions > 0, clicks / impressions),
            "ctr_low": low,
            "ctr_high": high,
            "cost_per_click": F.when(clicks > 0, cost / clicks).cast(TOTAL_COST),
        }
    )


def wilson_interval(successes: _Number, trials: _Number, root: Callable[[_Number], _Number]) -> tuple[_Number, _Number]:
    """The ends of the 95 % Wilson score interval of a share, of numbers or of columns, for at least one trial.

    `root` is the square root for these values. E. B. Wilson, "Probable inference, the law of succession, and
    statistical inference", JASA 22 (1927). Unlike the textbook interval it stays within 0 and 1, and has a width if no
    or all trials succeed.
    """
    share, half = successes / trials, Z * Z / 2
    # The root of a square is exact, and sums have a fixed order: so an end without successes is 0, without failures 1.
    middle, reach = successes + half, Z * root(trials * share * (1 - share) + half / 2)
    whole = trials + half + half
    return (middle - reach) / whole, (middle + reach) / whole
