"""The whole of it under a real `feed-assets dev`: loaded, backfilled from the UI's side, and driven by its sensors."""

from __future__ import annotations

import io

import psutil
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from feed_assets_tests.dev import FREQUENT_DAEMON, Dev
from feed_assets_tests.harness import ADS, ALL, DAY, EFFECTIVENESS, ads, click
from feed_assets_tests.listening import family, listening
from feed_assets_tests.waiting import HANGS

pytestmark = pytest.mark.slow

BACKFILLED = "2019-11-21"
"""Before the sources' lookback, so that no sensor asks for it."""


def clean_clicks() -> bytes:
    """A file of clean clicks as a run leaves it, with none in it."""
    texts = [(name, pa.string()) for name in ("click_id", "impression_id", "ad_id", "user_id", "source")]
    written = io.BytesIO()
    pq.write_table(pa.schema([*texts, ("event_time", pa.timestamp("us", "UTC"))]).empty_table(), written)
    return written.getvalue()


@pytest.fixture
def dev(desk, tmp_path):
    for day in (BACKFILLED, DAY):
        desk.land(ads(20, day))
        desk.land_clicks([click("k1", f"{day} 12:00:30")])
    # Only the backfill is to have something to do at first.
    desk.process(DAY)
    desk.process(DAY, "clicks", content=clean_clicks())
    desk.relate(DAY)
    environment = {
        "FEED_ASSETS_BASE": desk.settings.base,
        "FEED_ASSETS_FIRST_DAY": "2019-11-20",
        "FEED_ASSETS_AS_OF": "2019-12-01T00:00:00",
        "FEED_ASSETS_SOURCES": str(desk.settings.sources_directory),
        "FEED_ASSETS_SPARK_MASTER": "local[1]",
        "FEED_ASSETS_SENSOR_SECONDS": "5",
        "PYTHONPATH": str(FREQUENT_DAEMON),
    }
    dev = Dev(tmp_path / "home", environment)
    yield dev
    if dev.process.poll() is None:
        dev.stop()


LAUNCH = """
mutation($assets: [PartitionsByAssetSelector!]) {
  launchPartitionBackfill(backfillParams: {partitionsByAssets: $assets}) {
    __typename ... on LaunchBackfillSuccess { backfillId } ... on PythonError { message } } }
"""
BACKFILL = """
query($id: String!) { partitionBackfillOrError(backfillId: $id) { ... on PartitionBackfill { status } } }
"""
RUNS = """
query { runsOrError { ... on Runs { results { status tags { key value } assetSelection { path }
    eventConnection(limit: 100) { events { ... on MessageEvent { message } } } } } } }
"""
TICKS = """
{ repositoriesOrError { ... on RepositoryConnection { nodes { sensors {
    name sensorState { ticks(limit: 50) { status error { message } } } } } } } }
"""


def test_a_backfill_from_the_ui_and_a_late_file_end_in_published_updates(dev, desk):
    repository = dev.loaded()
    assets = {"/".join(node["assetKey"]["path"]) for node in repository["assetNodes"]}
    assert {*ALL, "ad_catalog", "late_data_reports", "raw/ads/shop_ads", "raw/clicks/shop_clicks"} == assets
    assert {each["name"]: each["sensorState"]["status"] for each in repository["sensors"]} == {
        "arrivals": "RUNNING",
        "landings": "RUNNING",
        "late_growth": "RUNNING",
        "late_reports": "RUNNING",
        "new_manifests": "RUNNING",
        "outside_lookback": "RUNNING",
        "remembered_ticks": "RUNNING",
        "run_history": "RUNNING",
    }

    # The file comes while the backfill is under way: both go their way.
    one_day = {"range": {"start": BACKFILLED, "end": BACKFILLED}}
    selection = [{"assetKey": {"path": [name]}, "partitions": one_day} for name in ALL]
    launched = dev.ask(LAUNCH, assets=selection)["launchPartitionBackfill"]
    assert launched["__typename"] == "LaunchBackfillSuccess", launched
    before = desk.latest(ADS, DAY)
    desk.land(ads(20, DAY, start=20), name="late")

    def backfilled():
        status = dev.ask(BACKFILL, id=launched["backfillId"])["partitionBackfillOrError"]["status"]
        assert status in {"REQUESTED", "COMPLETED_SUCCESS"}, dev.ask(RUNS)
        return status == "COMPLETED_SUCCESS"

    dev.until(backfilled, "finished backfill")
    assert len(desk.rows(ADS, BACKFILLED)) == 20
    assert sum(row["impressions"] for row in desk.rows(EFFECTIVENESS, BACKFILLED)) == 20

    dev.until(lambda: desk.latest(ADS, DAY) != before, "update of the late file")
    assert len(desk.rows(ADS, DAY)) == 40

    def sensor_runs():
        runs = dev.ask(RUNS)["runsOrError"]["results"]
        tags = [({each["key"]: each["value"] for each in run["tags"]}, run) for run in runs]
        mine = [(tag["dagster/partition"], run) for tag, run in tags if tag.get("dagster/sensor_name") == "late_growth"]
        return mine if mine and all(run["status"] in {"SUCCESS", "FAILURE"} for _, run in mine) else None

    ((day, run),) = dev.until(sensor_runs, "finished run of a sensor")
    assert (day, run["status"]) == (DAY, "SUCCESS")
    assert sorted(key["path"][-1] for key in run["assetSelection"]) == ["ad_effectiveness", "clean_ads"]
    for sensor in dev.ask(TICKS)["repositoriesOrError"]["nodes"][0]["sensors"]:
        ticks = sensor["sensorState"]["ticks"]
        assert ticks
        assert [tick["error"] for tick in ticks if tick["error"]] == []
    for run in dev.ask(RUNS)["runsOrError"]["results"]:
        messages = [event.get("message", "") for event in run["eventConnection"]["events"]]
        assert [message for message in messages if message.startswith("A worker takes the run")]

    processes = family(dev.process.pid)
    listened = listening(processes)
    assert {name for name, _ in listened} > {"java"}
    assert {where for _, where in listened} == {"loopback"}
    assert dev.stop() == 130
    assert psutil.wait_procs(processes, timeout=HANGS)[1] == []
