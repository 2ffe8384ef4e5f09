"""When a day is due: after its buffer, once more as it leaves the lookback, and after the evening before changed."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, date, datetime, timedelta

import pytest

from feed_assets.ads.schemas import KINDS
from feed_assets.file_feed import RawInput
from feed_assets.notices.messages import DETECTED, notice_of
from feed_assets.notices.tables import open_reports
from feed_assets.operations.explanation import explain
from feed_assets.operations.late_calendar import late_calendar
from feed_assets.sensors.asset_graph import AssetFeedGraph
from feed_assets.sources.loading import load_sources
from feed_assets.sources.raw import evening, read_set
from feed_assets_tests.blackboard.recording import RecordingBlackboard
from feed_assets_tests.harness import ADS, DAY, NEXT_DAY, SHOP_ADS, Installation, using_board, write_sources

MIDNIGHT = datetime(2019, 11, 25, tzinfo=UTC)
LEFT = datetime(2019, 12, 2, tzinfo=UTC)
"""When DAY leaves a lookback of seven days."""

HOUR = timedelta(hours=1)
OFTEN = [LEFT + hours * HOUR for hours in range(-30, 5 * 24, 6)]


@pytest.fixture
def processed(desk):
    desk.raw_bytes(DAY, {"x": 1000})
    desk.process()
    return desk


def buffered(desk: Installation, *hours: int, lookback: int = 7) -> Installation:
    """The same base with sources of ads that wait so long."""
    texts = [
        SHOP_ADS.replace("buffer_hours: 0", f"buffer_hours: {each}")
        .replace("lookback_days: 7", f"lookback_days: {lookback}")
        .replace("shop_ads", name)
        for each, name in zip(hours, ("shop_ads", "more_ads"), strict=False)
    ]
    directory = write_sources(desk.base.parent / "buffered", *texts)
    return replace(desk, settings=replace(desk.settings, sources_directory=directory), _definitions=None)


def asked(desk, moments):
    """When the day is asked for, if someone looks at these moments and each request is carried out at once."""
    found = []
    for moment in moments:
        then = desk.at(moment)
        if then.tick("late_growth").asked:
            found.append(moment)
            then.process()
    return found


def test_a_day_is_due_when_the_buffer_after_its_last_hour_is_over(desk):
    desk.raw_bytes(DAY, {"x": 1})
    waiting = buffered(desk, 3)

    assert asked(waiting, [MIDNIGHT + minutes * HOUR / 60 for minutes in (1, 179, 180, 240)]) == [MIDNIGHT + 3 * HOUR]


def test_a_day_waits_for_the_longest_buffer_of_its_sources(desk):
    desk.raw_bytes(DAY, {"x": 1})
    waiting = buffered(desk, 1, 5)

    assert asked(waiting, [MIDNIGHT + hours * HOUR for hours in range(8)]) == [MIDNIGHT + 5 * HOUR]


def test_a_buffer_as_long_as_the_lookback_leaves_a_day_to_be_processed(desk):
    desk.raw_bytes(DAY, {"x": 1})
    waiting = buffered(desk, 48, lookback=1)

    assert asked(waiting, [MIDNIGHT + hours * HOUR for hours in range(0, 100, 12)]) == [MIDNIGHT + 48 * HOUR]


def test_what_stays_below_the_threshold_is_processed_once_when_the_day_leaves_the_lookback(processed):
    processed.raw_bytes(DAY, {"late": 43}, hour="23")

    assert asked(processed, OFTEN) == [LEFT]
    assert processed.record(ADS).read_sets["ads/shop_ads", DAY].bytes == 1043


def test_what_comes_after_that_is_not_processed_by_itself(processed):
    processed.raw_bytes(DAY, {"late": 43})
    assert asked(processed, OFTEN[:12]) == [LEFT]

    processed.raw_bytes(DAY, {"later": 500})

    assert asked(processed, OFTEN[12:]) == []


def test_a_sensor_that_did_not_run_that_day_still_processes_what_was_left(processed):
    processed.raw_bytes(DAY, {"late": 43})

    assert asked(processed, [LEFT + timedelta(days=2)]) == [LEFT + timedelta(days=2)]


def test_a_day_that_is_complete_is_not_processed_when_it_leaves_the_lookback(processed):
    assert asked(processed, OFTEN) == []


def test_a_day_that_was_never_processed_is_not_begun_when_it_has_left_the_lookback(desk):
    desk.raw_bytes(DAY, {"x": 1})

    assert asked(desk, [LEFT, LEFT + timedelta(days=9)]) == []


# --- the evening before -----------------------------------------------------------------------------------------------


def with_evening(desk, day, before):
    """The update of a day that read the evening of the day before as it is in that day's update."""
    read = read_set(desk.board, "ads/shop_ads", date.fromisoformat(day))
    of_yesterday = desk.record(ADS, before).read_sets["ads/shop_ads", before]
    inputs: list[RawInput] = [read]
    if (context := evening(of_yesterday, 1)).files:
        inputs.append(context)
    return desk.make(ADS, day, inputs)


@pytest.fixture
def two_days(desk):
    for day in (DAY, NEXT_DAY):
        desk.raw_bytes(day, {"x": 1000})
        desk.raw_bytes(day, {"x": 1000}, hour="23")
    desk.process(DAY)
    with_evening(desk, NEXT_DAY, DAY)
    assert desk.tick("late_growth").asked == {}
    return desk


def feeds_and_sources(desk):
    graph = AssetFeedGraph.of(desk.definitions.get_repository_def())
    return graph, load_sources(desk.settings.sources_directory, KINDS)


def test_a_day_runs_again_when_the_evening_before_was_processed_again(two_days):
    two_days.raw_bytes(DAY, {"late": 500}, hour="23")
    assert two_days.tick("late_growth").asked == {DAY: ("clean_ads",)}
    two_days.process(DAY)

    tick = two_days.tick("late_growth")

    assert tick.asked == {NEXT_DAY: ("clean_ads",)}
    assert "as the evening before has changed" in tick.requests[0].tags["feed_assets/why"]
    with_evening(two_days, NEXT_DAY, DAY)
    assert two_days.tick("late_growth").asked == {}


def test_calendar_notice_and_explanation_name_the_evening_before_and_not_an_unchanged_day(two_days):
    two_days.raw_bytes(DAY, {"late": 500}, hour="23")
    two_days.process(DAY)
    feeds, sources = feeds_and_sources(two_days)

    two_days.tick("late_growth")

    rows = late_calendar(two_days.board, feeds, sources, shown=sources, now=two_days.now)
    assert [(row.day, row.decision) for row in rows] == [
        (DAY, "unchanged"),
        (NEXT_DAY, "evening before changed, due"),
    ]
    (report,) = open_reports(two_days.store, two_days.board.uri(""), day=NEXT_DAY)
    notice = notice_of(report, DETECTED)
    assert notice.subject == f"Late data for {NEXT_DAY}: ads/shop_ads evening before changed"
    assert notice.lines[0].startswith(f"Data of the evening before {NEXT_DAY} came after the day was processed.")
    with_evening(two_days, NEXT_DAY, DAY)
    day = date.fromisoformat(NEXT_DAY)
    stories = explain(two_days.board, feeds, sources, day, now=two_days.now, store=two_days.store)
    assert stories[0].updates[0].made_because == "evening before changed"


def test_a_day_does_not_run_again_for_late_data_of_another_hour_of_the_day_before(two_days):
    two_days.raw_bytes(DAY, {"late": 500}, hour="22")
    assert two_days.tick("late_growth").asked == {DAY: ("clean_ads",)}
    two_days.process(DAY)

    assert two_days.tick("late_growth").asked == {}


def test_a_day_does_not_run_again_for_an_evening_that_is_not_in_the_update_of_its_day(two_days):
    two_days.raw_bytes(DAY, {"late": 50}, hour="23")

    assert two_days.tick("late_growth").asked == {}


def test_raw_files_that_are_deleted_run_no_day_that_read_them_as_its_evening(two_days):
    for path in (two_days.base / "raw/ads/shop_ads" / DAY).rglob("*.parquet"):
        path.unlink()
    assert two_days.tick("late_growth").asked == {}

    for path in (two_days.base / "raw/ads/shop_ads" / NEXT_DAY).rglob("*.parquet"):
        path.unlink()
    assert two_days.tick("late_growth").asked == {}


def test_days_that_read_their_evenings_cost_no_read_of_a_record_in_the_next_tick(two_days):
    recording = RecordingBlackboard(two_days.board)

    assert using_board(two_days, recording).tick("late_growth").asked == {}
    assert [each.key for each in recording.requests if each.operation == "read" and "/.feed/" in each.key] == []
