"""Judging a day's events: which are published, which are quarantined, which are duplicates.

Here: the rules and their order. Not here: reading a partner's format (`canonical`), and the views of a judged frame
(`engine.judged_rows`).

Every event comes out of `judge_ads` and `judge_clicks` exactly once, with a `verdict` and, unless it is
published, a `reason`. The first rule that applies decides:

1. quarantined: malformed line; event_time unparsable, missing, outside the day; ad_id missing; the event's
   own id missing; cost unparsable, negative.
2. duplicate, redelivered: the same id of the same source once more. The earliest event is kept, wherever it
   stands in the log; of equally early ones the first by file and line.
3. duplicate, repeated click: of the same known user of the same source on the same ad, at most `repeated_within`
   after the click before it, be that one kept or itself repeated: a burst collapses into its first click.

An optional id that is blank (empty or white space only) names nothing and is published as NULL: a blank user is
an unknown one, and a click with a blank impression_id names no impression.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date, timedelta
from enum import StrEnum
from typing import Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812 - as everyone writes Spark
from pyspark.sql.types import StringType, StructField, StructType

from feed_assets.ads.moments import microseconds, within
from feed_assets.ads.schemas import CLEAN_ADS, CLEAN_CLICKS
from feed_assets.datasets import ONE_DAY
from feed_assets.engine.judged_rows import BOOKKEEPING, VERDICT, Verdict, with_reasons

ONE_SECOND: Final = timedelta(seconds=1)
TODAY: Final = "today"
EARLIER: Final = "earlier"


class Reason(StrEnum):
    """Why an event is not published: a closed list, in the order in which the rules apply."""

    MALFORMED = "malformed line"
    UNPARSABLE_TIME = "unparsable event_time"
    MISSING_TIME = "missing event_time"
    OUTSIDE_DAY = "event_time outside the day"
    MISSING_AD = "missing ad_id"
    MISSING_IMPRESSION = "missing impression_id"
    MISSING_CLICK = "missing click_id"
    UNPARSABLE_COST = "unparsable cost"
    NEGATIVE_COST = "negative cost"
    REDELIVERED = "redelivered"
    REPEATED_CLICK = "repeated click"

    @property
    def verdict(self) -> Verdict:
        """What becomes of an event for this reason."""
        duplicates = (Reason.REDELIVERED, Reason.REPEATED_CLICK)
        return Verdict.DUPLICATE if self in duplicates else Verdict.QUARANTINED


Rule = tuple[Reason, Column]
"""A reason and when it applies."""


def judge_ads(events: DataFrame, *, day: date, earlier: DataFrame | None = None) -> DataFrame:
    """The ads of a UTC day, each once: columns of `CLEAN_ADS`, `_file`, `_line`, `verdict`, `reason`.

    `events` are rows as `canonical` gives them, of one source or of several together. `earlier` are such
    events of the day before: what a usable one holds already counts as redelivered, so that nothing is
    published on two days; they do not come out themselves.
    """
    rules: list[Rule] = [
        (Reason.MISSING_IMPRESSION, _blank("impression_id")),
        (Reason.UNPARSABLE_COST, F.col("_unparsable") == "cost"),
        (Reason.NEGATIVE_COST, F.col("cost") < 0),
    ]
    deliveries = _deliveries(events, earlier, CLEAN_ADS, rules, day)
    return _judged(deliveries, CLEAN_ADS, [_redelivered()])


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
    rules: list[Rule] = [(Reason.MISSING_CLICK, _blank("click_id"))]
    deliveries = _deliveries(events, earlier, CLEAN_CLICKS, rules, day)
    repeated = F.col("_since_previous") <= microseconds(repeated_within)
    return _judged(_bursts(deliveries), CLEAN_CLICKS, [_redelivered(), (Reason.REPEATED_CLICK, repeated)])


def _rules_of_every_event(day: date) -> list[Rule]:
    return [
        (Reason.MALFORMED, F.col("_malformed").isNotNull()),
        (Reason.UNPARSABLE_TIME, F.col("_unparsable") == "event_time"),
        (Reason.MISSING_TIME, F.col("event_time").isNull()),
        (Reason.OUTSIDE_DAY, ~within("event_time", day)),
        (Reason.MISSING_AD, _blank("ad_id")),
    ]


def _blank(column: str) -> Column:
    """Whether a text is NULL, empty, or white space only."""
    # Nearly every text begins with a visible character; "!" is the first of these. The rest is worth a pattern.
    return F.col(column).isNull() | ((F.col(column) < "!") & ~F.col(column).rlike(r"\S"))


def _names_nothing_if_blank(field: StructField) -> Column:
    """A column as it is published: an optional text without a visible character is NULL, as if it was not sent."""
    if field.nullable and isinstance(field.dataType, StringType):
        return F.when(~_blank(field.name), F.col(field.name)).alias(field.name)
    return F.col(field.name)


def _first_that_applies(rules: Sequence[Rule]) -> Column:
    return F.coalesce(*[F.when(applies, F.lit(reason.value)) for reason, applies in rules])


def _checked(events: DataFrame, schema: StructType, rules: Sequence[Rule], day: date) -> DataFrame:
    """The events of a day with `_refused`, why one cannot be used, and only then `_record`, what the partner sent."""
    reason = _first_that_applies([*_rules_of_every_event(day), *rules])
    # Generated rather than selected: a filter on it would else be moved below the partner's expressions, and there
    # Spark evaluates each of them again wherever a rule names its column.
    refused = events.select("*", F.explode(F.array(reason)).alias("_refused"))
    record = F.when(F.col("_refused").isNotNull(), F.coalesce("_malformed", "_raw"))
    columns = [_names_nothing_if_blank(field) for field in schema]
    return refused.select(*columns, "_file", "_line", "_refused", record.alias("_record"))


def _deliveries(
    events: DataFrame, earlier: DataFrame | None, schema: StructType, rules: Sequence[Rule], day: date
) -> DataFrame:
    """The checked events and the usable earlier ones, with `_delivery`: 1 where an id comes first, then 2, 3, ..."""
    identity = schema.names[0]
    events = _checked(events, schema, rules, day).withColumn("_from", F.lit(TODAY))
    if earlier is not None:
        usable_before = _checked(earlier, schema, rules, day - ONE_DAY).filter(F.col("_refused").isNull())
        events = events.unionByName(usable_before.withColumn("_from", F.lit(EARLIER)))
    # Refused events may lack an id: together they would be a single task's work, so they are spread by line.
    # A number comes first because a sort compares by its first bytes, and a partner's ids often begin alike.
    usable = F.col("_refused").isNull()
    spread = F.when(usable, F.xxhash64("source", identity)).otherwise(F.xxhash64("_file", "_line"))
    # Beyond file and line, the content: so that files which lack these give one answer as well.
    order = ["event_time", "_file", "_line", *schema.names]
    same = Window.partitionBy("_spread", "_refused", "source", identity).orderBy(*order)
    return events.withColumn("_spread", spread).withColumn("_delivery", F.row_number().over(same))


def _bursts(clicks: DataFrame) -> DataFrame:
    """The clicks with `_since_previous`: microseconds since that user's click on that ad before, if any."""
    comparable = F.col("_refused").isNull() & (F.col("_delivery") == 1) & F.col("user_id").isNotNull()
    # What is not compared is spread as above: nobody's clicks on a popular ad would be one task's work.
    whose = ["source", "user_id", "ad_id"]
    spread = F.when(F.col("_comparable"), F.xxhash64(*whose)).otherwise(F.xxhash64("source", "click_id"))
    burst = Window.partitionBy("_spread", "_comparable", "_refused", *whose).orderBy("event_time", "click_id")
    since = F.unix_micros("event_time") - F.lag(F.unix_micros("event_time")).over(burst)
    return (
        clicks.withColumn("_comparable", comparable)
        .withColumn("_spread", spread)
        .withColumn("_since_previous", F.when(F.col("_comparable"), since))
    )


def _redelivered() -> Rule:
    return Reason.REDELIVERED, F.col("_delivery") > 1


def _judged(events: DataFrame, schema: StructType, duplicates: Sequence[Rule]) -> DataFrame:
    """Today's events with their `verdict` and `reason`."""
    refused, repeats = F.col("_refused"), _first_that_applies(duplicates)
    verdict = (
        F.when(refused.isNotNull(), Verdict.QUARANTINED.value)
        .when(repeats.isNotNull(), Verdict.DUPLICATE.value)
        .otherwise(Verdict.PUBLISHED.value)
    )
    return events.filter(F.col("_from") == TODAY).select(
        *(F.col(field.name).alias(field.name, metadata=field.metadata) for field in schema),
        *BOOKKEEPING,
        verdict.alias(VERDICT),
        with_reasons(F.coalesce(refused, repeats), {reason.value: reason.verdict for reason in Reason}),
    )
