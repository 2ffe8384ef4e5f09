from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from datetime import datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession, functions

from feed_assets.ads import CLEAN_ADS, CLEAN_CLICKS, judge_ads, judge_clicks
from feed_assets.engine.judged_rows import QUARANTINE, published_rows, quarantined_rows
from feed_assets_tests.ads.counting import counts_of
from feed_assets_tests.ads.events import (
    DAY,
    FEW,
    HOUR,
    MICROSECOND,
    MIDNIGHT,
    NOON,
    ONE_DAY,
    SECOND,
    Ad,
    Click,
    described,
    rows,
    unjudged_ads,
    unjudged_clicks,
)


def verdicts(judged: DataFrame) -> dict[Any, str]:
    """Verdict and reason by line of the log."""
    return {row["_line"]: f"{row['verdict']}: {row['reason']}" for row in judged.collect()}


def judged_ads(spark: SparkSession, *ads: Ad, **more: Any) -> dict[Any, str]:
    return verdicts(judge_ads(unjudged_ads(spark, ads), day=DAY, **more))


def judged_clicks(spark: SparkSession, *clicks: Click, **more: Any) -> dict[Any, str]:
    return verdicts(judge_clicks(unjudged_clicks(spark, clicks), day=DAY, **more))


PUBLISHED = "published: None"
REDELIVERED = "duplicate: redelivered"
REPEATED = "duplicate: repeated click"


@pytest.mark.parametrize(
    ("ad", "reason"),
    [
        (Ad(malformed="a,b"), "malformed line"),
        (Ad(event_time=None, unparsable="event_time"), "unparsable event_time"),
        (Ad(event_time=None), "missing event_time"),
        (Ad(event_time=MIDNIGHT - MICROSECOND), "event_time outside the day"),
        (Ad(event_time=MIDNIGHT + ONE_DAY), "event_time outside the day"),
        (Ad(ad_id=None), "missing ad_id"),
        (Ad(ad_id="  "), "missing ad_id"),
        (Ad(impression_id=None), "missing impression_id"),
        (Ad(impression_id=""), "missing impression_id"),
        (Ad(impression_id="\t"), "missing impression_id"),
        (Ad(unparsable="cost"), "unparsable cost"),
        (Ad(cost=Decimal("-0.000001")), "negative cost"),
    ],
)
def test_an_ad_that_cannot_be_used_is_quarantined_with_the_reason(spark: SparkSession, ad: Ad, reason: str) -> None:
    assert judged_ads(spark, ad) == {1: f"quarantined: {reason}"}


@pytest.mark.parametrize(
    ("click", "reason"),
    [
        (Click(malformed="a,b"), "malformed line"),
        (Click(event_time=None, unparsable="event_time"), "unparsable event_time"),
        (Click(event_time=None), "missing event_time"),
        (Click(event_time=MIDNIGHT - MICROSECOND), "event_time outside the day"),
        (Click(ad_id=None), "missing ad_id"),
        (Click(click_id=None), "missing click_id"),
    ],
)
def test_a_click_that_cannot_be_used_is_quarantined_with_the_reason(
    spark: SparkSession, click: Click, reason: str
) -> None:
    assert judged_clicks(spark, click) == {1: f"quarantined: {reason}"}


def test_of_several_reasons_the_first_in_the_documented_order_is_given(spark: SparkSession) -> None:
    hopeless = Ad(malformed="?", event_time=None, ad_id=None, impression_id=None, cost=Decimal(-1))
    late = Ad(event_time=MIDNIGHT - HOUR, ad_id=None, line=2)

    assert judged_ads(spark, hopeless, late) == {
        1: "quarantined: malformed line",
        2: "quarantined: event_time outside the day",
    }


def test_the_day_begins_at_midnight_and_ends_before_the_next(spark: SparkSession) -> None:
    first = Ad(impression_id="first", event_time=MIDNIGHT)
    last = Ad(impression_id="last", event_time=MIDNIGHT + ONE_DAY - MICROSECOND, line=2)

    assert judged_ads(spark, first, last) == {1: PUBLISHED, 2: PUBLISHED}


def test_optional_fields_may_be_missing_and_an_ad_may_be_free(spark: SparkSession) -> None:
    bare = Ad(campaign_id=None, user_id=None, placement_id=None, cost=None)
    free = Ad(impression_id="free", cost=Decimal(0), line=2)

    assert judged_ads(spark, bare, free) == {1: PUBLISHED, 2: PUBLISHED}


def test_an_event_delivered_again_with_another_time_is_kept_once_the_earliest(spark: SparkSession) -> None:
    late, early, later = (Ad(event_time=NOON + hours * HOUR, line=line) for line, hours in [(1, 1), (2, 0), (3, 2)])

    assert judged_ads(spark, late, early, later) == {1: REDELIVERED, 2: PUBLISHED, 3: REDELIVERED}


def test_of_equally_early_deliveries_the_first_by_file_and_line_is_kept(spark: SparkSession) -> None:
    events = [
        Ad(file="b.csv", line=1),
        Ad(file="a.csv", line=10),
        Ad(file="a.csv", line=9),
    ]

    assert judged_ads(spark, *events) == {1: REDELIVERED, 10: REDELIVERED, 9: PUBLISHED}


def test_without_file_and_line_the_content_decides_so_that_runs_agree(spark: SparkSession) -> None:
    events = [Ad(user_id=user, file=None, line=None) for user in ("c", "a", "b")]

    for order in (events, events[::-1]):
        (kept,) = rows(published_rows(judge_ads(unjudged_ads(spark, order), day=DAY)))
        assert kept["user_id"] == "a"


def test_the_same_id_from_two_sources_names_two_events(spark: SparkSession) -> None:
    assert judged_ads(spark, Ad(source="one"), Ad(source="two", line=2)) == {1: PUBLISHED, 2: PUBLISHED}


def test_an_unusable_delivery_neither_replaces_nor_suppresses_a_usable_one(spark: SparkSession) -> None:
    unusable = Ad(event_time=NOON - HOUR, cost=Decimal(-1))

    assert judged_ads(spark, unusable, Ad(line=2)) == {1: "quarantined: negative cost", 2: PUBLISHED}


def test_what_was_said_before_midnight_already_is_not_published_again(spark: SparkSession) -> None:
    earlier = unjudged_ads(spark, [Ad(event_time=MIDNIGHT - SECOND), Ad(impression_id=None, event_time=None)])
    today = [Ad(event_time=MIDNIGHT + SECOND), Ad(impression_id="new", line=2)]

    assert judged_ads(spark, *today, earlier=earlier) == {1: REDELIVERED, 2: PUBLISHED}


def test_events_given_as_earlier_that_are_not_say_nothing(spark: SparkSession) -> None:
    earlier = unjudged_ads(spark, [Ad(event_time=MIDNIGHT)])

    assert judged_ads(spark, Ad(), earlier=earlier) == {1: PUBLISHED}


def test_an_unusable_event_from_before_midnight_does_not_suppress_its_usable_redelivery(spark: SparkSession) -> None:
    earlier = unjudged_ads(spark, [Ad(event_time=MIDNIGHT - SECOND, cost=Decimal(-1))])

    assert judged_ads(spark, Ad(), earlier=earlier) == {1: PUBLISHED}


@pytest.mark.parametrize("limit", [timedelta(0), SECOND, timedelta(seconds=2, milliseconds=500)])
def test_a_click_exactly_at_the_limit_repeats_and_a_microsecond_later_does_not(
    spark: SparkSession, limit: timedelta
) -> None:
    at_the_limit = [Click(click_id="k1"), Click(click_id="k2", event_time=NOON + limit, line=2)]
    beyond = [
        Click(click_id="k3", ad_id="b", line=3),
        Click(click_id="k4", ad_id="b", event_time=NOON + limit + MICROSECOND, line=4),
    ]

    assert judged_clicks(spark, *at_the_limit, *beyond, repeated_within=limit) == {
        1: PUBLISHED,
        2: REPEATED,
        3: PUBLISHED,
        4: PUBLISHED,
    }


def test_a_burst_of_clicks_collapses_into_its_first_however_long_it_lasts(spark: SparkSession) -> None:
    burst = [Click(click_id=f"k{n}", event_time=NOON + n * SECOND, line=n) for n in range(5)]
    pause = Click(click_id="k9", event_time=NOON + 5 * SECOND + MICROSECOND, line=9)

    assert judged_clicks(spark, *burst, pause) == {
        0: PUBLISHED,
        1: REPEATED,
        2: REPEATED,
        3: REPEATED,
        4: REPEATED,
        9: PUBLISHED,
    }


def test_clicks_of_other_users_and_on_other_ads_are_no_repeats(spark: SparkSession) -> None:
    clicks = [
        Click(click_id="k1"),
        Click(click_id="k2", user_id="v", line=2),
        Click(click_id="k3", ad_id="b", line=3),
    ]

    assert set(judged_clicks(spark, *clicks).values()) == {PUBLISHED}


def test_clicks_that_two_partners_sent_are_no_repeats_even_if_they_call_their_users_alike(spark: SparkSession) -> None:
    clicks = [Click(click_id=f"k{n}", source=source, line=n) for n, source in enumerate(["one", "two", "one"])]

    assert judged_clicks(spark, *clicks) == {0: PUBLISHED, 1: PUBLISHED, 2: REPEATED}


def test_clicks_of_unknown_users_are_never_taken_for_repeats(spark: SparkSession) -> None:
    clicks = [Click(click_id=f"k{n}", user_id=None, line=n) for n in range(3)]

    assert set(judged_clicks(spark, *clicks).values()) == {PUBLISHED}


def test_a_redelivered_click_does_not_prolong_a_burst(spark: SparkSession) -> None:
    first = Click(click_id="k1")
    again = Click(click_id="k1", event_time=NOON + SECOND, line=2)
    new = Click(click_id="k2", event_time=NOON + 2 * SECOND, line=3)

    assert judged_clicks(spark, first, again, new) == {1: PUBLISHED, 2: REDELIVERED, 3: PUBLISHED}


def test_a_quarantined_click_does_not_begin_a_burst(spark: SparkSession) -> None:
    unusable = Click(click_id="k1", event_time=NOON, malformed="?")

    assert judged_clicks(spark, unusable, Click(click_id="k2", line=2))[2] == PUBLISHED


def test_of_simultaneous_clicks_one_is_kept_and_always_the_same(spark: SparkSession) -> None:
    clicks = [Click(click_id=f"k{n}", line=n) for n in range(3)]

    for order in (clicks, clicks[::-1]):
        assert judged_clicks(spark, *order) == {0: PUBLISHED, 1: REPEATED, 2: REPEATED}


def test_a_click_right_after_midnight_repeats_one_right_before(spark: SparkSession) -> None:
    earlier = unjudged_clicks(spark, [Click(click_id="k1", event_time=MIDNIGHT - MICROSECOND)])
    today = [Click(click_id="k2", event_time=MIDNIGHT), Click(click_id="k3", event_time=NOON, line=2)]

    assert judged_clicks(spark, *today, earlier=earlier) == {1: REPEATED, 2: PUBLISHED}


def test_a_negative_limit_is_refused(spark: SparkSession) -> None:
    with pytest.raises(ValueError, match="repeated_within"):
        judge_clicks(unjudged_clicks(spark, []), day=DAY, repeated_within=-SECOND)


def test_a_day_without_events_is_an_empty_frame_of_the_declared_schema(spark: SparkSession) -> None:
    ads = published_rows(judge_ads(unjudged_ads(spark, []), day=DAY))
    clicks = published_rows(judge_clicks(unjudged_clicks(spark, []), day=DAY))

    assert (described(ads.schema), described(clicks.schema)) == (described(CLEAN_ADS), described(CLEAN_CLICKS))
    assert rows(ads) == rows(clicks) == []


def test_published_rows_are_what_the_event_said(spark: SparkSession) -> None:
    ad = Ad(placement_id="top", cost=Decimal("12.345678"))
    frame = published_rows(judge_ads(unjudged_ads(spark, [ad]), day=DAY))

    assert described(frame.schema) == described(CLEAN_ADS)
    assert rows(frame) == [
        {
            "impression_id": "i",
            "event_time": NOON,
            "ad_id": "a",
            "campaign_id": "campaign",
            "user_id": "u",
            "placement_id": "top",
            "cost": Decimal("12.345678"),
            "source": "partner",
        }
    ]


def test_quarantined_records_say_where_they_stood_why_and_what_was_sent(spark: SparkSession) -> None:
    events = [
        Ad(ad_id=None, line=7, raw='{"ad":null}'),
        Ad(event_time=None, malformed="a;b;c", line=8, raw='{"ad":null}'),
        Ad(line=9),
        Ad(line=10),
    ]
    frame = quarantined_rows(judge_ads(unjudged_ads(spark, events), day=DAY))

    assert described(frame.schema) == described(QUARANTINE)
    where = {"source": "partner", "file": "log.csv"}
    assert sorted(rows(frame), key=lambda row: row["line"]) == [
        {**where, "event_time": NOON, "line": 7, "reason": "missing ad_id", "record": '{"ad":null}'},
        {**where, "event_time": None, "line": 8, "reason": "malformed line", "record": "a;b;c"},
    ]


def test_the_passes_that_write_count_every_verdict_and_reason(spark: SparkSession) -> None:
    clicks = [
        Click(),
        Click(event_time=NOON + HOUR, line=2),
        Click(click_id="k2", event_time=NOON + SECOND, line=3),
        Click(click_id="k3", ad_id=None, line=4),
        Click(click_id="k4", malformed="?", line=5),
    ]

    counts = counts_of(judge_clicks(unjudged_clicks(spark, clicks), day=DAY))

    assert {name: count for name, count in counts.items() if count} == {
        "published": 1,
        "duplicate: redelivered": 1,
        "duplicate: repeated click": 1,
        "quarantined": 2,
        "quarantined: missing ad_id": 1,
        "quarantined: malformed line": 1,
    }
    assert {name for name, count in counts.items() if not count} == {
        "quarantined: unparsable event_time",
        "quarantined: missing event_time",
        "quarantined: event_time outside the day",
        "quarantined: missing click_id",
    }


def test_an_empty_day_is_counted_as_zeros(spark: SparkSession, tmp_path: Path) -> None:
    nothing = unjudged_ads(spark, [])
    nothing.write.parquet(f"{tmp_path}/nothing")

    for events in (nothing, spark.read.schema(nothing.schema).parquet(f"{tmp_path}/nothing")):
        assert set(counts_of(judge_ads(events, day=DAY)).values()) == {0}


def in_plan(what: str, frame: DataFrame, capsys: pytest.CaptureFixture[str]) -> int:
    """How often the physical plan says this."""
    frame.explain()
    return capsys.readouterr().out.count(what)


def exchanges(frame: DataFrame, capsys: pytest.CaptureFixture[str]) -> int:
    """How often the plan moves rows between tasks."""
    return in_plan("Exchange ", frame, capsys)


def test_ads_are_moved_once_clicks_twice_and_quarantined_records_never(
    spark: SparkSession, capsys: pytest.CaptureFixture[str]
) -> None:
    ads = judge_ads(unjudged_ads(spark, [Ad()] * FEW), day=DAY)
    clicks = judge_clicks(unjudged_clicks(spark, [Click()] * FEW), day=DAY)

    assert exchanges(published_rows(ads), capsys) == 1
    assert exchanges(published_rows(clicks), capsys) == 2
    assert exchanges(quarantined_rows(ads), capsys) == exchanges(quarantined_rows(clicks), capsys) == 0


@pytest.mark.parametrize("view", [published_rows, quarantined_rows])
def test_a_partners_expression_is_evaluated_once_however_many_rules_name_its_column(
    spark: SparkSession,
    view: Callable[[DataFrame], DataFrame],
    capsys: pytest.CaptureFixture[str],
) -> None:
    events = unjudged_ads(spark, [Ad()])
    sent = events.withColumn("event_time", functions.expr("timestamp_seconds(_line)"))

    assert in_plan("timestamp_seconds", view(judge_ads(sent, day=DAY)), capsys) == 1


def test_events_of_several_sources_are_judged_together(spark: SparkSession) -> None:
    one, two = (
        unjudged_ads(spark, [Ad(source="one")]),
        unjudged_ads(spark, [Ad(source="two"), Ad(source="two", line=2)]),
    )
    judged = judge_ads(one.unionByName(two), day=DAY)

    assert Counter((row["source"], row["verdict"]) for row in rows(judged)) == {
        ("one", "published"): 1,
        ("two", "published"): 1,
        ("two", "duplicate"): 1,
    }


def test_a_summer_day_is_judged_in_utc(spark: SparkSession) -> None:
    late = datetime.fromisoformat("2019-07-01T01:00:00+02:00")

    assert judged_ads(spark, Ad(event_time=late)) == {1: "quarantined: event_time outside the day"}
    assert verdicts(judge_ads(unjudged_ads(spark, [Ad(event_time=late)]), day=late.date() - ONE_DAY)) == {1: PUBLISHED}


@pytest.mark.parametrize("blank", ["", "  ", "\t\r"])
def test_an_optional_id_that_is_blank_names_nothing(spark: SparkSession, blank: str) -> None:
    ad = Ad(campaign_id=blank, user_id=blank, placement_id=blank)
    clicks = [Click(click_id=f"k{n}", impression_id=blank, user_id=blank, line=n) for n in range(2)]

    (published,) = rows(published_rows(judge_ads(unjudged_ads(spark, [ad]), day=DAY)))
    clicked = rows(published_rows(judge_clicks(unjudged_clicks(spark, clicks), day=DAY)))

    assert {published[name] for name in ("campaign_id", "user_id", "placement_id")} == {None}
    # Nobody's clicks repeat nobody's clicks.
    assert [(each["impression_id"], each["user_id"]) for each in clicked] == [(None, None)] * 2
