"""The sensor for late data: which days it asks for, once for each state of the input, and what it costs."""

from __future__ import annotations

import os
import shutil
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from importlib import import_module

import dagster as dg
import pytest
from dagster._core.storage.runs import SqlRunStorage
from dagster._core.test_utils import create_run_for_test
from dagster._core.utils import make_new_run_id
from sqlalchemy import event
from sqlalchemy.engine import Engine

from feed_assets.file_feed import Facts, claim, invalidate, stage
from feed_assets.sources.raw import read_set
from feed_assets.starts.attempts import LOG
from feed_assets.state.address import StoreError
from feed_assets_tests.blackboard.recording import RecordingBlackboard
from feed_assets_tests.harness import (
    ADS,
    AS_OF,
    CLICKS,
    DAY,
    NEXT_DAY,
    SHOP_ADS,
    before_state,
    days,
    using_board,
    write_sources,
)

LATE_GROWTH = import_module("feed_assets.sensors.late_growth")
REQUESTS = import_module("feed_assets.starts.requests")
INPUTS_READ = import_module("feed_assets.late_data.inputs_read")


@pytest.fixture
def processed(desk):
    """A day with 1,000 bytes of ads, processed, and a first tick behind it."""
    desk.raw_bytes(DAY, {"x": 1000})
    desk.process()
    assert desk.tick("late_growth").asked == {}
    return desk


def path(desk, name="x", day=DAY, source="ads/shop_ads"):
    return desk.base / "raw" / source / day / "12" / f"{name}.parquet"


def test_a_day_that_was_never_processed_is_asked_for(desk):
    desk.raw_bytes(DAY, {"x": 1})

    tick = desk.tick("late_growth")

    assert tick.asked == {DAY: ("clean_ads",)}
    assert "never processed" in tick.requests[0].tags["feed_assets/why"]


def test_a_day_of_ads_and_clicks_that_was_never_processed_is_one_run_of_all_that_is_made_of_them(desk):
    desk.raw_bytes(DAY, {"x": 1})
    desk.raw_bytes(DAY, {"x": 1}, "clicks/shop_clicks")

    assert desk.tick("late_growth").asked == {DAY: ("ad_effectiveness", "clean_ads", "clean_clicks")}


def test_exactly_the_threshold_is_enough(processed):
    processed.raw_bytes(DAY, {"late": 50})

    assert processed.tick("late_growth").asked == {DAY: ("clean_ads",)}


def test_a_byte_less_than_the_threshold_is_not(processed):
    processed.raw_bytes(DAY, {"late": 49})

    tick = processed.tick("late_growth")

    assert tick.asked == {}
    assert "1 below threshold" in tick.skipped


def test_growth_that_drips_in_adds_up_against_what_was_read(processed):
    processed.raw_bytes(DAY, {"first": 40})
    assert processed.tick("late_growth").asked == {}

    processed.raw_bytes(DAY, {"second": 40})

    assert processed.tick("late_growth").asked == {DAY: ("clean_ads",)}


def test_a_file_replaced_by_one_of_equal_size_is_asked_for(processed):
    path(processed).unlink()
    path(processed).write_bytes(b"y" * 1000)

    tick = processed.tick("late_growth")

    assert tick.asked == {DAY: ("clean_ads",)}
    assert "replaced" in tick.requests[0].tags["feed_assets/why"]


def test_a_file_replaced_by_one_of_equal_content_is_not(processed):
    path(processed).unlink()
    processed.raw_bytes(DAY, {"x": 1000})

    assert processed.tick("late_growth").asked == {}


def test_a_deleted_file_is_asked_for(processed):
    processed.raw_bytes(DAY, {"more": 50})
    processed.process()
    path(processed, "more").unlink()

    tick = processed.tick("late_growth")

    assert tick.asked == {DAY: ("clean_ads",)}
    assert "shrunk" in tick.requests[0].tags["feed_assets/why"]


def test_a_day_whose_files_all_vanished_is_left_as_it_is(processed):
    path(processed).unlink()

    tick = processed.tick("late_growth")

    assert tick.asked == {}
    assert "1 vanished" in tick.skipped


def test_late_clicks_run_clicks_and_effectiveness_again_and_not_ads(processed):
    processed.raw_bytes(DAY, {"x": 100}, "clicks/shop_clicks")
    processed.process(kind="clicks")
    processed.raw_bytes(DAY, {"late": 10}, "clicks/shop_clicks")

    assert processed.tick("late_growth").asked == {DAY: ("ad_effectiveness", "clean_clicks")}


def test_effectiveness_does_not_run_along_where_its_other_input_is_missing(desk):
    desk.raw_bytes(DAY, {"x": 100}, "clicks/shop_clicks")

    assert desk.tick("late_growth").asked == {DAY: ("clean_clicks",)}


def test_only_the_days_that_grew_are_asked_for(processed):
    for day in days(7):
        processed.raw_bytes(day, {"x": 1000})
        processed.process(day)
    processed.raw_bytes("2019-11-27", {"late": 100})

    assert list(processed.tick("late_growth").asked) == ["2019-11-27"]


def test_one_state_of_the_input_is_asked_for_once(processed):
    processed.raw_bytes(DAY, {"late": 50})

    assert processed.tick("late_growth").asked
    tick = processed.tick("late_growth")

    assert tick.asked == {}
    assert "1 already requested for their present state" in tick.skipped


def test_it_is_asked_for_again_when_it_changes_again(processed):
    processed.raw_bytes(DAY, {"late": 50})
    first = processed.tick("late_growth")
    processed.raw_bytes(DAY, {"later": 1})

    second = processed.tick("late_growth")

    assert second.asked == first.asked
    assert second.requests[0].run_key != first.requests[0].run_key


def test_a_run_that_was_rejected_is_not_asked_for_again_until_the_input_changes(processed):
    processed.raw_bytes(DAY, {"late": 50})
    assert processed.tick("late_growth").asked
    processed.process(good=False)

    assert processed.tick("late_growth").asked == {}

    processed.raw_bytes(DAY, {"mended": 1})
    assert processed.tick("late_growth").asked == {DAY: ("clean_ads",)}


def test_an_input_that_is_again_what_it_was_is_asked_for_under_a_run_key_of_its_own(desk):
    desk.raw_bytes(DAY, {"x": 1000})
    first = desk.tick("late_growth")
    desk.process()
    desk.raw_bytes(DAY, {"late": 500})
    desk.tick("late_growth")
    desk.process()
    path(desk, "late").unlink()

    again = desk.tick("late_growth")

    assert again.asked == first.asked
    assert again.requests[0].run_key != first.requests[0].run_key


def test_an_update_that_was_invalidated_moves_no_baseline(processed):
    processed.raw_bytes(DAY, {"late": 50})
    name = processed.process()
    assert processed.tick("late_growth").asked == {}
    invalidate(processed.feed(ADS), DAY, name, reason="wrong", author="someone", now=processed.now)

    processed.raw_bytes(DAY, {"later": 1})
    tick = processed.tick("late_growth")

    assert tick.asked == {DAY: ("clean_ads",)}
    assert "1,000 -> 1,051 bytes" in tick.requests[0].tags["feed_assets/why"]


def test_what_a_person_invalidated_is_not_made_once_more_from_the_same_input(processed):
    processed.raw_bytes(DAY, {"late": 50})
    name = processed.process()
    invalidate(processed.feed(ADS), DAY, name, reason="wrong", author="someone", now=processed.now)

    tick = processed.tick("late_growth")

    assert tick.asked == {}
    assert "1 already tried in their present state" in tick.skipped


def test_a_day_before_the_first_partition_holds_up_no_other(desk):
    morning = desk.at(datetime(2019, 11, 23, 3, tzinfo=UTC))
    morning.raw_bytes("2019-11-19", {"x": 1})
    morning.raw_bytes("2019-11-21", {"x": 1})

    tick = morning.tick("late_growth")

    assert tick.asked == {"2019-11-21": ("clean_ads",)}
    morning.process("2019-11-21")
    assert "clean_ads has no partition 2019-11-19" in morning.tick("late_growth").skipped


def test_a_name_that_is_no_day_holds_up_nothing(processed, tmp_path):
    processed.publish(ADS, "2019-11-25-test", {"part-0.parquet": "x"}, tmp_path / "others")
    processed.raw_bytes(DAY, {"late": 50})

    assert processed.tick("late_growth").asked == {DAY: ("clean_ads",)}


def test_a_feed_that_cannot_be_read_holds_up_no_other(desk):
    desk.mix(CLICKS)
    desk.raw_bytes(DAY, {"x": 1})
    desk.raw_bytes(DAY, {"x": 1}, "clicks/shop_clicks")

    assert desk.tick("late_growth").asked == {DAY: ("clean_ads",)}


def test_a_new_source_that_has_sent_nothing_yet_reads_no_record(desk):
    for day in days(3):
        desk.raw_bytes(day, {"x": 1000})
        desk.process(day)
    write_sources(desk.settings.sources_directory / "more", SHOP_ADS.replace("shop_ads", "new_ads"))
    (desk.settings.sources_directory / "more/0.yaml").rename(desk.settings.sources_directory / "new.yaml")
    recording = RecordingBlackboard(desk.board)

    assert using_board(desk, recording).tick("late_growth").asked == {}
    assert [each.key for each in recording.requests if each.operation == "read" and "/.feed/" in each.key] == []


def test_a_day_whose_record_is_damaged_is_processed_again_when_it_changes_and_holds_up_no_other(processed):
    (record,) = (processed.base / ADS / ".feed/records" / DAY).iterdir()
    record.write_text("{", encoding="utf-8")
    processed.raw_bytes(NEXT_DAY, {"x": 1})
    assert processed.tick("late_growth").asked == {NEXT_DAY: ("clean_ads",)}

    processed.raw_bytes(DAY, {"tiny": 1})

    assert processed.tick("late_growth").asked == {DAY: ("clean_ads",)}


@pytest.mark.parametrize("selection", [frozenset({dg.AssetKey("clean_ads")}), None], ids=["these assets", "everything"])
def test_nothing_is_asked_for_while_a_run_on_it_is_under_way(processed, selection):
    processed.raw_bytes(DAY, {"late": 50})
    run = create_run_for_test(
        processed.instance,
        status=dg.DagsterRunStatus.STARTED,
        tags={"dagster/partition": DAY},
        asset_selection=selection,
    )

    tick = processed.tick("late_growth")
    assert tick.asked == {}
    assert "a run on it is under way" in tick.skipped

    processed.instance.report_run_canceled(run)
    assert processed.tick("late_growth").asked == {DAY: ("clean_ads",)}


def test_a_run_under_way_on_a_range_counts_for_each_of_its_days(processed):
    processed.raw_bytes(DAY, {"late": 50})
    create_run_for_test(
        processed.instance,
        status=dg.DagsterRunStatus.STARTED,
        tags={"dagster/asset_partition_range_start": "2019-11-22", "dagster/asset_partition_range_end": NEXT_DAY},
        asset_selection=frozenset({dg.AssetKey("clean_ads")}),
    )

    assert processed.tick("late_growth").asked == {}


def test_a_run_under_way_on_another_day_or_another_asset_does_not_matter(processed):
    processed.raw_bytes(DAY, {"late": 50})
    for day, asset in ((NEXT_DAY, "clean_ads"), (DAY, "clean_clicks")):
        create_run_for_test(
            processed.instance,
            status=dg.DagsterRunStatus.STARTED,
            tags={"dagster/partition": day},
            asset_selection=frozenset({dg.AssetKey(asset)}),
        )

    assert processed.tick("late_growth").asked == {DAY: ("clean_ads",)}


def test_today_is_still_being_written_and_days_before_the_lookback_are_settled(desk):
    for day in ("2019-12-01", "2019-11-30", "2019-11-24", "2019-11-23"):
        desk.raw_bytes(day, {"x": 1})

    assert list(desk.tick("late_growth").asked) == ["2019-11-24", "2019-11-30"]


@pytest.mark.parametrize(
    "cursor", ["", "{", "[1]", "17", '{"resume": 3}', '{"resume": "clicks@2019-11-29"}', '{"requested": {"a": 1}}']
)
def test_an_unreadable_cursor_starts_afresh(processed, cursor):
    processed.raw_bytes(DAY, {"late": 50})
    processed.cursors["late_growth"] = cursor

    assert processed.tick("late_growth").asked == {DAY: ("clean_ads",)}


def test_more_days_than_a_tick_asks_for_are_asked_for_in_the_next(desk, monkeypatch):
    monkeypatch.setattr(REQUESTS, "MAX_REQUESTS", 3)
    for day in days(7):
        desk.raw_bytes(day, {"x": 1})

    asked = [list(desk.tick("late_growth").asked) for _ in range(4)]

    assert asked == [days(7)[:3], days(7)[3:6], days(7)[6:], []]


def test_a_tick_that_runs_out_of_time_is_continued_by_the_next_and_asks_for_nothing_twice(desk, monkeypatch):
    monkeypatch.setattr(LATE_GROWTH, "TICK_SECONDS", -1)
    for day in days(3):
        desk.raw_bytes(day, {"x": 1})
        desk.raw_bytes(day, {"x": 1}, "clicks/shop_clicks")

    asked = [desk.tick("late_growth").asked for _ in range(6)]

    everything = ("ad_effectiveness", "clean_ads", "clean_clicks")
    assert asked == [*({day: everything} for day in days(3)), {}, {}, {}]


def test_two_ticks_at_once_ask_once(processed):
    processed.raw_bytes(DAY, {"late": 50})
    other = []

    def tick_meanwhile():
        if not other:
            other.append(processed.tick("late_growth").asked)

    tick = before_state(processed, "writing", tick_meanwhile).tick("late_growth")

    assert other == [{DAY: ("clean_ads",)}]
    assert tick.asked == {}
    assert "another tick has just requested it" in tick.skipped


def test_a_request_without_a_result_is_repeated_twice_after_growing_pauses(processed):
    processed.raw_bytes(DAY, {"late": 50})
    asked = []
    for minutes in (0, 1, 10, 11, 12, 31, 32, 600, 900):
        tick = processed.at(AS_OF + timedelta(minutes=minutes)).tick("late_growth")
        processed.fail(tick)
        asked += [(minutes, request.run_key) for request in tick.requests]

    assert [minutes for minutes, _ in asked] == [0, 11, 32]
    assert len({run_key for _, run_key in asked}) == 3
    assert "3 times" in tick.skipped
    assert "came to no result" in tick.skipped


def test_while_the_last_run_of_a_request_is_under_way_nobody_is_told_to_compute_the_day_beside_it(processed):
    processed.raw_bytes(DAY, {"late": 50})
    for minutes in (0, 1, 11, 12):
        processed.fail(processed.at(AS_OF + timedelta(minutes=minutes)).tick("late_growth"))
    last = processed.at(AS_OF + timedelta(minutes=32)).tick("late_growth")
    assert last.asked
    processed.fail(last, dg.DagsterRunStatus.STARTED)

    tick = processed.at(AS_OF + timedelta(hours=10)).tick("late_growth")

    assert tick.asked == {}
    assert "came to no result" not in tick.skipped


def test_a_request_that_never_became_a_run_is_repeated_under_its_run_key_and_does_not_count(processed):
    processed.raw_bytes(DAY, {"late": 50})
    ticks = {
        minutes: processed.at(AS_OF + timedelta(minutes=minutes)).tick("late_growth")
        for minutes in (0, 9, 11, 20, 22, 33, 44)
    }

    assert [minutes for minutes, tick in ticks.items() if tick.requests] == [0, 11, 22, 33, 44]
    assert len({request.run_key for tick in ticks.values() for request in tick.requests}) == 1

    processed.fail(ticks[44])
    assert processed.at(AS_OF + timedelta(minutes=45)).tick("late_growth").requests == ()
    after_a_failure = processed.at(AS_OF + timedelta(minutes=56)).tick("late_growth")
    assert after_a_failure.requests[0].run_key.endswith(":2")


def test_a_long_run_of_one_dagster_is_not_repeated_by_another_one_while_its_sensors_tick(processed):
    processed.raw_bytes(DAY, {"late": 1000})
    with dg.DagsterInstance.ephemeral() as instance:
        other = replace(processed, instance=instance, cursors={}, _definitions=None)
        processed.fail(processed.tick("late_growth"), dg.DagsterRunStatus.STARTED)
        (run,) = processed.instance.get_runs()

        def asked(minutes):
            later = [each.at(AS_OF + timedelta(minutes=minutes)) for each in (processed, other)]
            return [each.tick("late_growth").asked for each in later]

        for minutes in range(1, 60, 3):
            assert asked(minutes) == [{}, {}]
        processed.instance.report_run_failed(run)
        assert asked(60) == [{}, {}]

        assert len(other.at(AS_OF + timedelta(minutes=70)).tick("late_growth").asked) == 1


def test_of_a_day_of_many_files_a_tick_reads_totals_and_the_files_once_for_each_small_change(desk):
    desk.raw_bytes(DAY, {f"f{number:03}": 100 for number in range(150)})
    desk.process()
    board = RecordingBlackboard(desk.board)
    watched = using_board(desk, board)

    def tick():
        board.forget()
        asked = watched.tick("late_growth").asked
        return bool(asked), sum("/read-sets/" in request.key for request in board.requests)

    assert tick() == (False, 0)
    desk.raw_bytes(DAY, {"late": 100})
    assert [tick(), tick()] == [(False, 1), (False, 0)]
    desk.raw_bytes(DAY, {"f000": 101})
    assert tick() == (True, 1)
    desk.process()
    desk.raw_bytes(DAY, {"later": 2000})
    assert tick() == (True, 0)


def test_what_a_tick_asks_of_dagsters_database_does_not_grow_with_its_history(processed, monkeypatch):
    queries, rows = [], []
    fetch = SqlRunStorage.fetchall

    def count_rows(storage, query):
        found = fetch(storage, query)
        rows.append(len(found))
        return found

    def count_queries(_connection, _cursor, statement, *_):
        queries.append(statement)

    monkeypatch.setattr(SqlRunStorage, "fetchall", count_rows)
    processed.raw_bytes(DAY, {"late": 50})
    processed.fail(processed.tick("late_growth"), dg.DagsterRunStatus.STARTED)
    costs = []
    for finished in (10, 990):
        for _ in range(finished):
            run = dg.DagsterRun("daily", make_new_run_id(), status=dg.DagsterRunStatus.SUCCESS)
            processed.instance.add_run(run.with_tags({"dagster/partition": DAY, "dagster/run_key": "late_growth:x"}))
        queries.clear()
        rows.clear()
        event.listen(Engine, "before_cursor_execute", count_queries)
        tick = processed.at(AS_OF + timedelta(minutes=2)).tick("late_growth")
        event.remove(Engine, "before_cursor_execute", count_queries)
        costs.append((len(queries), list(rows)))

    assert "already requested for their present state" in tick.skipped  # it has looked for the run
    assert costs[0] == costs[1]
    assert sum(costs[1][1]) == 2  # that run: it is not dead, and under way


def test_a_tick_that_can_put_no_request_on_record_fails_and_the_next_one_asks(desk):
    for day in days(3):
        desk.raw_bytes(day, {"x": 1})

    def away():
        raise StoreError("the database is gone")

    with pytest.raises(StoreError):
        before_state(desk, "writing", away).tick("late_growth")

    assert list(desk.tick("late_growth").asked) == days(3)


def test_all_requests_of_a_tick_are_looked_up_at_once_and_put_on_record_at_once(desk):
    seen = []
    for operation in ("writing", "reading"):  # there is nothing to read before the first tick has written
        for day in days(7):
            desk.raw_bytes(day, {operation: 1})
            desk.raw_bytes(day, {operation: 1}, "clicks/shop_clicks")
        tick = before_state(desk, operation, lambda operation=operation: seen.append(operation)).tick("late_growth")
        assert list(tick.asked) == days(7)

    assert seen == ["writing", "reading", "reading"]  # those that are alive, and the newest
    asked = {(event.details["flow"], event.details["slot"]) for event in desk.store.events(log=LOG)}
    assert asked >= {(location, day) for location in (ADS, CLICKS) for day in days(7)}


def test_a_tick_that_has_nothing_to_ask_makes_no_database(processed):
    assert processed.tick("late_growth").asked == {}

    assert not processed.store.exists()


def test_what_was_asked_for_is_known_after_dagsters_database_is_lost(processed):
    processed.raw_bytes(DAY, {"late": 50})
    assert processed.tick("late_growth").asked

    processed.cursors.clear()

    assert processed.tick("late_growth").asked == {}


def test_a_state_database_that_is_lost_costs_one_request_more_and_repeats_no_run_key(processed):
    processed.raw_bytes(DAY, {"late": 50})
    first = processed.tick("late_growth")
    shutil.rmtree(processed.base / ".state")

    again = processed.tick("late_growth")

    (one,), (other,) = first.requests, again.requests
    assert one.run_key != other.run_key
    assert processed.tick("late_growth").asked == {}


def test_an_update_whose_run_stopped_before_it_was_visible_is_asked_for_again(processed):
    processed.raw_bytes(DAY, {"late": 50})
    assert processed.tick("late_growth").asked
    read = read_set(processed.board, "ads/shop_ads", date.fromisoformat(DAY))
    claimed = claim(processed.feed(ADS), DAY, now=processed.now, owner="test")
    stage(claimed, (), Facts(inputs=(read,)), now=processed.now)

    later = processed.at(AS_OF + timedelta(minutes=11))

    assert later.tick("late_growth").asked == {DAY: ("clean_ads",)}


def listings(desk, count):
    long = desk.at(desk.now)
    for day in days(count):
        long.raw_bytes(day, {"x": 1000})
        long.process(day)
    recording = RecordingBlackboard(long.board)
    assert using_board(long, recording).tick("late_growth").asked == {}
    return recording.counts()


def test_storage_is_listed_once_and_not_once_a_day(desk, tmp_path):
    few = listings(desk, 2)

    many = listings(desk, 7)

    assert few["page"] == many["page"]
    assert many["page"] <= 11  # also of the clicks, none of which has landed


def test_days_that_are_due_cost_no_listing_each(desk):
    def pages(these):
        for day in these:
            desk.raw_bytes(day, {"x": 1})
            desk.raw_bytes(day, {"x": 1}, "clicks/shop_clicks")
        recording = RecordingBlackboard(desk.board)
        assert len(using_board(desk, recording).tick("late_growth").requests) == len(these)
        return recording.counts()["page"]

    assert pages(days(7)[:1]) == pages(days(7)[1:])


def test_late_clicks_of_days_that_are_due_cost_no_listing_each(desk):
    def pages(these):
        for day in these:
            desk.process(day)
            desk.raw_bytes(day, {"x": 1}, "clicks/shop_clicks")
        recording = RecordingBlackboard(desk.board)
        asked = using_board(desk, recording).tick("late_growth").asked
        assert set(asked) == set(these)
        # A day that reads the next day's clicks waits for these; the last one does not.
        assert asked[these[-1]] == ("ad_effectiveness", "clean_clicks")
        assert {asked[day] for day in these[:-1]} <= {("clean_clicks",)}
        return recording.counts()["page"]

    assert pages(days(7)[:1]) == pages(days(7)[1:])
    assert desk.latest(CLICKS) is None


@pytest.mark.parametrize("sensor", ["late_growth", "new_manifests"])
def test_days_whose_newest_update_was_rejected_cost_nothing_once_that_is_known(desk, monkeypatch, sensor):
    monkeypatch.setattr(INPUTS_READ, "_DECIDED", {})

    def requests(these):
        for day in these:
            desk.raw_bytes(day, {"x": 1000})
            desk.raw_bytes(day, {"x": 1}, "clicks/shop_clicks")
            desk.process(day)
            desk.process(day, "clicks")
            desk.relate(day)
            desk.raw_bytes(day, {"late": 1000})
            desk.process(day, good=False)
            desk.process(day, "clicks")
            desk.relate(day, good=False)
        for manifest in desk.base.glob("*/*/*/*/_SUCCESS"):
            os.utime(manifest, (0, 0))  # a manifest that is older than the disk's tick is read once
        recording = RecordingBlackboard(desk.board)
        installation = using_board(desk, recording)
        for _ in range(2):
            installation.tick(sensor)
        recording.forget()
        assert installation.tick(sensor).asked == {}
        return recording.counts()

    assert requests(days(7)[:2]) == requests(days(7))
