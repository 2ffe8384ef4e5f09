"""Judging a day's ads and clicks: the rules besides those of every kind, and their order.

Not here: the rules of every kind (`fa.judge`).

An event is also quarantined if its ad_id or its own id is missing, or its cost is unparsable or negative. A click is a
duplicate (repeated click) if the same known user of the same source clicked the same ad at most `repeated_within`
before. The earlier click may itself be repeated: a burst collapses into its first click.
"""

from __future__ import annotations

from datetime import date, timedelta
from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - as everyone writes Spark

import feed_assets as fa
from feed_assets.ads.schemas import CLEAN_ADS, CLEAN_CLICKS

MICROSECOND: Final = timedelta(microseconds=1)
ONE_SECOND: Final = timedelta(seconds=1)


def check_ads(events: DataFrame, day: date) -> DataFrame:
    """The ads of a UTC day, or some of them, as `fa.check` returns them: `judge_ads` takes them, too."""
    return fa.check(events, CLEAN_ADS, _ad_rules(), day=day)


def check_clicks(events: DataFrame, day: date) -> DataFrame:
    """Check clicks for `judge_clicks`, as `check_ads` checks ads."""
    return fa.check(events, CLEAN_CLICKS, _click_rules(), day=day)


def judge_ads(events: DataFrame, *, day: date, earlier: DataFrame | None = None) -> DataFrame:
    """The ads of a UTC day, each once, judged by `fa.judge`: columns of `CLEAN_ADS`."""
    return fa.judge(events, CLEAN_ADS, _ad_rules(), day=day, earlier=earlier)


def judge_clicks(
    events: DataFrame,
    *,
    day: date,
    repeated_within: timedelta = ONE_SECOND,
    earlier: DataFrame | None = None,
) -> DataFrame:
    """The clicks of a UTC day, each once: columns of `CLEAN_CLICKS`, `_file`, `_line`, `_verdict`, `_reason`.

    `events` and `earlier` are as for `judge_ads`; `earlier` also shows which first clicks of the day repeat a click
    before midnight. Raises ValueError if `repeated_within` is negative.
    """
    if repeated_within < timedelta():
        raise ValueError(f"repeated_within is {repeated_within}; it takes a duration of zero or more.")
    rules = _click_rules()
    repeated = F.expr(f"_since_previous <= {repeated_within // MICROSECOND}L")
    delivered = fa.deliveries(events, CLEAN_CLICKS, rules, day=day, earlier=earlier)
    return fa.verdicts(_bursts(delivered), CLEAN_CLICKS, rules, [("repeated click", repeated)])


def _ad_rules() -> list[fa.Rule]:
    return [
        fa.missing("ad_id"),
        fa.missing("impression_id"),
        fa.unparsable("cost"),
        ("negative cost", F.expr("cost < 0")),
    ]


def _click_rules() -> list[fa.Rule]:
    return [fa.missing("ad_id"), fa.missing("click_id")]


def _bursts(clicks: DataFrame) -> DataFrame:
    """The clicks with `_since_previous`: microseconds since the same user's previous click on the same ad, if any."""
    comparable = "(_refused IS NULL AND _delivery = 1 AND user_id IS NOT NULL)"
    # Clicks that are not compared are spread: else one task would get all anonymous clicks on a popular ad.
    whose = "source, user_id, ad_id"
    spread = f"IF({comparable}, xxhash64({whose}), xxhash64(source, click_id))"
    burst = f"PARTITION BY {spread}, {comparable}, _refused, {whose} ORDER BY event_time, click_id"
    since = f"unix_micros(event_time) - lag(unix_micros(event_time)) OVER ({burst})"
    return clicks.selectExpr("*", f"IF({comparable}, {since}, NULL) AS _since_previous")
