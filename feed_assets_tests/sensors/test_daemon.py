"""The sensors as Dagster's own daemon evaluates them: run keys, cursors, and the runs that follow, for real."""

from __future__ import annotations

import pytest

from feed_assets.run_history.tables import executions_of
from feed_assets_tests.harness import ADS, DAY, EFFECTIVENESS, ads, click
from feed_assets_tests.sensors.daemon import Daemon


@pytest.fixture
def daemon(shop, tmp_path):
    home = tmp_path / "home"
    home.mkdir()
    daemon = Daemon(shop.settings, home)
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


def test_the_history_has_the_volume_that_the_run_of_an_asset_has_read(shop, daemon):
    shop.land(ads(20))
    shop.land_clicks([click("k1")])
    daemon.tick()
    daemon.tick()

    known = executions_of(shop.store, shop.board.uri(""))
    (cleaned,), (related,) = known["asset clean_ads"], known["asset ad_effectiveness"]
    raw = sum(path.stat().st_size for path in (shop.base / "raw/ads").rglob("*.parquet"))
    assert (cleaned.partition, cleaned.succeeded, cleaned.rows, cleaned.bytes) == (DAY, True, 20, raw)
    assert cleaned.wanted <= cleaned.started < cleaned.ended < related.ended
    # It reads feeds, no raw data: its volume is what it has published.
    assert related.bytes == sum(path.stat().st_size for path in shop.update_directory(EFFECTIVENESS).glob("*.parquet"))


def test_ticks_without_news_leave_no_files_in_the_dagster_home(shop, daemon, tmp_path):
    shop.land(ads(20))
    daemon.tick()
    daemon.tick()
    storage = tmp_path / "home/storage"
    before = {path for path in storage.rglob("*") if path.is_file()}

    daemon.tick()

    assert {path for path in storage.rglob("*") if path.is_file()} - before == set()


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
        assert daemon.tick() == []
        keys += [run.tags["dagster/run_key"] for run in runs]

    assert keys == [lost.run_key, *(f"{lost.run_key.removesuffix('1')}{number}" for number in (2, 3))]
    shop.an_hour_ago(ADS)
    assert daemon.tick() == []
