"""The whole of it under a real `dagster dev`: loaded, backfilled from the UI's side, and driven by its sensors."""

from __future__ import annotations

import contextlib
import io
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from feed_assets_tests.harness import ADS, ALL, DAY, EFFECTIVENESS, ads, click
from feed_assets_tests.listening import family, listening

ROOT = Path(__file__).parents[2]
BACKFILLED = "2019-11-21"
"""Before the sources' lookback, so that no sensor asks for it."""

Answer = TypeVar("Answer")


class DagsterDev:
    """A `dagster dev` with its own state, in a process group of its own."""

    def __init__(self, home: Path, environment: dict[str, str]) -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self.log = home / "dev.log"
        self.listened: set[tuple[str, str]] = set()
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "dagster", "dev", "--host", "127.0.0.1", "--port", str(self.port)],
                cwd=ROOT,
                env={**os.environ, **environment, "DAGSTER_HOME": str(home)},
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def ask(self, query: str, **variables: Any) -> Any:
        """The answer to a GraphQL query, as the UI asks it."""
        body = json.dumps({"query": query, "variables": variables}).encode()
        request = urllib.request.Request(
            f"http://127.0.0.1:{self.port}/graphql", body, {"Content-Type": "application/json"}
        )
        with urllib.request.urlopen(request, timeout=30) as response:
            answer = json.load(response)
        assert "errors" not in answer, answer
        return answer["data"]

    def until(self, look: Callable[[], Answer], what: str, seconds: float) -> Answer:
        """The first answer that says something. Fails with the log's end where there is none in time."""
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            assert self.process.poll() is None, self.log.read_text()[-3000:]
            self.listened |= listening(family(self.process.pid))
            try:
                if answer := look():
                    return answer
            except (urllib.error.URLError, ConnectionError, TimeoutError):
                pass
            time.sleep(0.5)
        pytest.fail(f"no {what} within {seconds} s:\n{self.log.read_text()[-5000:]}")

    def stop(self) -> None:
        """End all of it: the servers on request, and what is left of the group after that."""
        os.killpg(self.process.pid, signal.SIGINT)
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(timeout=20)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait(timeout=10)


def clean_clicks() -> bytes:
    """A file of clean clicks as a run leaves it, with none in it."""
    texts = [(name, pa.string()) for name in ("click_id", "impression_id", "ad_id", "user_id", "source")]
    written = io.BytesIO()
    pq.write_table(pa.schema([*texts, ("event_time", pa.timestamp("us", "UTC"))]).empty_table(), written)
    return written.getvalue()


@pytest.fixture
def dev(desk, tmp_path):
    home = tmp_path / "home"
    home.mkdir()
    shutil.copy(ROOT / "dagster.yaml", home)
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
    }
    dev = DagsterDev(home, environment)
    yield dev
    dev.stop()


LOADED = """
{ repositoriesOrError { ... on RepositoryConnection { nodes {
    assetNodes { assetKey { path } } sensors { name sensorState { status } } } } } }
"""
LAUNCH = """
mutation($assets: [PartitionsByAssetSelector!]) {
  launchPartitionBackfill(backfillParams: {partitionsByAssets: $assets}) {
    __typename ... on LaunchBackfillSuccess { backfillId } ... on PythonError { message } } }
"""
BACKFILL = """
query($id: String!) { partitionBackfillOrError(backfillId: $id) { ... on PartitionBackfill { status } } }
"""
RUNS = """
query { runsOrError { ... on Runs { results { status tags { key value } assetSelection { path } } } } }
"""
TICKS = """
{ repositoriesOrError { ... on RepositoryConnection { nodes { sensors {
    name sensorState { ticks(limit: 50) { status error { message } } } } } } } }
"""


def test_a_backfill_from_the_ui_and_a_late_file_end_in_published_updates(dev, desk):
    def loaded():
        nodes = dev.ask(LOADED)["repositoriesOrError"].get("nodes")
        return nodes[0] if nodes else None

    repository = dev.until(loaded, "loaded definitions", 120)
    assets = {"/".join(node["assetKey"]["path"]) for node in repository["assetNodes"]}
    assert {*ALL, "ad_catalog", "raw/ads/shop_ads", "raw/clicks/shop_clicks"} == assets
    assert {each["name"]: each["sensorState"]["status"] for each in repository["sensors"]} == {
        "landings": "RUNNING",
        "late_growth": "RUNNING",
        "new_manifests": "RUNNING",
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

    dev.until(backfilled, "finished backfill", 240)
    assert len(desk.rows(ADS, BACKFILLED)) == 20
    assert sum(row["impressions"] for row in desk.rows(EFFECTIVENESS, BACKFILLED)) == 20

    dev.until(lambda: desk.latest(ADS, DAY) != before, "update of the late file", 240)
    assert len(desk.rows(ADS, DAY)) == 40

    def sensor_runs():
        runs = dev.ask(RUNS)["runsOrError"]["results"]
        tags = [({each["key"]: each["value"] for each in run["tags"]}, run) for run in runs]
        mine = [(tag["dagster/partition"], run) for tag, run in tags if tag.get("dagster/sensor_name") == "late_growth"]
        return mine if mine and all(run["status"] in {"SUCCESS", "FAILURE"} for _, run in mine) else None

    ((day, run),) = dev.until(sensor_runs, "finished run of a sensor", 120)
    assert (day, run["status"]) == (DAY, "SUCCESS")
    assert sorted(key["path"][-1] for key in run["assetSelection"]) == ["ad_effectiveness", "clean_ads"]
    for sensor in dev.ask(TICKS)["repositoriesOrError"]["nodes"][0]["sensors"]:
        ticks = sensor["sensorState"]["ticks"]
        assert ticks
        assert [tick["error"] for tick in ticks if tick["error"]] == []
    assert {name for name, _ in dev.listened} > {"java"}
    assert {where for _, where in dev.listened} == {"loopback"}
