"""Requests that were recorded while a clock was wrong."""

from __future__ import annotations

from datetime import timedelta

import pytest

from feed_assets.starts.attempts import KnownRun
from feed_assets.state.address import sqlite_url
from feed_assets.state.store import Store
from feed_assets_tests.late_data.late_world import ADS, World, at, source

DAY = "2020-03-02"


@pytest.fixture
def world(tmp_path):
    shop = source()
    world = World(Store(sqlite_url(tmp_path / "state.db")), [shop], at("2020-03-04"), at(DAY).date())
    world.send(shop, DAY, "a", 100)
    return world


def fails(world):
    """The run of the day fails."""
    world.runs[world.alive.pop(DAY).request.recorded[ADS].key] = KnownRun.FAILED


def test_a_request_of_a_clock_that_was_a_day_ahead_is_repeated_ten_minutes_after_the_clock_is_right(world):
    right = world.now
    world.now = right + timedelta(days=1)
    _, [request] = world.tick()
    world.begin(request)
    fails(world)

    world.now = right
    assert world.tick()[1] == []
    world.now = right + timedelta(minutes=9)
    assert world.tick()[1] == []

    world.now = right + timedelta(minutes=11)
    assert [each.need.partition for each in world.tick()[1]] == [DAY]


def test_two_machines_whose_clocks_differ_by_five_minutes_do_not_put_a_repetition_off_for_ever(world):
    right = world.now
    _, [request] = world.tick()
    world.begin(request)
    fails(world)

    asked = []
    for minutes in range(1, 18):
        for ahead in (0, 5):
            world.now = right + timedelta(minutes=minutes + ahead - 5)
            for each in world.tick()[1]:
                asked.append(minutes + ahead - 5)
                world.begin(each)
    assert len(asked) == 1
    assert 5 <= asked[0] <= 15  # by as much as clocks differ, a pause may be shorter
