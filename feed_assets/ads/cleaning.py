"""Judging a day's ads and clicks: the rules beside those that hold for records of every kind.

Here: these rules and their order. Not here: the rules of every kind and the machinery (`quality.judging`), and the
views of a judged frame (`engine.judged_rows`).

An event is also quarantined if its ad_id or its own id is missing, or its cost is unparsable or negative. A click is a
duplicate (repeated click) if the same known user of the same source clicked the same ad at most `repeated_within`
before, whether that click is kept or itself repeated: a burst collapses into its first click.
"""

from __future__ import annotations

from datetime import date, timedelta
from typing import Final

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812 - as everyone writes Spark

from feed_assets.ads.schemas import CLEAN_ADS, CLEAN_CLICKS
from feed_assets.engine.moments import microseconds
from feed_assets.quality.judging import Rule, deliveries, judge, missing, unparsable, verdicts

ONE_SECOND: Final = timedelta(seconds=1)


def judge_ads(events: DataFrame, *, day: date, earlier: DataFrame | None = None) -> DataFrame:
    """The ads of a UTC day, each once, as `quality.judging.judge` gives them: columns of `CLEAN_ADS`."""
    rules = [
        missing("ad_id"),
        missing("impression_id"),
        unparsable("cost"),
        ("negative cost", F.col("cost") < 0),
    ]
    return judge(events, CLEAN_ADS, rules, day=day, earlier=earlier)


def judge_clicks(
    events: DataFrame,
    *,
    day: date,
    repeated_within: timedelta = ONE_SECOND,
    earlier: DataFrame | None = None,
) -> DataFrame:
    """The clicks of a UTC day, each once: columns of `CLEAN_CLICKS`, `_file`, `_line`, `verdict`, `reason`.

    `events` and `earlier` are as for `judge_ads`; here `earlier` also tells which of the day's first clicks
    repeat one from before midnight. Raises ValueError where `repeated_within` is negative.
    """
    if repeated_within < timedelta():
        message = f"repeated_within is {repeated_within}; it takes a duration of zero or more."
        raise ValueError(message)
    rules: list[Rule] = [missing("ad_id"), missing("click_id")]
    repeated = F.col("_since_previous") <= microseconds(repeated_within)
    delivered = deliveries(events, CLEAN_CLICKS, rules, day=day, earlier=earlier)
    return verdicts(_bursts(delivered), CLEAN_CLICKS, rules, [("repeated click", repeated)])


def _bursts(clicks: DataFrame) -> DataFrame:
    """The clicks with `_since_previous`: microseconds since that user's click on that ad before, if any."""
    comparable = F.col("_refused").isNull() & (F.col("_delivery") == 1) & F.col("user_id").isNotNull()
    # What is not compared is spread, as `deliveries` does: nobody's clicks on a popular ad would be one task's work.
    whose = ["source", "user_id", "ad_id"]
    spread = F.when(F.col("_comparable"), F.xxhash64(*whose)).otherwise(F.xxhash64("source", "click_id"))
    burst = Window.partitionBy("_spread", "_comparable", "_refused", *whose).orderBy("event_time", "click_id")
    since = F.unix_micros("event_time") - F.lag(F.unix_micros("event_time")).over(burst)
    return (
        clicks.withColumn("_comparable", comparable)
        .withColumn("_spread", spread)
        .withColumn("_since_previous", F.when(F.col("_comparable"), since))
    )
