"""Ticks whose process is killed: the next ticks request each run once, and report each update once."""

from __future__ import annotations

import dagster as dg
import pytest

from feed_assets_tests.faults.killed_ticks import POINTS, QUEUE, kill_a_tick
from feed_assets_tests.harness import ADS, CLICKS, DAY, days
from feed_assets_tests.sensors.daemon import Daemon

pytestmark = pytest.mark.slow

LANDED = days(2)


@pytest.mark.parametrize("point", POINTS)
def test_after_a_killed_tick_each_run_is_requested_once_and_each_update_reported_once(desk, tmp_path, point):
    for day in LANDED:
        desk.raw_bytes(day, {"x": 100})
    others = [desk.process(DAY, "clicks"), desk.process("2019-11-25", "clicks")]
    home = tmp_path / "home"
    home.mkdir()

    kill_a_tick(desk.settings, home, point)

    daemon = Daemon(desk.settings, home, QUEUE)
    daemon.let_the_interval_pass()
    daemon.tick()
    for day in LANDED:
        desk.an_hour_ago(ADS, day)
    daemon.tick()
    runs = daemon.instance.get_runs()
    assert sorted(run.tags["dagster/partition"] for run in runs) == LANDED
    assert {run.status for run in runs} == {dg.DagsterRunStatus.QUEUED}
    events = daemon.instance.fetch_materializations(dg.AssetKey("clean_clicks"), limit=10).records
    assert sorted(each.asset_materialization.metadata["update"].value for each in events) == sorted(others)
    assert desk.latest(CLICKS) == others[0]
    daemon.instance.dispose()
