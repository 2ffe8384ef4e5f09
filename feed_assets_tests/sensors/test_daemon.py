"""The sensors as Dagster's own daemon evaluates them: run keys, cursors, and the runs that follow, for real."""

from __future__ import annotations

import logging
import sys
from pathlib import Path

import dagster as dg
import pytest
from dagster._core.instance.ref import InstanceRef
from dagster._core.remote_origin import InProcessCodeLocationOrigin
from dagster._core.types.loadable_target_origin import LoadableTargetOrigin
from dagster._core.workspace.context import WorkspaceProcessContext
from dagster._core.workspace.load_target import InProcessWorkspaceLoadTarget
from dagster._daemon.sensor import execute_sensor_iteration

from feed_assets.demo.daemon import IN_THIS_PROCESS
from feed_assets_tests.harness import ADS, AS_OF, DAY, EFFECTIVENESS, Installation, ads, click

LOADED = """\
from feed_assets.definitions import build_definitions
from feed_assets.resources import Settings

defs = build_definitions(Settings.from_environment({environment!r}))
"""


class Daemon:
    """An instance on disk and a code location, whose sensors are ticked and whose runs are executed in this process."""

    def __init__(self, shop: Installation, home: Path) -> None:
        self.instance = dg.DagsterInstance.from_ref(InstanceRef.from_dir(str(home), overrides=IN_THIS_PROCESS))
        environment = {
            "FEED_ASSETS_BASE": shop.settings.base,
            "FEED_ASSETS_FIRST_DAY": "2019-11-20",
            "FEED_ASSETS_AS_OF": AS_OF.isoformat(),
            "FEED_ASSETS_SOURCES": str(shop.settings.sources_directory),
            "FEED_ASSETS_SPARK_MASTER": "local[2]",
            # So that every iteration of a test is a tick.
            "FEED_ASSETS_SENSOR_SECONDS": "1",
        }
        path = home / "location.py"
        path.write_text(LOADED.format(environment=environment), encoding="utf-8")
        self.origin = InProcessCodeLocationOrigin(
            loadable_target_origin=LoadableTargetOrigin(executable_path=sys.executable, python_file=str(path)),
            location_name="shop",
        )

    def tick(self) -> list[dg.DagsterRun]:
        """Both sensors once; the runs they made, oldest first."""
        before = {run.run_id for run in self.instance.get_runs()}
        with WorkspaceProcessContext(self.instance, InProcessWorkspaceLoadTarget(self.origin)) as workspace:
            errors = [
                error
                for error in execute_sensor_iteration(workspace, logging.getLogger("daemon"), None, None)
                if error is not None
            ]
        assert errors == []
        self._let_the_interval_pass()
        return [run for run in reversed(self.instance.get_runs()) if run.run_id not in before]

    def _let_the_interval_pass(self) -> None:
        """Date the last ticks back, instead of waiting until the sensors are due again."""
        for state in self.instance.all_instigator_state():
            data = state.instigator_data
            if data is not None and data.last_tick_timestamp:
                earlier = data.last_tick_timestamp - 60
                changed = data._replace(last_tick_timestamp=earlier, last_tick_start_timestamp=earlier)
                self.instance.update_instigator_state(state.with_data(changed))

    def statuses(self) -> set[str]:
        """What the ticks came to."""
        return {
            tick.status.value
            for state in self.instance.all_instigator_state()
            for tick in self.instance.get_ticks(state.instigator_origin_id, state.selector_id)
        }


@pytest.fixture
def daemon(shop, tmp_path):
    home = tmp_path / "home"
    home.mkdir()
    daemon = Daemon(shop, home)
    yield daemon
    daemon.instance.dispose()


def what(runs):
    return [
        (
            run.tags["dagster/partition"],
            tuple(sorted(key.to_user_string() for key in run.asset_selection)),
            run.status.value,
        )
        for run in runs
    ]


EVERYTHING = ("ad_effectiveness", "clean_ads", "clean_clicks")


def test_a_day_that_lands_is_processed_by_one_run_and_then_there_is_peace(shop, daemon):
    shop.land(ads(20))
    shop.land_clicks([click("k1")])

    assert what(daemon.tick()) == [(DAY, EVERYTHING, "SUCCESS")]
    assert len(shop.rows(ADS)) == 20

    assert [daemon.tick(), daemon.tick()] == [[], []]
    assert "FAILURE" not in daemon.statuses()


def test_a_late_file_runs_its_day_again_and_going_back_runs_it_once_more(shop, daemon):
    shop.land(ads(20))
    shop.land_clicks([click("k1")])
    daemon.tick()
    shop.land(ads(20, start=20), name="late")
    late = ("ad_effectiveness", "clean_ads")

    assert what(daemon.tick()) == [(DAY, late, "SUCCESS")]
    assert sum(row["impressions"] for row in shop.rows(EFFECTIVENESS)) == 40
    assert daemon.tick() == []

    (shop.base / "raw/ads/shop_ads" / DAY / "12/late.parquet").unlink()
    assert what(daemon.tick()) == [(DAY, late, "SUCCESS")]
    assert len(shop.rows(ADS)) == 20


def test_a_day_that_its_checks_reject_is_run_once_and_not_again_and_again(shop, daemon):
    shop.land([*ads(3), *(row | {"id": f"bad-{row['id']}", "cost": "?"} for row in ads(3))])

    assert what(daemon.tick()) == [(DAY, ("clean_ads",), "FAILURE")]
    assert [daemon.tick(), daemon.tick()] == [[], []]
    assert shop.record(ADS).state == "rejected"


def test_a_request_counts_as_a_try_once_dagster_has_a_run_of_it(shop, daemon):
    shop.raw_bytes(DAY, {"no parquet": 100})
    (lost,) = shop.tick("late_growth").requests
    assert daemon.tick() == []

    keys = []
    for _ in range(3):
        shop.an_hour_ago(ADS)
        runs = daemon.tick()
        assert what(runs) == [(DAY, ("clean_ads",), "FAILURE")]
        keys += [run.tags["dagster/run_key"] for run in runs]

    assert keys == [lost.run_key, lost.run_key.replace("#1", "#2"), lost.run_key.replace("#1", "#3")]
    shop.an_hour_ago(ADS)
    assert daemon.tick() == []
