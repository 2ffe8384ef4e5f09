"""What is said of raw data against what was read of it: only what will really come of it."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

import dagster as dg
from pyspark.sql.types import StringType, StructField, StructType

from feed_assets.ads.schemas import KINDS
from feed_assets.blackboard.location import open_blackboard
from feed_assets.feed_events.declarations import feed_metadata
from feed_assets.file_feed import (
    Facts,
    Feed,
    FeedInput,
    Policy,
    RawInput,
    Rows,
    carry_out,
    claim,
    plan,
    publish_files,
)
from feed_assets.operations.explanation import explain, unprocessed
from feed_assets.sensors.asset_graph import AssetFeedGraph
from feed_assets.sources.loading import load_sources
from feed_assets.sources.raw import read_sets
from feed_assets.sources.spec import Source
from feed_assets.state.store import Store
from feed_assets_tests.harness import ADS, DAY, EFFECTIVENESS, Installation

LONG_AFTER = datetime(2020, 1, 1, tzinfo=UTC)


def feeds_of(desk: Installation) -> AssetFeedGraph:
    return AssetFeedGraph.of(desk.definitions.get_repository_def())


def sources_of(desk: Installation) -> tuple[Source, ...]:
    return load_sources(desk.settings.sources_directory, KINDS)


def standing(desk: Installation, day: str = DAY, asset: str = "clean_ads") -> str:
    """How the raw ads of a day stand."""
    stories = explain(
        desk.board, feeds_of(desk), sources_of(desk), date.fromisoformat(day), now=desk.now, store=desk.store
    )
    return next(story.standing for story in stories if story.asset == asset)


def test_a_day_that_is_due_is_processed(desk):
    desk.raw_bytes(DAY, {"x": 10})

    assert "never processed: 0 -> 10 bytes" in standing(desk)
    assert "; to be processed (no valid update)" in standing(desk)
    assert desk.tick("late_growth").asked


def test_of_a_day_outside_the_lookback_it_is_said_that_no_sensor_asks_for_it_and_what_makes_it(desk):
    desk.raw_bytes(DAY, {"x": 10})
    later = desk.at(LONG_AFTER)

    sentence = standing(later)

    assert "never processed: 0 -> 10 bytes" in sentence
    assert "outside the lookback of 7 days, so no sensor asks for it" in sentence
    assert f"`feed-assets backfill --from {DAY} --to {DAY}`" in sentence
    assert "processed again" not in sentence
    assert "; to be processed" not in sentence
    assert later.tick("late_growth").asked == {}


def test_growth_outside_the_lookback_names_the_command_too(desk):
    desk.raw_bytes(DAY, {"x": 100})
    desk.process()
    desk.raw_bytes(DAY, {"late": 50})

    sentence = standing(desk.at(LONG_AFTER))

    assert "grown, +50 %" in sentence
    assert "feed-assets backfill" in sentence


def test_a_day_that_nothing_happened_to_needs_no_command_however_old_it_is(desk):
    desk.raw_bytes(DAY, {"x": 100})
    desk.process()

    assert "unchanged" in standing(desk.at(LONG_AFTER))
    assert "backfill" not in standing(desk.at(LONG_AFTER))


def test_of_today_it_is_said_that_it_is_not_over(desk):
    today = str(desk.now.date())
    desk.raw_bytes(today, {"x": 10})

    assert "the day is not over, so no sensor asks for it yet" in standing(desk, today)
    assert (
        standing(desk, today, "ad_effectiveness")
        == f"{today} is not a partition of ad_effectiveness: the day is not over"
    )


def test_of_a_day_before_the_first_partition_it_is_said_which_setting_keeps_sensors_from_it(desk):
    desk.raw_bytes("2019-11-19", {"x": 10})
    morning = desk.at(datetime(2019, 11, 23, 3, tzinfo=UTC))

    assert "before the first partition (FEED_ASSETS_FIRST_DAY), so no sensor asks for it" in standing(
        morning, "2019-11-19"
    )
    assert morning.tick("late_growth").asked == {}


def test_of_what_was_tried_and_is_not_in_force_it_is_said_that_it_is_not_tried_again(desk):
    desk.raw_bytes(DAY, {"x": 10})
    tried = desk.process(good=False)

    assert f"tried as {tried}, which is not in force, so it is not tried again" in standing(desk)
    assert desk.tick("late_growth").asked == {}


def test_of_a_rejected_day_outside_the_lookback_no_command_is_named_that_would_only_reject_it_again(desk):
    desk.raw_bytes(DAY, {"x": 10})
    tried = desk.process(good=False)

    sentence = standing(desk.at(LONG_AFTER))

    assert f"tried as {tried}, which is not in force, and outside the lookback of 7 days" in sentence
    assert "backfill" not in sentence


def test_of_an_update_without_a_record_it_is_said_that_its_read_set_is_not_known(desk):
    desk.raw_bytes(DAY, {"x": 10})
    update = desk.base / ADS / DAY / "20191130.000000"
    update.mkdir(parents=True)
    (update / "_SUCCESS").write_text("0")

    sentence = standing(desk)

    assert "1 file, 10 bytes; no record says what update 20191130.000000 read of it" in sentence
    assert "never processed" not in sentence
    assert sentence.endswith("; to be processed again")
    assert desk.tick("late_growth").asked


def test_of_an_update_published_by_hand_it_is_said_that_its_read_set_is_not_known(desk, tmp_path):
    desk.raw_bytes(DAY, {"x": 10})
    update = desk.publish(ADS, DAY, {"a.csv": "x"}, tmp_path / "scratch")

    assert f"no record says what update {update.name} read of it" in standing(desk)


def test_of_a_result_without_a_record_of_its_inputs_it_is_not_said_that_it_is_up_to_date(desk, tmp_path):
    update = desk.publish(EFFECTIVENESS, DAY, {"a.csv": "x"}, tmp_path / "scratch")

    assert standing(desk, asset="ad_effectiveness") == (
        f"no record says what update {update.name} was made of, so no change of an input is noticed"
    )


def test_a_source_that_an_update_has_not_read_was_never_processed(desk):
    desk.raw_bytes(DAY, {"x": 10})
    update = desk.make(ADS, DAY, [RawInput(source="ads/other_ads", partition=DAY, files=())])

    sentence = standing(desk)
    assert "never processed: 0 -> 10 bytes" in sentence
    assert f"; to be processed (update {update})" in sentence


def test_an_input_that_is_read_no_more_is_a_reason(desk):
    desk.raw_bytes(DAY, {"x": 10})
    (ads,) = read_sets(desk.board, "ads/shop_ads", [date.fromisoformat(DAY)]).values()
    feeds = [FeedInput(feed=name, partition=DAY, update="20191125.000000") for name in ("one/v1", "other/v1")]
    desk.make(ADS, DAY, [ads, replace(ads, source="ads/other"), *feeds])
    desk.make(ADS, DAY, [ads, feeds[0]])

    stories = explain(
        desk.board, feeds_of(desk), sources_of(desk), date.fromisoformat(DAY), now=desk.now, store=desk.store
    )

    newest = next(story for story in stories if story.asset == "clean_ads").updates[0]
    assert newest.made_because == f"ads/other no longer read; other/v1 {DAY} no longer read"


def test_a_day_whose_run_died_says_when_it_was_requested_and_when_it_is_again(desk):
    desk.raw_bytes(DAY, {"x": 10})
    assert "requested" not in standing(desk)
    desk.fail(desk.tick("late_growth"))
    assert "requested at 2019-12-01 00:00:00, and its run has not ended" in standing(desk)
    assert not desk.tick("late_growth").asked
    once = "requested once without a result, last at 2019-12-01 00:00:00, again after 2019-12-01 00:10:00"
    assert once in standing(desk)

    later = desk.at(desk.now + timedelta(minutes=11))
    desk.fail(later.tick("late_growth"))
    assert not later.tick("late_growth").asked

    assert "requested 2 times without a result, last at 2019-12-01 00:11:00, again after" in standing(later)
    later.process()
    assert "requested" not in standing(later)


def test_a_day_that_was_rejected_at_its_second_request_is_not_said_to_be_requested_again(desk):
    desk.raw_bytes(DAY, {"x": 10})
    desk.fail(desk.tick("late_growth"))
    assert not desk.tick("late_growth").asked
    later = desk.at(desk.now + timedelta(minutes=11))
    assert later.tick("late_growth").asked

    later.process(good=False)

    assert "not tried again until its raw data changes" in standing(later)
    assert "requested" not in standing(later)


def test_what_a_killed_run_left_is_not_said_to_be_published_by_others(desk):
    left = claim(desk.feed(ADS), DAY, now=desk.now, owner="test")
    desk.board.create(f"{left.prefix}part-0.parquet", b"x")

    stories = explain(
        desk.board, feeds_of(desk), sources_of(desk), date.fromisoformat(DAY), now=desk.now, store=desk.store
    )

    (update,) = next(story for story in stories if story.asset == "clean_ads").updates
    assert (update.state, update.made_because) == ("incomplete", "no record: 1 file and no manifest yet")


def test_an_asset_whose_only_update_was_rejected_is_not_said_to_be_never_computed(desk):
    desk.raw_bytes(DAY, {"x": 10})
    desk.raw_bytes(DAY, {"x": 10}, "clicks/shop_clicks")
    desk.process()
    desk.process(kind="clicks")
    assert standing(desk, asset="ad_effectiveness") == "its inputs are there, and it was never computed"

    rejected = desk.relate(good=False)

    assert standing(desk, asset="ad_effectiveness").startswith(
        f"its inputs are there, and nothing is in force; tried with these inputs as {rejected}"
    )


def test_a_day_whose_runs_all_died_is_not_said_to_be_requested_again(desk):
    desk.raw_bytes(DAY, {"x": 10})
    later = desk
    for _ in range(3):
        desk.fail(later.tick("late_growth"))
        assert not later.tick("late_growth").asked
        later = later.at(later.now + timedelta(hours=1))
    assert later.tick("late_growth").asked == {}

    (day,) = unprocessed(later.board, feeds_of(later), sources_of(later), now=later.now, store=later.store)

    assert "requested 3 times without a result, last at 2019-12-01 02:00:00, not again by itself" in day.standing


def test_every_day_with_unprocessed_data_is_named_however_old_and_no_other(desk):
    for day in ("2019-11-21", "2019-11-24", "2019-11-29", "2019-11-30", "2019-12-01"):
        desk.raw_bytes(day, {"x": 100})
    desk.at(datetime(2019, 11, 28, tzinfo=UTC)).process("2019-11-21")
    desk.process("2019-11-24")
    desk.process("2019-11-29")
    for day in ("2019-11-21", "2019-11-29"):
        desk.raw_bytes(day, {"late": 1})
    later = desk.at(datetime(2019, 12, 1, 12, tzinfo=UTC))

    days = unprocessed(later.board, feeds_of(later), sources_of(later), now=later.now, store=later.store)
    found = {each.day: each.standing for each in days}

    assert list(found) == ["2019-11-21", "2019-11-29", "2019-11-30", "2019-12-01"]
    assert "processed once more, as it has left the lookback" in found["2019-11-21"]
    assert "left until it grows more, or leaves the lookback on 2019-12-07" in found["2019-11-29"]
    assert "never processed: 0 -> 100 bytes" in found["2019-11-30"]
    assert "no sensor asks for it" in found["2019-12-01"]


def test_days_in_a_row_that_no_sensor_asks_for_share_a_command(desk):
    for day in ("2019-11-18", "2019-11-24", "2019-11-25", "2019-11-26", "2019-11-28"):
        desk.raw_bytes(day, {"x": 100})
        desk.raw_bytes(day, {"x": 100}, "clicks/shop_clicks")
    later = desk.at(LONG_AFTER)

    days = unprocessed(later.board, feeds_of(later), sources_of(later), now=later.now, store=later.store)

    row, alone = (
        f"feed-assets backfill --from 2019-11-{days}" for days in ("24 --to 2019-11-26", "28 --to 2019-11-28")
    )
    assert len(days) == 10
    assert {each.day: each.backfill for each in days} == {
        "2019-11-18": None,
        "2019-11-24": row,
        "2019-11-25": row,
        "2019-11-26": row,
        "2019-11-28": alone,
    }
    assert all("outside the lookback of 7 days, so no sensor asks for it (" in each.standing for each in days[2:])


def test_hours_without_an_update_share_a_line(tmp_path: Path):
    board = open_blackboard(str(tmp_path / "base"))
    schema = StructType([StructField("id", StringType())])

    @dg.asset(partitions_def=dg.DailyPartitionsDefinition(DAY), metadata=feed_metadata("daily/v1", schema))
    def daily(hourly): ...

    hours = dg.HourlyPartitionsDefinition(f"{DAY}-00:00")
    hourly = dg.AssetSpec("hourly", partitions_def=hours, metadata=feed_metadata("hourly/v1", schema))
    updates = {f"{DAY}-{hour:02}:00": "20191125.000000" if hour == 12 else None for hour in range(24)}
    inputs = tuple(FeedInput(feed="hourly/v1", partition=hour, update=update) for hour, update in updates.items())
    publish_files(Feed(board, "daily/v1"), DAY, [], now=LONG_AFTER, owner="me", facts=Facts(schema=(), inputs=inputs))

    graph = AssetFeedGraph.of(dg.Definitions([daily, hourly]).get_repository_def())
    store = Store(f"sqlite:///{tmp_path}/state.db")
    story = explain(board, graph, (), date.fromisoformat(DAY), now=LONG_AFTER, store=store)[0]

    assert story.updates[0].inputs == (
        f"hourly/v1 {DAY}-00:00 to {DAY}-11:00: nothing valid (12 partitions)",
        f"hourly/v1 {DAY}-12:00: 20191125.000000",
        f"hourly/v1 {DAY}-13:00 to {DAY}-23:00: nothing valid (11 partitions)",
    )


def test_a_week_and_each_area_have_their_story_on_every_day_and_names_have_none(tmp_path: Path):
    schema = StructType([StructField("id", StringType())])
    days = dg.DailyPartitionsDefinition("2019-11-01", end_date="2019-12-01")
    areas = dg.StaticPartitionsDefinition(["eu", "us"])
    kinds = {
        "daily": days,
        "weekly": dg.WeeklyPartitionsDefinition("2019-11-03", end_date="2019-12-01"),
        "by_area": dg.MultiPartitionsDefinition({"day": days, "area": areas}),
        "named": areas,
    }

    def made(name: str, partitions: dg.PartitionsDefinition) -> dg.AssetsDefinition:
        @dg.asset(name=name, partitions_def=partitions, metadata=feed_metadata(f"{name}/v1", schema))
        def asset() -> None: ...

        return asset

    definitions = dg.Definitions([made(*each) for each in kinds.items()])
    graph = AssetFeedGraph.of(definitions.get_repository_def())
    board = open_blackboard(str(tmp_path))
    for area in ("eu", "us"):
        publish_files(Feed(board, "by_area/v1"), f"{area}|{DAY}", [], now=LONG_AFTER, owner="me")
    store = Store(f"sqlite:///{tmp_path}/state.db")

    def stories(day: date) -> dict[str, list[str]]:
        found: dict[str, list[str]] = {}
        for story in explain(board, graph, (), day, now=LONG_AFTER, store=store):
            found.setdefault(story.asset, []).append(story.day)
        return found

    assert DAY == "2019-11-24"
    assert stories(date(2019, 11, 26)) == {
        "daily": ["2019-11-26"],
        "weekly": ["2019-11-24"],
        "by_area": ["eu|2019-11-26"],
    }
    assert stories(date(2019, 11, 24))["by_area"] == [f"eu|{DAY}", f"us|{DAY}"]
    for outside in (date.min, date(2020, 2, 29), date.max):
        assert stories(outside) == {name: [str(outside)] for name in ("daily", "weekly", "by_area")}


def test_a_new_source_without_a_file_is_no_reason(desk):
    desk.raw_bytes(DAY, {"x": 10})
    (ads,) = read_sets(desk.board, "ads/shop_ads", [date.fromisoformat(DAY)]).values()
    desk.make(ADS, DAY, [ads])
    desk.make(ADS, DAY, [ads, RawInput(source="ads/other", partition=DAY, files=())])

    stories = explain(
        desk.board, feeds_of(desk), sources_of(desk), date.fromisoformat(DAY), now=desk.now, store=desk.store
    )

    newest = next(story for story in stories if story.asset == "clean_ads").updates[0]
    assert newest.made_because == "same inputs, run again"


def test_what_was_read_is_said_only_of_an_update_that_counted_it(desk):
    rows = Rows(read=149, published=149, quarantined=0, duplicates=0)
    quarantine = {"quarantine": f"quarantine/{ADS}"}
    for feed, details in ((ADS, quarantine), (EFFECTIVENESS, {})):
        facts = Facts(rows=rows, details=details)
        publish_files(desk.feed(feed), DAY, [], now=desk.now, owner="me", facts=facts)

    stories = explain(
        desk.board, feeds_of(desk), sources_of(desk), date.fromisoformat(DAY), now=desk.now, store=desk.store
    )

    assert {story.asset: dict(story.updates[0].rows) for story in stories if story.updates} == {
        "clean_ads": {"read": 149, "published": 149, "quarantined": 0, "duplicates": 0},
        "ad_effectiveness": {"published": 149},
    }


def test_the_oldest_update_that_retention_left_is_not_said_to_be_the_first(desk):
    for size in (10_000, 14_999):
        desk.raw_bytes(DAY, {"x": size})
        desk.process()

    def reasons() -> list[str]:
        stories = explain(
            desk.board, feeds_of(desk), sources_of(desk), date.fromisoformat(DAY), now=desk.now, store=desk.store
        )
        return [each.made_because for story in stories if story.asset == "clean_ads" for each in story.updates]

    assert reasons() == ["ads/shop_ads grown +49.9 %", "first on record"]
    policy = Policy(1, younger_than=timedelta(0), longest_write=timedelta(0))
    later = desk.now + timedelta(days=1)
    carry_out(desk.feed(ADS), plan(desk.feed(ADS), policy, now=later), now=later)
    assert reasons() == ["first on record"]
