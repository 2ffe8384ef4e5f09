"""A week of real logs through the whole pipeline: every record is accounted for, and every total is the known one."""

from __future__ import annotations

import re
from datetime import date

import dagster as dg
import pytest

from feed_assets.ads.demo.logs import LOG
from feed_assets.ads.partners import partners_directory
from feed_assets.ads.schemas import KINDS
from feed_assets.datasets.days import days_between
from feed_assets.file_feed import latest, records
from feed_assets.operations.day_runs import backfill
from feed_assets.sources.landing import land
from feed_assets.sources.loading import load_sources
from feed_assets_tests.harness import ADS, AS_OF, CLICKS, EFFECTIVENESS, Installation, settings_below
from feed_assets_tests.open_bandit import TOTALS


@pytest.fixture(scope="module")
def week(tmp_path_factory, spark):
    """The log, landed for both its sources, and all its days processed."""
    base = tmp_path_factory.mktemp("open-bandit")
    week = Installation(settings_below(base, partners_directory()), dg.DagsterInstance.ephemeral())
    landings = [land(spark, week.board, source, LOG, now=AS_OF) for source in load_sources(partners_directory(), KINDS)]
    assert [landing.landed for landing in landings] == [30_000, 157]
    days = days_between(date(2019, 11, 24), date(2019, 11, 30))
    results = list(backfill(week.definitions, week.instance, days, run_config={"loggers": {"console": {"config": {}}}}))
    assert [result.failures for result in results if not result.success] == []
    return week


def test_each_day_has_the_known_impressions_and_clicks(week):
    found = {day: (len(week.rows(ADS, day)), len(week.rows(CLICKS, day))) for day in TOTALS}

    assert found == TOTALS
    assert tuple(map(sum, zip(*found.values(), strict=True))) == (30_000, 157)


def test_effectiveness_adds_up_to_the_clean_days(week):
    for day, (impressions, clicks) in TOTALS.items():
        rows = week.rows(EFFECTIVENESS, day)
        assert sum(row["impressions"] for row in rows) == impressions
        counted = [
            row["clicks"]
            - row["clicks_next_day"]
            + row["repeat_clicks"]
            + row["previous_day_clicks"]
            + row["orphan_clicks"]
            for row in rows
        ]
        assert sum(counted) == clicks
        assert sum(row["orphan_clicks"] for row in rows) == 0


def test_the_four_pairs_of_one_moment_are_told_apart(week):
    rows = [row for day in TOTALS for row in week.rows(ADS, day)]

    assert len({row["impression_id"] for row in rows}) == 30_000


def test_every_record_read_is_published_quarantined_or_a_duplicate(week):
    for location in (ADS, CLICKS):
        for day in TOTALS:
            rows = week.record(location, day).facts.rows
            assert rows.read == rows.published + rows.quarantined + rows.duplicates
            assert rows.published == TOTALS[day][location == CLICKS]


def test_each_day_was_made_once_from_what_is_in_force(week):
    for day in TOTALS:
        made = records(week.feed(EFFECTIVENESS), day)
        assert len(made) == 1
        for each in made[0].facts.inputs:
            update = latest(week.feed(each.feed), each.partition, now=AS_OF)
            assert each.update == (update.name if update else None)


def test_neither_sensor_has_anything_to_do_afterwards(week):
    growth, feeds = week.tick("late_growth"), week.tick("new_manifests")

    assert (growth.asked, feeds.asked, feeds.reported) == ({}, {}, [])
    assert "12 unchanged" in growth.skipped


def test_a_small_picture_and_the_top_ads_are_in_the_metadata(week):
    event = week.instance.get_latest_materialization_event(dg.AssetKey("ad_effectiveness"))
    metadata = event.asset_materialization.metadata

    assert len(metadata["top ads"].records) == 20
    shown = [record.data["impressions"] for record in metadata["top ads"].records]
    assert shown == sorted(shown, reverse=True)
    first = metadata["top ads"].records[0].data
    assert first["CTR, %"] == round(100 * first["clicks"] / first["impressions"], 2)
    low, high = map(float, first["95 % interval"].split(" - "))
    assert low <= first["CTR, %"] <= high
    assert "(data:image/svg+xml;base64," in metadata["click-through rate"].value
    # Numbers, so that Dagster plots them over the days.
    totals = {name: metadata[name].value for name in ("impressions", "clicks", "click-through rate, %")}
    assert totals["impressions"] >= sum(shown)
    assert totals["click-through rate, %"] == round(100 * totals["clicks"] / totals["impressions"], 4)


def test_no_event_of_the_week_has_more_than_one_picture_or_a_large_one(week):
    kinds = {dg.DagsterEventType.ASSET_MATERIALIZATION, dg.DagsterEventType.ASSET_CHECK_EVALUATION}
    entries = [
        entry.to_json() for run in week.instance.get_runs() for entry in week.instance.all_logs(run.run_id, kinds)
    ]

    pictures = [re.findall(r"data:image/[^)\"]*", entry) for entry in entries]

    assert max(map(len, pictures)) == 1
    assert 0 < max(len(picture) for found in pictures for picture in found) <= 15_000
