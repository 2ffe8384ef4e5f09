"""Generated logs of the made-up partners, landed and cleaned: every count is the one the generator knows to be true.

That these partners need a YAML file each, and no line of Python, is the point of `sources`.
"""

from collections import Counter
from datetime import UTC, datetime, timedelta
from functools import cache
from pathlib import Path

import pytest

from feed_assets.ads.cleaning import judge_ads, judge_clicks
from feed_assets.ads.effectiveness import ads_with_shared_clicks
from feed_assets.ads.schemas import AD_CATALOG, KINDS
from feed_assets.blackboard.local import LocalBlackboard
from feed_assets.engine.judged_rows import published_rows
from feed_assets.sources.canonical import canonical
from feed_assets.sources.landing import land_files
from feed_assets.sources.loading import load_sources
from feed_assets.sources.raw import raw_frame, read_set
from feed_assets_tests.ads.counting import counts_of
from feed_assets_tests.generator import NO_TIME, Dirt, Shape, generate
from feed_assets_tests.layouts import LAYOUTS, Portal

NOW = datetime(2019, 12, 1, tzinfo=UTC)
SOURCES = {source.key: source for source in load_sources(Path(__file__).parent / "partners", KINDS)}
SHAPE = Shape(impressions=5000, users=400, ads=60, click_rate=0.1)
DIRT = Dirt(late=0.1, malformed=0.02, no_time=0.02, no_ad=0.02)


@pytest.fixture(scope="module")
def landed(spark, tmp_path_factory):
    """The generated day as a partner lands it, in time and late: log, blackboard, and the landings of each source."""
    log = generate(SHAPE, DIRT)

    @cache
    def of(layout):
        directory = tmp_path_factory.mktemp(layout.name)
        blackboard = LocalBlackboard(directory / "blackboard")
        files = layout.write(log, directory, compressed=True)
        landings = {
            key: list(land_files(spark, blackboard, SOURCES[key], files[kind], now=NOW))
            for kind, key in (("ads", layout.ads), ("clicks", layout.clicks))
        }
        return log, blackboard, landings

    return of


@pytest.fixture(params=LAYOUTS, ids=lambda layout: layout.name)
def day(request, landed):
    """One generated day of one partner, landed in time and late."""
    return request.param, *landed(request.param)


def judged(spark, blackboard, key, date):
    source = SOURCES[key]
    events = canonical(raw_frame(spark, blackboard, source, read_set(blackboard, key, date)), source)
    judge = judge_ads if source.kind == "ads" else judge_clicks
    return judge(events, day=date)


def counts(frame):
    return {name: count for name, count in counts_of(frame).items() if count and name != "quarantined"}


def without_zeros(**found):
    return {name.replace("__", ": ").replace("_", " "): count for name, count in found.items() if count}


def test_every_line_lands_is_filtered_or_goes_to_quarantine_and_all_are_counted(day):
    layout, log, _, landings = day

    for key, records, others in ((layout.ads, log.ads, log.clicks), (layout.clicks, log.clicks, log.ads)):
        found = landings[key]
        quarantined = layout.quarantined(records)
        assert len(found) == 2
        filtered = len(others) if layout.shared else 0
        assert sum(landing.read for landing in found) == len(records) + filtered
        assert sum(landing.filtered for landing in found) == filtered
        assert sum(landing.landed for landing in found) == len(records) - sum(quarantined.values())
        for reason, expected in quarantined.items():
            assert sum(landing.quarantined.get(reason, 0) for landing in found) == expected


def test_cleaning_publishes_drops_and_quarantines_exactly_what_it_should(spark, day):
    layout, log, blackboard, _ = day
    shown, clicked = log.clean_ads(), log.clean_clicks()
    cut = layout.cut_lines_have_a_time

    assert counts(judged(spark, blackboard, layout.ads, SHAPE.day)) == {
        "published": shown.published,
        "duplicate: redelivered": shown.redelivered,
        "quarantined: missing ad_id": shown.no_ad,
    } | ({"quarantined: malformed line": shown.malformed} if cut else {})
    assert counts(judged(spark, blackboard, layout.clicks, SHAPE.day)) == {
        "published": clicked.published,
        "duplicate: redelivered": clicked.redelivered,
        "duplicate: repeated click": clicked.repeated,
        "quarantined: missing ad_id": clicked.no_ad,
    } | ({"quarantined: malformed line": clicked.malformed} if cut else {})
    next_day = SHAPE.day + timedelta(days=1)
    assert counts(judged(spark, blackboard, layout.clicks, next_day)) == {"published": clicked.published_next_day}


def test_effectiveness_comes_to_the_truth_for_every_ad(spark, day):
    layout, log, blackboard, _ = day
    truth = log.effectiveness(named=layout.named)
    next_day = SHAPE.day + timedelta(days=1)
    ads = published_rows(judged(spark, blackboard, layout.ads, SHAPE.day))
    clicks = [published_rows(judged(spark, blackboard, layout.clicks, date)) for date in (SHAPE.day, next_day)]

    rows = ads_with_shared_clicks(
        ads, clicks[0].unionByName(clicks[1]), spark.createDataFrame([], AD_CATALOG), day=SHAPE.day
    ).collect()

    assert {row.ad_id: (row.impressions, row.users, row.clicks) for row in rows} == {
        layout.ad(number): (shown, truth.users_of.get(number, 0), truth.clicks_of.get(number, 0))
        for number, shown in truth.impressions_of.items()
    }
    totals = ("impressions", "clicks", "clicks_next_day", "repeat_clicks", "orphan_clicks")
    assert {name: sum(row[name] for row in rows) for name in totals} == {name: getattr(truth, name) for name in totals}


def test_raw_partitions_written_directly_hold_what_landing_would_put_there(spark, tmp_path, landed):
    (layout,) = (each for each in LAYOUTS if isinstance(each, Portal))
    log, through_landing, _ = landed(layout)

    layout.write_raw(log, tmp_path / "direct")

    for key in (layout.ads, layout.clicks):
        for date in (SHAPE.day, SHAPE.day + timedelta(days=1)):
            there, expected = (
                Counter(
                    raw_frame(spark, blackboard, SOURCES[key], read_set(blackboard, key, date))
                    .drop("_file", "_line")
                    .collect()
                )
                for blackboard in (LocalBlackboard(tmp_path / "direct"), through_landing)
            )
            assert there - expected == expected - there == Counter()


def test_the_same_seed_gives_the_same_bytes_and_another_seed_others(tmp_path):
    def content(name, seed):
        directory = tmp_path / name
        directory.mkdir()
        paths = LAYOUTS[0].write(generate(Shape(impressions=300, seed=seed)), directory)
        return [path.read_bytes() for files in paths.values() for path in files]

    assert content("a", 1) == content("b", 1) != content("c", 2)


def test_a_generated_day_is_as_skewed_and_as_dirty_as_asked():
    log = generate(Shape(impressions=20_000, users=1000, ads=100), Dirt(redelivered=0.05, late=0.25))
    top = max(log.effectiveness(named=True).impressions_of.values())

    assert top > 20_000 / 100 * 5
    assert log.clean_ads().redelivered == 1000
    assert 0.23 < log.ads.late.mean() < 0.27
    assert log.ads.count(NO_TIME) == 20
