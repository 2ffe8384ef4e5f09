"""Small late data is swept once after its day has left the lookback, however long the sensors paused."""

from __future__ import annotations

from dataclasses import replace
from datetime import date, timedelta
from pathlib import Path

import pytest

from feed_assets.late_data.late_days import LateDays
from feed_assets.starts.requests import Requests
from feed_assets.state.address import sqlite_url
from feed_assets.state.store import Store
from feed_assets_tests.late_data.late_world import GB, World, at, source

DAY, NEXT = "2020-03-01", "2020-03-02"
SWEPT = "raw/.swept/clean-ads/v1.0.json"


def days(span: int) -> timedelta:
    return timedelta(days=span)


@pytest.fixture
def shop(tmp_path: Path) -> World:
    """A day of 100 GB that the sensors saw, and 1 GB that came late."""
    made = World(Store(sqlite_url(tmp_path / "state.db")), [source()], at(NEXT), date(2019, 1, 1))
    send(made, DAY, 100)
    made.process(DAY)
    made.tick()
    send(made, DAY, 1, "late")
    assert asked(made) == []
    return made


def send(to: World, day: str, gigabytes: int, name: str = "x") -> None:
    to.send(to.sources[0], day, name, gigabytes * GB)


def asked(of: World) -> list[str]:
    return [each.need.partition for each in of.tick()[1]]


@pytest.mark.parametrize("pause", [8, 11, 30, 400])
def test_sensors_that_come_back_sweep_what_left_the_lookback_meanwhile_and_once(shop: World, pause: int) -> None:
    shop.now += days(pause)

    assert asked(shop) == [DAY]

    shop.process(DAY)
    assert asked(shop) == []
    send(shop, DAY, 1, "later still")
    assert asked(shop) == []


def test_data_that_came_while_the_sensors_paused_is_swept_too_and_what_comes_after_the_sweep_is_not(
    shop: World,
) -> None:
    shop.process(DAY)
    shop.now += days(100)
    send(shop, DAY, 1, "in the pause")
    assert asked(shop) == [DAY]
    shop.process(DAY)
    shop.now += days(100)
    asked(shop)
    send(shop, DAY, 50, "after that")

    assert asked(shop) == []


def test_another_day_that_somebody_processed_in_the_pause_does_not_end_it(shop: World) -> None:
    shop.now += days(60)
    send(shop, "2020-04-20", 1)
    shop.process("2020-04-20")

    assert asked(shop) == [DAY]


def test_a_lost_state_database_and_a_lost_dagster_lose_no_sweep(shop: World, tmp_path: Path) -> None:
    shop.now += days(60)

    assert asked(replace(shop, store=Store(sqlite_url(tmp_path / "new.db")))) == [DAY]


def test_sensors_that_never_ran_before_begin_where_the_newest_update_was_begun(shop: World) -> None:
    shop.board.delete(SWEPT)
    shop.now += days(60)

    assert asked(shop) == [DAY]


def test_a_base_with_years_of_data_is_not_swept_as_a_whole_when_sensors_begin(shop: World) -> None:
    years = [str(date(2019, 3, 1) + days(30 * number)) for number in range(12)]
    for day in years:
        shop.now = at(day) + days(1)
        send(shop, day, 10)
        shop.process(day)
        send(shop, day, 1, "late, and left by earlier sensors")
    shop.now = at(NEXT) + days(1)
    shop.board.delete(SWEPT)
    shop.process(DAY)

    decisions, requests = shop.tick()

    assert (requests, {each.day for each in decisions} & set(years)) == ([], set())


def test_days_that_a_shorter_lookback_leaves_out_are_swept(shop: World) -> None:
    shop.now += days(4)
    assert asked(shop) == []

    assert asked(replace(shop, sources=[source(lookback=2)])) == [DAY]


def test_days_that_a_longer_lookback_takes_in_again_are_swept_when_they_leave_it_again(shop: World) -> None:
    shop.process(DAY)
    shop.now += days(15)
    assert asked(shop) == []
    longer = replace(shop, sources=[source(lookback=30)])
    assert asked(longer) == []
    send(longer, DAY, 1, "again")
    assert asked(longer) == []  # below the threshold

    longer.now += days(60)

    assert asked(longer) == [DAY]


def test_a_new_source_brings_no_sweep_of_its_history(shop: World) -> None:
    shop.now += days(20)
    assert asked(shop) == [DAY]
    shop.process(DAY)
    assert asked(shop) == []
    new = source("new")
    shop.send(new, DAY, "history", GB)

    assert asked(replace(shop, sources=[*shop.sources, new])) == []


def test_each_source_is_swept_when_it_leaves_its_own_lookback(tmp_path: Path) -> None:
    short, long = source("short", lookback=2), source("long", lookback=20)
    shop = World(Store(sqlite_url(tmp_path / "state.db")), [short, long], at(NEXT), date(2019, 1, 1))
    for each in shop.sources:
        shop.send(each, DAY, "x", 100 * GB)
    shop.process(DAY)
    asked(shop)
    shop.send(long, DAY, "late", GB)
    shop.now += days(8)
    assert asked(shop) == []

    shop.now += days(60)

    assert asked(shop) == [DAY]


def test_a_day_that_waits_for_its_run_is_looked_at_until_it_has_run(shop: World) -> None:
    shop.now += days(60)
    assert asked(shop) == [DAY]
    send(shop, DAY, 1, "meanwhile")
    shop.now += days(30)

    assert asked(shop) == [DAY]


def test_a_tick_that_is_cut_off_settles_no_day_that_it_did_not_reach(shop: World) -> None:
    send(shop, NEXT, 100)
    shop.now = at("2020-03-03")
    shop.process(NEXT)
    asked(shop)
    shop.process(DAY)
    send(shop, NEXT, 1, "late")
    shop.now += days(60)
    requests = Requests(shop.store, shop.board, shop.graph, shop.now, {}, lambda *_: False)
    late = LateDays(shop.sources, {"ads": "clean-ads/v1.0"}, requests)
    first = next(iter(late.decisions()))
    late.plan([first])
    late.settle([first], resume=NEXT)

    assert first.day == DAY
    assert asked(shop) == [NEXT]


def test_an_object_that_is_damaged_counts_as_missing_and_is_replaced(shop: World) -> None:
    shop.board.put(SWEPT, b"{")
    shop.now += days(60)

    assert asked(shop) == [DAY]
    assert b"settled" in shop.board.read(SWEPT).data


def test_ticks_with_nothing_new_write_nothing_and_look_no_further_back(shop: World) -> None:
    shop.process(DAY)
    shop.now += days(60)
    asked(shop)
    before = shop.board.read(SWEPT).entry

    assert shop.tick()[0] == []
    assert shop.board.read(SWEPT).entry == before
