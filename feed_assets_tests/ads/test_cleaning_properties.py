"""What holds of cleaning whatever the events are: over random days in which everything collides."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from decimal import Decimal
from functools import reduce
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyspark.sql import DataFrame, Observation, SparkSession, functions

from feed_assets.ads.cleaning import check_ads, check_clicks, judge_ads, judge_clicks
from feed_assets.engine.judged_rows import (
    FEW_QUARANTINED,
    PLACES_QUARANTINED,
    counted_reasons,
    few_quarantined,
    places_quarantined,
    published_rows,
    quarantined_rows,
    reason_counts,
    with_places,
)
from feed_assets.engine.update_files import write_files
from feed_assets_tests.ads import reference
from feed_assets_tests.ads.counting import counts_of
from feed_assets_tests.ads.events import (
    DAY,
    MICROSECOND,
    MIDNIGHT,
    NOON,
    ONE_DAY,
    PROVENANCE,
    SECOND,
    Ad,
    Click,
    described,
    rows,
    unjudged_ads,
    unjudged_clicks,
)

MOMENTS = [
    *[NOON + steps * SECOND / 2 for steps in range(6)],
    *[NOON + steps * SECOND + MICROSECOND for steps in range(3)],
    MIDNIGHT - MICROSECOND,
    MIDNIGHT,
    MIDNIGHT + ONE_DAY,
    None,
]
VALUES: dict[str, Sequence[Any]] = {
    "event_time": MOMENTS,
    "ad_id": ["a", "a", "a", "b", " ", "\t", None],
    "user_id": ["u", "u", "v", "", " \t", None],
    "source": ["one", "one", "two"],
    "file": ["a.csv", "b.csv"],
    "malformed": [None, None, None, None, "a;b"],
    "unparsable": [None, None, None, ("cost",), ("event_time",), ("event_time", "cost")],
}
ADS = VALUES | {"impression_id": ["i", "j", "k", "", None], "cost": [None, Decimal(0), Decimal(1), Decimal(-1)]}
CLICKS = VALUES | {"click_id": ["i", "j", "k", "l", "m", None]}

Event = Ad | Click


def events_of(kind: type[Ad | Click], values: dict[str, Sequence[Any]]) -> st.SearchStrategy[list[Any]]:
    """Days of up to a dozen events, each with a line of its own."""
    event = st.builds(kind, **{name: st.sampled_from(choices) for name, choices in values.items()})
    return st.lists(event, max_size=12).map(lambda events: [replace(e, line=n) for n, e in enumerate(events)])


def random_events(kind: type[Ad | Click], values: dict[str, Sequence[Any]], chance: random.Random) -> list[Any]:
    return [
        kind(**{name: chance.choice(choices) for name, choices in values.items()}, line=line)
        for line in range(chance.randrange(15))
    ]


def together(cases: Sequence[Sequence[Any]]) -> list[Any]:
    """All cases as one day, kept apart by their sources and ads, so that Spark is asked once."""
    return [
        replace(
            event,
            source=f"{number}/{event.source}",
            ad_id=f"{number}/{event.ad_id}" if (event.ad_id or "").strip() else event.ad_id,
            line=number * 1000 + event.line,
        )
        for number, case in enumerate(cases)
        for event in case
    ]


def judged(spark: SparkSession, events: Sequence[Any]) -> DataFrame:
    if events and isinstance(events[0], Click):
        return judge_clicks(unjudged_clicks(spark, events), day=DAY, repeated_within=SECOND)
    return judge_ads(unjudged_ads(spark, events), day=DAY)


def verdicts(frame: DataFrame) -> dict[int, str]:
    found = frame.collect()
    by_line = {row["_line"]: f"{row['_verdict']}: {row['_reason']}" for row in found}
    assert len(by_line) == len(found), "an event came out twice"
    return by_line


def assert_as_the_reference_says(spark: SparkSession, cases: Sequence[Sequence[Any]]) -> None:
    everything = together(cases)
    expected = {}
    for number, case in enumerate(cases):
        of_case = reference.judge(case, day=DAY, repeated_within=SECOND)
        expected |= {number * 1000 + (line or 0): verdict for line, verdict in of_case.items()}
    assert verdicts(judged(spark, everything)) == expected


@settings(max_examples=5, suppress_health_check=list(HealthCheck))
@given(
    cases=st.lists(events_of(Ad, ADS), min_size=3, max_size=8)
    | st.lists(events_of(Click, CLICKS), min_size=3, max_size=8)
)
def test_small_days_are_judged_as_the_reference_says(spark: SparkSession, cases: list[list[Any]]) -> None:
    assert_as_the_reference_says(spark, cases)


@pytest.mark.parametrize(("kind", "values"), [(Ad, ADS), (Click, CLICKS)])
def test_two_thousand_days_are_judged_as_the_reference_says(spark: SparkSession, kind: Any, values: Any) -> None:
    chance = random.Random(20191127)

    assert_as_the_reference_says(spark, [random_events(kind, values, chance) for _ in range(2000)])


@pytest.mark.parametrize(("kind", "values"), [(Ad, ADS), (Click, CLICKS)])
def test_a_day_checked_in_parts_is_judged_as_the_day_at_once(spark: SparkSession, kind: Any, values: Any) -> None:
    chance = random.Random(2)
    events = together([random_events(kind, values, chance) for _ in range(300)])
    parts: list[list[Any]] = [[], [], []]
    for event in events:
        chance.choice(parts).append(event)
    unjudged, check = (unjudged_ads, check_ads) if kind is Ad else (unjudged_clicks, check_clicks)
    checked = reduce(DataFrame.unionByName, [check(unjudged(spark, part), DAY) for part in parts])

    found = judge_ads(checked, day=DAY) if kind is Ad else judge_clicks(checked, day=DAY, repeated_within=SECOND)
    whole = judged(spark, events)
    assert found.schema == whole.schema
    assert verdicts(found) == verdicts(whole)
    for view in (published_rows, quarantined_rows):
        assert sorted(map(str, rows(view(found)))) == sorted(map(str, rows(view(whole))))


@pytest.mark.parametrize(("kind", "values"), [(Ad, ADS), (Click, CLICKS)])
def test_what_was_read_is_published_quarantined_or_duplicate_and_nothing_else(
    spark: SparkSession, kind: Any, values: Any
) -> None:
    chance = random.Random(1)
    events = together([random_events(kind, values, chance) for _ in range(300)])

    frame = judged(spark, events)
    counts = counts_of(frame)

    duplicates = sum(count for name, count in counts.items() if name.startswith("duplicate"))
    reasons = sum(count for name, count in counts.items() if name.startswith("quarantined: "))
    assert counts["published"] + counts["quarantined"] + duplicates == len(events)
    assert counts["quarantined"] == reasons == quarantined_rows(frame).count()
    assert min(counts["published"], reasons, duplicates) > 0


@pytest.mark.parametrize(("kind", "values"), [(Ad, ADS), (Click, CLICKS)])
def test_the_pass_that_publishes_finds_the_quarantined_records_or_their_places(
    spark: SparkSession, tmp_path: Path, kind: Any, values: Any
) -> None:
    chance = random.Random(3)
    frame = judged(spark, together([random_events(kind, values, chance) for _ in range(100)]))
    reasons, found, marked = Observation(), Observation(), Observation()

    frame.observe(found, few_quarantined(frame)).write.format("noop").mode("overwrite").save()
    with_places(frame).observe(marked, places_quarantined(spark)).write.format("noop").mode("overwrite").save()
    quarantine = quarantined_rows(frame).observe(reasons, *reason_counts(frame))
    write_files(quarantine, (tmp_path / "quarantine").as_uri(), "json")

    few, places = found.get[FEW_QUARANTINED], bytes(marked.get[PLACES_QUARANTINED])
    files = (tmp_path / "quarantine").glob("part-*.json")
    assert sorted(each.line for each in few) == sorted(
        line for file in files for line in file.read_text(encoding="utf-8").splitlines()
    )
    assert sorted(map(str, rows(quarantined_rows(frame, places)))) == sorted(map(str, rows(quarantined_rows(frame))))
    assert counted_reasons(frame, few) == {name: count for name, count in reasons.get.items() if count}
    assert len(few) > 100


@pytest.mark.parametrize(("kind", "values"), [(Ad, ADS), (Click, CLICKS)])
def test_cleaning_what_is_clean_changes_nothing(spark: SparkSession, kind: Any, values: Any) -> None:
    chance = random.Random(2)
    events = together([random_events(kind, values, chance) for _ in range(300)])
    clean = published_rows(judged(spark, events))
    nowhere = [functions.lit(None).cast(field.dataType).alias(field.name) for field in PROVENANCE.values()]
    again = clean.select("*", *nowhere)

    judge = judge_clicks if kind is Click else judge_ads
    twice = published_rows(judge(again, day=DAY))

    assert described(twice.schema) == described(clean.schema)
    assert Counter(map(repr, rows(twice))) == Counter(map(repr, rows(clean)))


@pytest.mark.parametrize(("kind", "values"), [(Ad, ADS), (Click, CLICKS)])
def test_the_order_in_which_events_arrive_makes_no_difference(spark: SparkSession, kind: Any, values: Any) -> None:
    chance = random.Random(3)
    events = together([random_events(kind, values, chance) for _ in range(300)])
    shuffled = chance.sample(events, len(events))

    assert verdicts(judged(spark, shuffled)) == verdicts(judged(spark, events))


@pytest.mark.parametrize("split", [timedelta(0), SECOND])
def test_a_day_judged_after_the_one_before_publishes_no_id_again(spark: SparkSession, split: timedelta) -> None:
    chance = random.Random(4)
    around = [MIDNIGHT + steps * SECOND / 2 + split for steps in range(-4, 4)]
    values = CLICKS | {"event_time": around, "malformed": [None], "unparsable": [None]}
    events = together([random_events(Click, values, chance) for _ in range(300)])
    frame = unjudged_clicks(spark, events)

    before = published_rows(judge_clicks(frame, day=DAY - ONE_DAY))
    after = published_rows(judge_clicks(frame, day=DAY, earlier=frame))

    identity = ["source", "click_id"]
    assert before.count() > 0
    assert after.count() > 0
    assert before.join(after, identity).count() == 0
