"""The sensor for feeds: what it tells Dagster, what it asks for, each once, and what it costs."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from importlib import import_module

import dagster as dg
import pytest
from dagster._core.execution.backfill import BulkActionStatus, PartitionBackfill
from dagster._core.test_utils import create_run_for_test, freeze_time
from pyspark.sql.types import StringType, StructField, StructType

from feed_assets.feed_events.declarations import OPTIONAL, feed_metadata
from feed_assets.file_feed import CheckOutcome, Facts, FeedInput, claim, invalidate, publish, reject, stage
from feed_assets.notices.keeping import LOCATION as REPORTS
from feed_assets.operations.day_runs import backfill
from feed_assets.partitions.days import daily, hourly
from feed_assets.partitions.time_windows import window_of
from feed_assets.state.address import StoreError
from feed_assets_tests.blackboard.recording import RecordingBlackboard
from feed_assets_tests.harness import (
    ADS,
    CATALOG,
    CLICKS,
    DAY,
    EFFECTIVENESS,
    NEXT_DAY,
    before_state,
    days,
    using_board,
)

NEW_MANIFESTS = import_module("feed_assets.sensors.new_manifests")
REQUESTS = import_module("feed_assets.starts.requests")
MADE_FROM = import_module("feed_assets.late_data.inputs_read")
DAY_AND_REGION = dg.MultiPartitionsDefinition(
    {"day": dg.DailyPartitionsDefinition("2019-11-01"), "region": dg.StaticPartitionsDefinition(["eu", "us"])}
)
CATALOG_CSV = {"catalog.csv": "ad_id,advertiser\na1,Ann\n"}


def process(desk, day=DAY):
    """A day whose three feeds are up to date with each other."""
    for kind in ("ads", "clicks"):
        desk.raw_bytes(day, {"x": 1}, f"{kind}/shop_{kind}")
        desk.process(day, kind)
    desk.relate(day)


@pytest.fixture
def settled(desk):
    """A day that is up to date, and a first tick behind it."""
    process(desk)
    desk.tick("new_manifests")
    assert desk.tick("new_manifests").reported == []
    return desk


def test_an_update_of_an_external_feed_is_told_once_and_what_is_made_of_it_asked_for_once(settled, tmp_path):
    update = settled.publish(CATALOG, None, CATALOG_CSV, tmp_path / "catalog")

    first, second = settled.tick("new_manifests"), settled.tick("new_manifests")

    assert first.reported == [("ad_catalog", None, update.name)]
    assert first.events[0].metadata["path"].value == update.uri
    assert first.asked == {DAY: ("ad_effectiveness",)}
    assert f"{CATALOG} is {update.name} now, was missing" in first.requests[0].tags["feed_assets/why"]
    assert (second.reported, second.asked) == ([], {})


def test_an_update_that_others_put_into_a_feed_of_ours_is_told_and_what_is_made_of_it_asked_for(settled, tmp_path):
    update = settled.publish(ADS, DAY, {"part-0.parquet": "x"}, tmp_path / "others")

    tick = settled.tick("new_manifests")

    assert tick.reported == [("clean_ads", DAY, update.name)]
    assert tick.asked == {DAY: ("ad_effectiveness",)}


def test_an_invalidation_is_told_once_with_what_is_in_force_now_and_asked_for(settled):
    before = settled.latest(ADS)
    name = settled.process()
    settled.relate()
    settled.tick("new_manifests")
    invalidate(settled.feed(ADS), DAY, name, reason="wrong", author="someone", now=settled.now)

    first, second = settled.tick("new_manifests"), settled.tick("new_manifests")

    assert first.reported == [("clean_ads", DAY, before)]
    assert f"{name} is not valid any more" in first.events[0].description
    assert first.asked == {DAY: ("ad_effectiveness",)}
    assert (second.reported, second.asked) == ([], {})


def test_what_is_made_of_an_input_that_lost_all_its_updates_is_not_asked_for(settled):
    invalidate(settled.feed(ADS), DAY, settled.latest(ADS), reason="wrong", author="someone", now=settled.now)

    tick = settled.tick("new_manifests")

    (event,) = tick.events
    assert event.metadata["state"].value == "nothing in force"
    assert tick.reported == [("clean_ads", DAY, "")]
    assert tick.asked == {}


def test_an_older_update_that_becomes_valid_late_is_told_once_and_causes_no_run(desk):
    process(desk)
    early = desk.feed(ADS).update_prefix(DAY, "20191130.120000")
    desk.board.create(f"{early}part-0.parquet", b"x")
    desk.tick("new_manifests")
    desk.board.create(f"{early}_SUCCESS", b"1")

    first, second = desk.tick("new_manifests"), desk.tick("new_manifests")

    assert first.reported == [("clean_ads", DAY, "20191130.120000")]
    assert isinstance(first.events[0], dg.AssetObservation)
    assert first.asked == {}
    assert second.reported == []


def test_updates_of_our_own_runs_are_known_and_told_by_nobody(settled):
    runs = [create_run_for_test(settled.instance, status=dg.DagsterRunStatus.SUCCESS) for _ in range(2)]
    names = [settled.make(ADS, NEXT_DAY, [], run_id=run.run_id) for run in runs]
    settled.instance.report_runless_asset_event(
        dg.AssetMaterialization("clean_ads", partition=NEXT_DAY, tags={"dagster/data_version": names[1]})
    )

    assert settled.tick("new_manifests").reported == []


def test_what_a_backfill_under_way_is_going_to_make_is_not_asked_for(desk):
    desk.process()
    desk.process(kind="clicks")
    backfill = PartitionBackfill.from_asset_partitions(
        backfill_id="backfill",
        asset_graph=desk.definitions.resolve_asset_graph(),
        partition_names=[DAY],
        asset_selection=[dg.AssetKey("ad_effectiveness")],
        backfill_timestamp=desk.now.timestamp(),
        tags={},
        dynamic_partitions_store=desk.instance,
        all_partitions=False,
        title=None,
        description=None,
        run_config={},
    )
    desk.instance.add_backfill(backfill)
    assert desk.tick("new_manifests").asked == {}

    desk.instance.update_backfill(backfill.with_status(BulkActionStatus.CANCELED))

    assert desk.tick("new_manifests").asked == {DAY: ("ad_effectiveness",)}


def test_what_a_backfill_in_one_process_is_going_to_make_is_not_asked_for(desk):
    asked = []

    @dg.asset(partitions_def=daily(desk.settings))
    def clean(context):
        for kind in ("ads", "clicks"):
            desk.process(context.partition_key, kind)
        asked.append(desk.tick("new_manifests").asked)

    for _ in backfill(dg.Definitions([clean]), desk.instance, days(3), run_config={}):
        asked.append(desk.tick("new_manifests").asked)  # noqa: PERF401 - the ticks in the runs come between

    in_a_run, between_two_runs = {}, {}
    assert asked[:-1] == [in_a_run, between_two_runs, in_a_run, between_two_runs, in_a_run]
    assert list(asked[-1]) == days(3)


def test_updates_of_runs_that_another_instance_made_are_told(settled):
    name = settled.make(ADS, NEXT_DAY, [], run_id="a run of another machine")

    assert settled.tick("new_manifests").reported == [("clean_ads", NEXT_DAY, name)]


def test_a_rejected_update_is_no_news(settled):
    settled.process(good=False)

    tick = settled.tick("new_manifests")

    assert (tick.reported, tick.asked) == ([], {})


def audited(desk, passed: bool, run_id: str = "a worker") -> str:
    """An update of a worker whose checks have decided."""
    claimed = claim(desk.feed(ADS), DAY, now=desk.now, owner="worker")
    staged = stage(claimed, (), Facts(run_id=run_id), now=desk.now)
    checks = [CheckOutcome("not_empty", passed, "ERROR", {"rows": 0}), CheckOutcome("usual_rows", True, "WARN")]
    if passed:
        publish(staged, checks=checks, now=desk.now)
    else:
        reject(staged, reason="not_empty: rows 0", checks=checks, now=desk.now)
    return claimed.name


def test_the_checks_of_a_workers_update_are_told_once_also_if_they_rejected_it(settled):
    before = settled.latest(ADS)
    rejected = [audited(settled, passed=False), audited(settled, passed=False)]

    first, second = settled.tick("new_manifests"), settled.tick("new_manifests")

    failed = first.checked[2]
    assert [each.metadata["update"].value for each in first.checked] == [rejected[0]] * 2 + [rejected[1]] * 2
    assert (failed.check_name, failed.passed, failed.severity) == ("not_empty", False, dg.AssetCheckSeverity.ERROR)
    assert failed.blocking
    assert failed.metadata["rows"].value == 0
    assert failed.metadata["partition"].value == DAY
    assert failed.metadata["outcome"].value == f"{DAY}: update {rejected[1]} is rejected (not_empty: rows 0)."
    assert (first.reported, first.asked, second.checked) == ([], {}, ())
    assert settled.latest(ADS) == before

    published = audited(settled, passed=True)
    tick = settled.tick("new_manifests")
    assert tick.reported == [("clean_ads", DAY, published)]
    assert [(each.check_name, each.passed) for each in tick.checked] == [("not_empty", True), ("usual_rows", True)]

    settled.cursors.clear()
    assert settled.tick("new_manifests").checked == ()


def test_the_checks_of_a_rejected_update_of_our_own_run_are_told_by_that_run(settled):
    run = create_run_for_test(settled.instance, status=dg.DagsterRunStatus.SUCCESS)
    audited(settled, passed=False, run_id=run.run_id)

    assert settled.tick("new_manifests").checked == ()


def test_clicks_of_the_next_day_put_a_day_behind_once(settled):
    settled.raw_bytes(NEXT_DAY, {"x": 1}, "clicks/shop_clicks")
    settled.process(NEXT_DAY, "clicks")

    assert settled.tick("new_manifests").asked == {DAY: ("ad_effectiveness",)}
    assert settled.tick("new_manifests").asked == {}
    settled.relate()
    assert settled.tick("new_manifests").asked == {}


def test_ads_of_a_neighbouring_day_put_a_day_behind_when_they_come_and_not_when_they_change(settled):
    settled.raw_bytes(NEXT_DAY, {"x": 1})
    settled.process(NEXT_DAY)
    assert settled.tick("new_manifests").asked == {DAY: ("ad_effectiveness",)}
    settled.relate()
    assert settled.tick("new_manifests").asked == {}

    settled.raw_bytes(NEXT_DAY, {"late": 1})
    settled.process(NEXT_DAY)

    assert settled.tick("new_manifests").asked == {}


def test_a_day_that_could_not_know_of_the_next_is_behind_once_that_has_come(desk):
    morning = desk.at(datetime(2019, 11, 25, 3, tzinfo=UTC))
    for kind in ("ads", "clicks"):
        morning.raw_bytes(DAY, {"x": 1}, f"{kind}/shop_{kind}")
        morning.process(DAY, kind)
    morning.make(EFFECTIVENESS, DAY, [FeedInput(each, DAY, morning.latest(each)) for each in (ADS, CLICKS)])
    assert morning.tick("new_manifests").asked == {}

    next_morning = desk.at(datetime(2019, 11, 26, 3, tzinfo=UTC))
    assert next_morning.tick("new_manifests").asked == {}
    next_morning.raw_bytes(NEXT_DAY, {"x": 1}, "clicks/shop_clicks")
    next_morning.process(NEXT_DAY, "clicks")

    assert next_morning.tick("new_manifests").asked == {DAY: ("ad_effectiveness",)}


def test_a_result_that_was_rejected_along_with_its_input_is_not_asked_for_again(settled):
    settled.process()
    settled.relate(good=False)

    assert settled.tick("new_manifests").asked == {}

    settled.process()
    assert settled.tick("new_manifests").asked == {DAY: ("ad_effectiveness",)}


def test_an_update_of_ours_that_was_lost_and_comes_back_is_told(desk):
    names = []
    for _ in range(2):
        run = create_run_for_test(desk.instance, status=dg.DagsterRunStatus.SUCCESS)
        names.append(desk.make(ADS, DAY, [], run_id=run.run_id))
        tags = {"dagster/data_version": names[-1]}
        desk.instance.report_runless_asset_event(dg.AssetMaterialization("clean_ads", partition=DAY, tags=tags))
    assert desk.tick("new_manifests").reported == []
    manifest = desk.base / ADS / DAY / names[1] / "_SUCCESS"
    content = manifest.read_text(encoding="utf-8")

    manifest.unlink()
    lost = desk.tick("new_manifests").reported
    manifest.write_text(content, encoding="utf-8")
    back = desk.tick("new_manifests").reported

    assert lost == [("clean_ads", DAY, names[0])]
    assert back == [("clean_ads", DAY, names[1])]
    assert desk.tick("new_manifests").reported == []


@pytest.mark.parametrize(
    ("location", "partition"),
    [(ADS, "backup"), (ADS, "2019-11-24-test"), (ADS, "2019-11-4"), (ADS, "9999-12-31"), (CATALOG, "2019-11-24")],
)
def test_an_update_in_what_is_no_partition_is_passed_over_and_holds_up_nothing(settled, tmp_path, location, partition):
    settled.publish(location, partition, {"part-0.parquet": "x"}, tmp_path / "odd")
    update = settled.process(kind="clicks")

    tick = settled.tick("new_manifests")

    assert tick.reported == [("clean_clicks", DAY, update)]
    assert tick.asked == {DAY: ("ad_effectiveness",)}


def test_a_feed_that_cannot_be_read_holds_up_no_other(settled):
    settled.mix(CATALOG)
    update = settled.process()

    tick = settled.tick("new_manifests")

    assert tick.reported == [("clean_ads", DAY, update)]
    assert tick.asked == {}


def with_more(desk, *assets):
    """The installation with these assets beside the project's."""
    return replace(desk, _definitions=dg.Definitions.merge(desk.definitions, dg.Definitions(assets=list(assets))))


BIDS = StructType([StructField("ad_id", StringType(), nullable=False)])


def test_a_day_made_of_hours_is_asked_for_when_all_of_them_are_there(desk, tmp_path):
    bids = dg.AssetSpec("bids", partitions_def=hourly(desk.settings), metadata=feed_metadata("bids/v1.0", BIDS))

    @dg.asset(
        ins={"bids": dg.AssetIn(input_manager_key="file_feed")},
        partitions_def=daily(desk.settings),
        io_manager_key="file_feed",
        metadata=feed_metadata("bids-by-day/v1.0", BIDS),
    )
    def bids_by_day(bids):
        return bids

    both = with_more(desk, bids, bids_by_day)
    for hour in range(23):
        both.publish("bids/v1.0", f"{DAY}-{hour:02}:00", {"part-0.csv": "ad_id\na\n"}, tmp_path / "hours")
    assert both.tick("new_manifests").asked == {}

    both.publish("bids/v1.0", f"{DAY}-23:00", {"part-0.csv": "ad_id\na\n"}, tmp_path / "hours")

    assert both.tick("new_manifests").asked == {DAY: ("bids_by_day",)}


def test_a_day_made_of_optional_hours_is_asked_for_when_one_of_them_is_there(desk, tmp_path):
    bids = dg.AssetSpec("bids", partitions_def=hourly(desk.settings), metadata=feed_metadata("bids/v1.0", BIDS))

    @dg.asset(
        ins={"bids": dg.AssetIn(input_manager_key="file_feed", metadata={OPTIONAL: True})},
        partitions_def=daily(desk.settings),
        io_manager_key="file_feed",
        metadata=feed_metadata("known-bids/v1.0", BIDS),
    )
    def known_bids(bids):
        return bids

    both = with_more(desk, bids, known_bids)
    assert both.tick("new_manifests").asked == {}

    both.publish("bids/v1.0", f"{DAY}-07:00", {"part-0.csv": "ad_id\na\n"}, tmp_path / "hours")

    assert both.tick("new_manifests").asked == {DAY: ("known_bids",)}


def test_named_partitions_made_of_all_days_that_there_are_follow_each_of_them(desk):
    regions = dg.StaticPartitionsDefinition(["eu", "us"])

    @dg.asset(
        ins={"clean_ads": dg.AssetIn(partition_mapping=dg.AllPartitionMapping())},
        partitions_def=regions,
        io_manager_key="file_feed",
        metadata=feed_metadata("by-region/v1.0", BIDS),
    )
    def by_region(clean_ads):
        return clean_ads

    both = with_more(desk, by_region)
    assert both.tick("new_manifests").asked == {}
    both.process()

    assert both.tick("new_manifests").asked == {"eu": ("by_region",), "us": ("by_region",)}
    for region in ("eu", "us"):
        both.make("by-region/v1.0", region, [FeedInput(ADS, DAY, both.latest(ADS))])
    assert both.tick("new_manifests").asked == {}

    both.process(NEXT_DAY)
    assert both.tick("new_manifests").asked == {"eu": ("by_region",), "us": ("by_region",)}


@pytest.mark.parametrize(
    ("partitions", "last_input", "partition"),
    [
        (dg.MonthlyPartitionsDefinition("2019-11-01"), "2019-11-30", "2019-11-01"),
        (dg.WeeklyPartitionsDefinition("2019-11-04", day_offset=1), "2019-12-01", "2019-11-25"),
        (dg.HourlyPartitionsDefinition("2019-11-30-00:00"), "2019-12-01-05:00", "2019-12-01-05:00"),
        (DAY_AND_REGION, "2019-11-30|eu", "2019-11-30|eu"),
    ],
    ids=["month", "week", "hour", "day and region"],
)
def test_a_partition_whose_last_input_came_before_it_was_over_runs_when_it_is(
    desk, tmp_path, partitions, last_input, partition
):
    """The partner's clock is ahead by some minutes, or the partner lives east of UTC."""
    alike = last_input == partition
    inputs = partitions if alike else dg.DailyPartitionsDefinition("2019-11-01")
    sent = dg.AssetSpec("sent", partitions_def=inputs, metadata=feed_metadata("sent/v1.0", BIDS))

    @dg.asset(
        ins={"sent": dg.AssetIn(metadata={OPTIONAL: True})},
        partitions_def=partitions,
        io_manager_key="file_feed",
        metadata=feed_metadata("summary/v1.0", BIDS),
    )
    def summary(sent):
        return sent

    _, end = window_of(partitions, partition)
    rarely = replace(desk, settings=replace(desk.settings, scan_seconds=3600))

    def asked(moment):
        with freeze_time(moment):
            return with_more(rarely.at(moment), sent, summary).tick("new_manifests").asked

    assert asked(end - timedelta(minutes=10)) == {}
    desk.publish("sent/v1.0", last_input, {"part-0": "x"}, tmp_path / "sent")
    assert asked(end - timedelta(minutes=5)) == {}

    assert asked(end + timedelta(minutes=5)) == {partition: ("summary",)}


def test_what_has_no_partitions_is_for_others_to_run_and_holds_up_nothing(desk):
    @dg.asset(
        ins={"clean_ads": dg.AssetIn(partition_mapping=dg.AllPartitionMapping())},
        io_manager_key="file_feed",
        metadata=feed_metadata("all-ads/v1.0", BIDS),
    )
    def all_ads(clean_ads):
        return clean_ads

    both = with_more(desk, all_ads)
    both.raw_bytes(DAY, {"x": 1})
    assert both.tick("late_growth").asked == {DAY: ("clean_ads",)}

    both.process()
    both.process(kind="clicks")

    assert both.tick("new_manifests").asked == {DAY: ("ad_effectiveness",)}


def test_a_day_whose_inputs_are_there_and_that_was_never_made_is_asked_for(desk):
    desk.process()
    assert desk.tick("new_manifests").asked == {}

    desk.process(kind="clicks")

    assert desk.tick("new_manifests").asked == {DAY: ("ad_effectiveness",)}


def test_a_rejected_result_is_not_asked_for_again_until_its_inputs_change(settled):
    settled.process()
    assert settled.tick("new_manifests").asked == {DAY: ("ad_effectiveness",)}
    settled.relate(good=False)
    assert settled.tick("new_manifests").asked == {}

    settled.process()

    assert settled.tick("new_manifests").asked == {DAY: ("ad_effectiveness",)}


def test_inputs_that_are_again_what_they_were_are_asked_for_under_a_run_key_of_their_own(desk):
    desk.process()
    desk.process(kind="clicks")
    first = desk.tick("new_manifests")
    desk.relate()
    name = desk.process()
    desk.tick("new_manifests")
    desk.relate()
    desk.tick("new_manifests")
    invalidate(desk.feed(ADS), DAY, name, reason="wrong", author="someone", now=desk.now)

    again = desk.tick("new_manifests")

    assert again.asked == first.asked == {DAY: ("ad_effectiveness",)}
    assert again.requests[0].run_key != first.requests[0].run_key


def test_nothing_is_asked_for_while_a_run_on_it_is_under_way_and_it_is_not_forgotten(settled):
    day = "2019-11-20"
    process(settled, day)
    settled.tick("new_manifests")
    run = create_run_for_test(
        settled.instance,
        status=dg.DagsterRunStatus.STARTED,
        tags={"dagster/partition": day},
        asset_selection=frozenset({dg.AssetKey("ad_effectiveness")}),
    )
    settled.process(day)

    assert settled.tick("new_manifests").asked == {}
    assert settled.tick("new_manifests").asked == {}
    settled.instance.report_run_canceled(run)
    assert settled.tick("new_manifests").asked == {day: ("ad_effectiveness",)}
    assert settled.tick("new_manifests").asked == {}


@pytest.mark.parametrize(
    "cursor",
    [
        "",
        "{",
        "[]",
        '{"feeds": 3, "requested": 4, "touched": 5}',
        '{"touched": [[1], "x"]}',
        json.dumps({"feeds": {CATALOG: '{"complete":true,"format":1,"partitions":{"":"20191124.100000"}}'}}),
    ],
)
def test_an_unreadable_cursor_starts_afresh_and_loses_nothing(settled, tmp_path, cursor):
    update = settled.publish(CATALOG, None, CATALOG_CSV, tmp_path / "catalog")
    settled.cursors["new_manifests"] = cursor

    tick = settled.tick("new_manifests")

    assert ("ad_catalog", None, update.name) in tick.reported
    assert tick.asked == {DAY: ("ad_effectiveness",)}


def test_a_damaged_cursor_of_one_feed_starts_that_feed_afresh(settled):
    content = json.loads(settled.cursors["new_manifests"])
    content["feeds"][ADS] = "damaged"
    settled.cursors["new_manifests"] = json.dumps(content)

    assert settled.tick("new_manifests").reported == []


def test_more_events_than_a_tick_reports_are_reported_by_the_next(desk, monkeypatch, tmp_path):
    monkeypatch.setattr(NEW_MANIFESTS, "MAX_EVENTS", 3)
    published = {
        (asset, day, desk.publish(location, day, {"part-0.parquet": "x"}, tmp_path / f"{asset}{day}").name)
        for asset, location in (("clean_ads", ADS), ("clean_clicks", CLICKS))
        for day in days(4)
    }

    reported = [desk.tick("new_manifests").reported for _ in range(5)]

    assert all(len(each) <= 3 for each in reported)
    assert [event for each in reported for event in each].__len__() == 8
    assert {event for each in reported for event in each} == published
    assert reported[-1] == []


def test_more_runs_than_a_tick_asks_for_are_asked_for_by_the_next(desk, monkeypatch):
    monkeypatch.setattr(REQUESTS, "MAX_REQUESTS", 3)
    for day in days(7):
        desk.process(day)
        desk.process(day, "clicks")

    asked = [list(desk.tick("new_manifests").asked) for _ in range(4)]

    assert asked == [days(7)[:3], days(7)[3:6], days(7)[6:], []]


def test_a_tick_that_storage_interrupts_has_put_nothing_on_record_as_requested(desk):
    for day in days(2):
        desk.process(day)
        desk.process(day, "clicks")

    def away():
        raise StoreError("the database is gone")

    with desk.store.writing():
        pass
    with pytest.raises(StoreError):
        before_state(desk, "reading", away).tick("new_manifests")

    assert list(desk.tick("new_manifests").asked) == days(2)


def test_a_tick_whose_time_is_up_before_anything_is_asked_for_asks_for_a_run_at_least(desk, monkeypatch):
    monkeypatch.setattr(NEW_MANIFESTS, "TICK_SECONDS", -1)
    for day in days(3):
        desk.process(day)
        desk.process(day, "clicks")

    asked = [list(desk.tick("new_manifests").asked) for _ in range(4)]

    assert asked == [*([day] for day in days(3)), []]


def test_a_tick_without_time_compares_one_feed_with_its_inputs_and_the_next_goes_on(desk, monkeypatch):
    def copy(name):
        @dg.asset(
            name=name,
            ins={"clean_ads": dg.AssetIn()},
            partitions_def=daily(desk.settings),
            io_manager_key="file_feed",
            metadata=feed_metadata(f"{name}/v1.0", BIDS),
        )
        def made(clean_ads):
            return clean_ads

        return made

    desk.process()
    monkeypatch.setattr(NEW_MANIFESTS, "TICK_SECONDS", -1)
    compared, cursors = [], {}
    for _ in range(6):
        recording = RecordingBlackboard(desk.board)
        both = with_more(using_board(replace(desk, cursors=cursors), recording), copy("one"), copy("two"))
        both.tick("new_manifests")
        listed = {each.key.partition("/.feed/records/")[0] for each in recording.requests if "/records/" in each.key}
        compared.append(listed & {"one/v1.0", "two/v1.0", EFFECTIVENESS})

    assert [len(each) for each in compared] == [1] * 6
    assert compared[:3] == compared[3:]
    assert set.union(*compared) == {"one/v1.0", "two/v1.0", EFFECTIVENESS}


def test_a_tick_that_runs_out_of_time_leaves_the_rest_to_the_next(settled, tmp_path, monkeypatch):
    monkeypatch.setattr(NEW_MANIFESTS, "TICK_SECONDS", -1)
    settled.publish(CATALOG, None, CATALOG_CSV, tmp_path / "catalog")

    reported = [event for _ in range(6) for event in settled.tick("new_manifests").reported]

    assert [asset for asset, _, _ in reported] == ["ad_catalog"]


@pytest.fixture
def scanned(desk):
    """A day that is up to date, a first scan behind it, and no other for an hour."""
    process(desk)
    rarely = replace(desk, settings=replace(desk.settings, scan_seconds=3600), _definitions=None)
    rarely.tick("new_manifests")
    return rarely


def by_hand(desk, location, day, name):
    """An update of a program that writes no change log."""
    for path, content in (("part-0", b"x"), ("_SUCCESS", b"1")):
        desk.board.create(f"{desk.feed(location).update_prefix(day, name)}{path}", content)
    return ("clean_ads", day, name)


def test_a_tick_without_news_lists_the_log_of_each_feed_and_no_partition_beyond_the_lookback(scanned):
    for day in days(4, date(2019, 11, 21)):
        process(scanned, day)
    scanned.tick("new_manifests")
    recording = RecordingBlackboard(scanned.board)
    tick = using_board(scanned, recording).tick("new_manifests")

    logs = [each.key for each in recording.requests if "/changes/" in each.key]
    assert sorted(logs) == sorted(f"{each}/.feed/changes/" for each in (ADS, CLICKS, EFFECTIVENESS, CATALOG, REPORTS))
    assert (tick.reported, tick.asked) == ([], {})
    assert len(tick.cursor) < 1_500


def test_what_the_log_names_is_told_at_once_and_what_it_lacks_when_a_scan_is_due(scanned):
    foreign = by_hand(scanned, ADS, NEXT_DAY, "20191201.100000")
    ours = ("clean_ads", DAY, scanned.process())

    assert scanned.tick("new_manifests").reported == [ours]

    content = json.loads(scanned.cursors["new_manifests"])
    for watch in content["feeds"].values():
        watch["scan"][0] = "2019-11-30T00:00:00+00:00"
    scanned.cursors["new_manifests"] = json.dumps(content)

    assert scanned.tick("new_manifests").reported == [foreign]
    assert scanned.tick("new_manifests").reported == []


def test_a_scan_that_gets_one_partition_a_tick_goes_on_and_delays_no_news(desk, monkeypatch):
    monkeypatch.setattr(NEW_MANIFESTS, "SCAN_SECONDS", -1)
    foreign = [by_hand(desk, ADS, day, "20191201.100000") for day in days(4)]
    rarely = replace(desk, settings=replace(desk.settings, scan_seconds=3600), _definitions=None)
    reported = [rarely.tick("new_manifests").reported for _ in range(2)]
    ours = ("clean_clicks", DAY, rarely.process(kind="clicks"))
    reported += [rarely.tick("new_manifests").reported for _ in range(6)]

    assert ours in reported[2]
    assert [event for each in reported for event in each if event != ours] == foreign
    assert all(len(set(each) - {ours}) <= 1 for each in reported)
    assert rarely.tick("new_manifests").reported == []


def test_two_instances_are_each_told_everything_once(desk):
    process(desk)
    both = [desk, replace(desk, instance=dg.DagsterInstance.ephemeral(), cursors={})]
    for each in both:
        each.tick("new_manifests")
    events = [("clean_ads", DAY, desk.process()), by_hand(desk, ADS, NEXT_DAY, "20191201.100000")]

    assert [sorted(each.tick("new_manifests").reported) for each in both] == [sorted(events)] * 2
    assert [each.tick("new_manifests").reported for each in both] == [[], []]


def staged_by_a_run(settled, status):
    """A run of this status, and the update that it has staged and told Dagster of."""
    run = create_run_for_test(settled.instance, status=status)
    claimed = claim(settled.feed(ADS), DAY, now=settled.now, owner="test")
    stage(claimed, (), Facts(run_id=run.run_id), now=settled.now)
    settled.instance.report_runless_asset_event(
        dg.AssetMaterialization("clean_ads", partition=DAY, tags={"dagster/data_version": claimed.name})
    )
    return run, claimed.name


def test_a_staged_update_is_no_loss_while_its_run_is_under_way_and_makes_way_when_it_has_ended(settled):
    before = settled.latest(ADS)
    run, _ = staged_by_a_run(settled, dg.DagsterRunStatus.STARTED)
    assert settled.tick("new_manifests").reported == []

    settled.instance.report_run_canceled(run)

    assert settled.tick("new_manifests").reported == [("clean_ads", DAY, before)]
    assert settled.tick("new_manifests").reported == []


def test_an_update_whose_run_was_terminated_before_its_checks_is_not_called_invalidated(settled):
    before = settled.latest(ADS)
    _, update = staged_by_a_run(settled, dg.DagsterRunStatus.CANCELED)

    (event,) = settled.tick("new_manifests").events

    assert event.description == (
        f"Update {update} was staged, and its run ended before its checks decided. Update {before} is in force."
    )
    assert "invalidated update" not in event.metadata


def test_what_is_touched_beyond_what_the_cursor_keeps_is_found_again_by_the_next_scan(desk, monkeypatch):
    monkeypatch.setattr(NEW_MANIFESTS, "MOST_TOUCHED", 2)
    monkeypatch.setattr(REQUESTS, "MAX_REQUESTS", 1)
    old = days(4, date(2019, 11, 23))
    for day in old:
        desk.process(day)
        desk.process(day, "clicks")

    asked = []
    for _ in range(12):
        for day in (asking := desk.tick("new_manifests").asked):
            desk.relate(day)
        asked += asking

    assert sorted(asked) == old


def test_storage_is_listed_once_and_what_is_unchanged_is_read_once(desk, monkeypatch):
    monkeypatch.setattr(MADE_FROM, "_READ", {})

    def requests(count):
        for day in days(count):
            process(desk, day)
        for manifest in desk.base.glob("*/*/*/*/_SUCCESS"):
            os.utime(manifest, (0, 0))  # the disk's clock has gone on: it has the same content as long as this time
        recording = RecordingBlackboard(desk.board)
        installation = using_board(desk, recording)
        installation.tick("new_manifests")
        first = recording.counts()
        recording.forget()
        assert installation.tick("new_manifests").asked == {}
        return first["page"], recording.counts()["page"], recording.counts()["read"]

    process(desk, days(1)[0])
    _, few, _ = requests(2)
    _, many, read = requests(7)

    assert few == many
    assert read == 0


def test_an_update_without_a_record_is_never_behind(settled, tmp_path):
    settled.publish(EFFECTIVENESS, DAY, {"part-0.parquet": "x"}, tmp_path / "others")
    settled.process()

    assert settled.tick("new_manifests").asked == {}


def test_a_damaged_record_holds_up_nothing_and_puts_nothing_behind(desk, tmp_path):
    for day in (DAY, NEXT_DAY):
        process(desk, day)
    desk.tick("new_manifests")
    (record,) = (desk.base / EFFECTIVENESS / ".feed/records" / DAY).iterdir()
    record.write_text("{", encoding="utf-8")
    desk.publish(CATALOG, None, CATALOG_CSV, tmp_path / "catalog")
    MADE_FROM._READ.clear()

    assert desk.tick("new_manifests").asked == {NEXT_DAY: ("ad_effectiveness",)}


def test_what_a_record_read_decides_and_not_what_dagster_remembers(settled):
    settled.make(EFFECTIVENESS, DAY, [FeedInput(ADS, DAY, "20190101.000000")])

    assert settled.tick("new_manifests").asked == {DAY: ("ad_effectiveness",)}
