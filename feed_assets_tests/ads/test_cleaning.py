"""Cleaning on small examples, each beside what must come of it.

Planning takes Spark far longer than a few rows do, so examples are judged together (see `example`).
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from decimal import Decimal
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

import pytest
from pyspark.sql import DataFrame, SparkSession, functions

from feed_assets.ads.cleaning import judge_ads, judge_clicks
from feed_assets.ads.schemas import CLEAN_ADS, CLEAN_CLICKS
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

Verdicts = dict[Any, str]
_Test = TypeVar("_Test", bound=Callable[..., None])


@dataclass(frozen=True, slots=True)
class Example:
    """Events of one kind, those of the day before if there are any, and the settings with which they are judged."""

    events: Sequence[Ad | Click]
    earlier: Sequence[Ad | Click] = ()
    settings: tuple[tuple[str, Any], ...] = ()

    @property
    def run(self) -> tuple[Any, ...]:
        """What examples have in common that are judged together."""
        return type(self.events[0]), bool(self.earlier), self.settings


EXAMPLES: dict[str, Example] = {}
"""The example of each test, by its name."""


def example(*events: Ad | Click, earlier: Sequence[Ad | Click] = (), **settings: Any) -> Callable[[_Test], _Test]:
    """The events of a test, which have nothing to do with those of another, as their sources are others."""

    def keep(test: _Test) -> _Test:
        EXAMPLES[test.__name__] = Example(events, earlier, tuple(settings.items()))
        return test

    return keep


@pytest.fixture(scope="module")
def of_all(spark: SparkSession) -> Callable[[tuple[Any, ...]], dict[str, Verdicts]]:
    """The verdicts of each test's example among those that are judged in one run."""

    @cache
    def judged(run: tuple[Any, ...]) -> dict[str, Verdicts]:
        kind, _, settings = run
        alike = {test: each for test, each in EXAMPLES.items() if each.run == run}
        unjudged, judge = (unjudged_ads, judge_ads) if kind is Ad else (unjudged_clicks, judge_clicks)

        def frame(part: str) -> DataFrame:
            return unjudged(
                spark,
                [
                    replace(event, source=f"{test}/{event.source}")
                    for test, each in alike.items()
                    for event in getattr(each, part)
                ],
            )

        more = {"earlier": frame("earlier")} if any(each.earlier for each in alike.values()) else {}
        found: dict[str, Verdicts] = defaultdict(dict)
        for row in judge(frame("events"), day=DAY, **more, **dict(settings)).collect():
            of_test = found[row["source"].partition("/")[0]]
            assert row["_line"] not in of_test
            of_test[row["_line"]] = verdict(row)
        return found

    return judged


@pytest.fixture
def judged(of_all: Callable[[tuple[Any, ...]], dict[str, Verdicts]], request: pytest.FixtureRequest) -> Verdicts:
    """Verdict and reason of each event of the test's own example, by its line of the log."""
    name = request.function.__name__
    return of_all(EXAMPLES[name].run)[name]


def verdict(row: Any) -> str:
    return f"{row['_verdict']}: {row['_reason']}"


def verdicts(judged: DataFrame) -> Verdicts:
    """Verdict and reason by line of the log."""
    return {row["_line"]: verdict(row) for row in judged.collect()}


def each_from_its_own_source(events: Sequence[Ad | Click]) -> list[Ad | Click]:
    """These events, numbered by their lines, none of which has to do with another."""
    return [replace(event, source=f"{line}", line=line) for line, event in enumerate(events)]


PUBLISHED = "published: None"
REDELIVERED = "duplicate: redelivered"
REPEATED = "duplicate: repeated click"

UNUSABLE_ADS = [
    (Ad(malformed="a,b"), "malformed line"),
    (Ad(event_time=None, unparsable=("event_time",)), "unparsable event_time"),
    (Ad(event_time=None), "missing event_time"),
    (Ad(event_time=MIDNIGHT - MICROSECOND), "event_time outside the day"),
    (Ad(event_time=MIDNIGHT + ONE_DAY), "event_time outside the day"),
    (Ad(ad_id=None), "missing ad_id"),
    (Ad(ad_id="  "), "missing ad_id"),
    (Ad(impression_id=None), "missing impression_id"),
    (Ad(impression_id=""), "missing impression_id"),
    (Ad(impression_id="\t"), "missing impression_id"),
    (Ad(unparsable=("cost",)), "unparsable cost"),
    (Ad(cost=Decimal("-0.000001")), "negative cost"),
]
UNUSABLE_CLICKS = [
    (Click(malformed="a,b"), "malformed line"),
    (Click(event_time=None, unparsable=("event_time",)), "unparsable event_time"),
    (Click(event_time=None), "missing event_time"),
    (Click(event_time=MIDNIGHT - MICROSECOND), "event_time outside the day"),
    (Click(ad_id=None), "missing ad_id"),
    (Click(click_id=None), "missing click_id"),
]


@example(*each_from_its_own_source([ad for ad, _ in UNUSABLE_ADS]))
@pytest.mark.parametrize(("line", "reason"), [*enumerate(reason for _, reason in UNUSABLE_ADS)])
def test_an_ad_that_cannot_be_used_is_quarantined_with_the_reason(judged: Verdicts, line: int, reason: str) -> None:
    assert judged[line] == f"quarantined: {reason}"


@example(*each_from_its_own_source([click for click, _ in UNUSABLE_CLICKS]))
@pytest.mark.parametrize(("line", "reason"), [*enumerate(reason for _, reason in UNUSABLE_CLICKS)])
def test_a_click_that_cannot_be_used_is_quarantined_with_the_reason(judged: Verdicts, line: int, reason: str) -> None:
    assert judged[line] == f"quarantined: {reason}"


@example(
    Ad(malformed="?", event_time=None, ad_id=None, impression_id=None, cost=Decimal(-1)),
    Ad(event_time=MIDNIGHT - HOUR, ad_id=None, line=2),
)
def test_of_several_reasons_the_first_in_the_documented_order_is_given(judged: Verdicts) -> None:
    assert judged == {1: "quarantined: malformed line", 2: "quarantined: event_time outside the day"}


@example(
    Ad(impression_id="first", event_time=MIDNIGHT),
    Ad(impression_id="last", event_time=MIDNIGHT + ONE_DAY - MICROSECOND, line=2),
)
def test_the_day_begins_at_midnight_and_ends_before_the_next(judged: Verdicts) -> None:
    assert judged == {1: PUBLISHED, 2: PUBLISHED}


@example(
    Ad(campaign_id=None, user_id=None, placement_id=None, cost=None),
    Ad(impression_id="free", cost=Decimal(0), line=2),
)
def test_optional_fields_may_be_missing_and_an_ad_may_be_free(judged: Verdicts) -> None:
    assert judged == {1: PUBLISHED, 2: PUBLISHED}


@example(*[Ad(event_time=NOON + hours * HOUR, line=line) for line, hours in [(1, 1), (2, 0), (3, 2)]])
def test_an_event_delivered_again_with_another_time_is_kept_once_the_earliest(judged: Verdicts) -> None:
    assert judged == {1: REDELIVERED, 2: PUBLISHED, 3: REDELIVERED}


@example(Ad(file="b.csv", line=1), Ad(file="a.csv", line=10), Ad(file="a.csv", line=9))
def test_of_equally_early_deliveries_the_first_by_file_and_line_is_kept(judged: Verdicts) -> None:
    assert judged == {1: REDELIVERED, 10: REDELIVERED, 9: PUBLISHED}


def test_without_file_and_line_the_content_decides_so_that_runs_agree(spark: SparkSession) -> None:
    events = [Ad(user_id=user, file=None, line=None) for user in ("c", "a", "b")]

    for order in (events, events[::-1]):
        (kept,) = rows(published_rows(judge_ads(unjudged_ads(spark, order), day=DAY)))
        assert kept["user_id"] == "a"


@example(Ad(source="one"), Ad(source="two", line=2))
def test_the_same_id_from_two_sources_names_two_events(judged: Verdicts) -> None:
    assert judged == {1: PUBLISHED, 2: PUBLISHED}


@example(Ad(event_time=NOON - HOUR, cost=Decimal(-1)), Ad(line=2))
def test_an_unusable_delivery_neither_replaces_nor_suppresses_a_usable_one(judged: Verdicts) -> None:
    assert judged == {1: "quarantined: negative cost", 2: PUBLISHED}


@example(
    Ad(event_time=MIDNIGHT + SECOND),
    Ad(impression_id="new", line=2),
    earlier=[Ad(event_time=MIDNIGHT - SECOND), Ad(impression_id=None, event_time=None)],
)
def test_what_was_said_before_midnight_already_is_not_published_again(judged: Verdicts) -> None:
    assert judged == {1: REDELIVERED, 2: PUBLISHED}


@example(Ad(), earlier=[Ad(event_time=MIDNIGHT)])
def test_events_given_as_earlier_that_are_not_say_nothing(judged: Verdicts) -> None:
    assert judged == {1: PUBLISHED}


@example(Ad(), earlier=[Ad(event_time=MIDNIGHT - SECOND, cost=Decimal(-1))])
def test_an_unusable_event_from_before_midnight_does_not_suppress_its_usable_redelivery(judged: Verdicts) -> None:
    assert judged == {1: PUBLISHED}


@pytest.mark.parametrize("limit", [timedelta(0), SECOND, timedelta(seconds=2, milliseconds=500)])
def test_a_click_exactly_at_the_limit_repeats_and_a_microsecond_later_does_not(
    spark: SparkSession, limit: timedelta
) -> None:
    clicks = [
        Click(click_id="k1"),
        Click(click_id="k2", event_time=NOON + limit, line=2),
        Click(click_id="k3", ad_id="b", line=3),
        Click(click_id="k4", ad_id="b", event_time=NOON + limit + MICROSECOND, line=4),
    ]

    assert verdicts(judge_clicks(unjudged_clicks(spark, clicks), day=DAY, repeated_within=limit)) == {
        1: PUBLISHED,
        2: REPEATED,
        3: PUBLISHED,
        4: PUBLISHED,
    }


@example(
    *[Click(click_id=f"k{n}", event_time=NOON + n * SECOND, line=n) for n in range(5)],
    Click(click_id="k9", event_time=NOON + 5 * SECOND + MICROSECOND, line=9),
)
def test_a_burst_of_clicks_collapses_into_its_first_however_long_it_lasts(judged: Verdicts) -> None:
    assert judged == {0: PUBLISHED, 1: REPEATED, 2: REPEATED, 3: REPEATED, 4: REPEATED, 9: PUBLISHED}


@example(Click(click_id="k1"), Click(click_id="k2", user_id="v", line=2), Click(click_id="k3", ad_id="b", line=3))
def test_clicks_of_other_users_and_on_other_ads_are_no_repeats(judged: Verdicts) -> None:
    assert judged == dict.fromkeys((1, 2, 3), PUBLISHED)


@example(*[Click(click_id=f"k{n}", source=source, line=n) for n, source in enumerate(["one", "two", "one"])])
def test_clicks_that_two_partners_sent_are_no_repeats_even_if_they_call_their_users_alike(judged: Verdicts) -> None:
    assert judged == {0: PUBLISHED, 1: PUBLISHED, 2: REPEATED}


@example(*[Click(click_id=f"k{n}", user_id=None, line=n) for n in range(3)])
def test_clicks_of_unknown_users_are_never_taken_for_repeats(judged: Verdicts) -> None:
    assert judged == dict.fromkeys(range(3), PUBLISHED)


@example(
    Click(click_id="k1"),
    Click(click_id="k1", event_time=NOON + SECOND, line=2),
    Click(click_id="k2", event_time=NOON + 2 * SECOND, line=3),
)
def test_a_redelivered_click_does_not_prolong_a_burst(judged: Verdicts) -> None:
    assert judged == {1: PUBLISHED, 2: REDELIVERED, 3: PUBLISHED}


@example(Click(click_id="k1", event_time=NOON, malformed="?"), Click(click_id="k2", line=2))
def test_a_quarantined_click_does_not_begin_a_burst(judged: Verdicts) -> None:
    assert judged[2] == PUBLISHED


def test_of_simultaneous_clicks_one_is_kept_and_always_the_same(spark: SparkSession) -> None:
    clicks = [Click(click_id=f"k{n}", line=n) for n in range(3)]

    for order in (clicks, clicks[::-1]):
        assert verdicts(judge_clicks(unjudged_clicks(spark, order), day=DAY)) == {
            0: PUBLISHED,
            1: REPEATED,
            2: REPEATED,
        }


@example(
    Click(click_id="k2", event_time=MIDNIGHT),
    Click(click_id="k3", event_time=NOON, line=2),
    earlier=[Click(click_id="k1", event_time=MIDNIGHT - MICROSECOND)],
)
def test_a_click_right_after_midnight_repeats_one_right_before(judged: Verdicts) -> None:
    assert judged == {1: REPEATED, 2: PUBLISHED}


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
        *(f"quarantined: unparsable {name}" for name in ("click_id", "ad_id", "user_id", "impression_id", "source")),
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

    assert Counter((row["source"], row["_verdict"]) for row in rows(judged)) == {
        ("one", "published"): 1,
        ("two", "published"): 1,
        ("two", "duplicate"): 1,
    }


LATE = datetime.fromisoformat("2019-07-01T01:00:00+02:00")


@example(Ad(event_time=LATE))
def test_a_summer_day_is_judged_in_utc(spark: SparkSession, judged: Verdicts) -> None:
    the_day_before = judge_ads(unjudged_ads(spark, [Ad(event_time=LATE)]), day=LATE.date() - ONE_DAY)

    assert judged == {1: "quarantined: event_time outside the day"}
    assert verdicts(the_day_before) == {1: PUBLISHED}


BLANKS = ["", "  ", "\t\r"]


@pytest.fixture(scope="module")
def published_with_blanks(spark: SparkSession) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """The published ads and clicks of a source for each blank, in which it stands for the optional ids."""
    ads = [Ad(campaign_id=blank, user_id=blank, placement_id=blank, source=repr(blank)) for blank in BLANKS]
    clicks = [
        Click(click_id=f"k{n}", impression_id=blank, user_id=blank, source=repr(blank), line=n)
        for blank in BLANKS
        for n in range(2)
    ]
    return (
        rows(published_rows(judge_ads(unjudged_ads(spark, ads), day=DAY))),
        rows(published_rows(judge_clicks(unjudged_clicks(spark, clicks), day=DAY))),
    )


@pytest.mark.parametrize("blank", BLANKS)
def test_an_optional_id_that_is_blank_names_nothing(
    published_with_blanks: tuple[list[dict[str, Any]], list[dict[str, Any]]], blank: str
) -> None:
    (published,), clicked = ([row for row in of if row["source"] == repr(blank)] for of in published_with_blanks)

    assert {published[name] for name in ("campaign_id", "user_id", "placement_id")} == {None}
    # Nobody's clicks repeat nobody's clicks.
    assert [(each["impression_id"], each["user_id"]) for each in clicked] == [(None, None)] * 2
