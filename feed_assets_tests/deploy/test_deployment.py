"""The deployment on a real PostgreSQL: backfills survive a kill of daemon and webserver, and nothing runs twice."""

from __future__ import annotations

import json
from datetime import UTC, datetime

import pytest

from feed_assets.file_feed import history, open_feed
from feed_assets.state import Store
from feed_assets_tests.deploy.deployment import UNITS, Deployment
from feed_assets_tests.state.server import SECRET, new_database, postgresql

DAYS = ("2019-11-29", "2019-11-30")
BACKFILLED = ("orders", "refunds")
PARTITIONS = [(name, day) for name in (*BACKFILLED, "totals") for day in DAYS]

LOADED = """
{ repositoriesOrError { ... on RepositoryConnection { nodes { sensors { name sensorState { status } } } } } }
"""
LAUNCH = """
mutation($asset: String!, $days: [String!]) {
  launchPartitionBackfill(backfillParams: {assetSelection: [{path: [$asset]}], partitionNames: $days}) {
    __typename ... on LaunchBackfillSuccess { backfillId } ... on PythonError { message } } }
"""
BACKFILL = """
query($id: String!) { partitionBackfillOrError(backfillId: $id) { ... on PartitionBackfill { status } } }
"""
RUNS = """
{ runsOrError { ... on Runs { results { status tags { key value } assetSelection { path } } } } }
"""


@pytest.fixture
def deployment(tmp_path):
    (tmp_path / "gate").mkdir()
    with postgresql() as server:
        database = new_database(server)
        host, _, port = server.rpartition("@")[2].partition(":")
        deployment = Deployment(
            tmp_path / "home",
            {
                "DAGSTER_POSTGRES_HOST": host,
                "DAGSTER_POSTGRES_PORT": port,
                "DAGSTER_POSTGRES_USER": "owner",
                "DAGSTER_POSTGRES_PASSWORD": SECRET,
                "DAGSTER_POSTGRES_DB": database.rpartition("/")[2],
                "FEED_ASSETS_STATE": database,
                "FEED_ASSETS_BASE": str(tmp_path / "base"),
                "FEED_ASSETS_MODULE": "feed_assets_tests.deploy.project",
                "FEED_ASSETS_AS_OF": "2019-12-01T00:00:00",
                "FEED_ASSETS_SENSOR_SECONDS": "3",
                "TEST_GATE": str(tmp_path / "gate"),
            },
        )
        try:
            deployment.start("code")
            deployment.until(lambda: deployment.serves("CODE"), "code server")
            deployment.start("webserver")
            deployment.start("daemon")
            yield deployment
        finally:
            deployment.stop()


def test_two_backfills_survive_the_kill_of_daemon_and_webserver_and_nothing_runs_twice(deployment, tmp_path):
    gate, base = tmp_path / "gate", tmp_path / "base"

    def executed():
        return sorted(tuple(path.name.split()[:2]) for path in gate.iterdir() if path.name != "open")

    def launch(asset):
        launched = deployment.ask(LAUNCH, asset=asset, days=DAYS)["launchPartitionBackfill"]
        assert launched["__typename"] == "LaunchBackfillSuccess", launched
        return launched["backfillId"]

    def finished():
        found = [deployment.ask(BACKFILL, id=each)["partitionBackfillOrError"]["status"] for each in backfills]
        return set(found) == {"COMPLETED_SUCCESS"}

    def all_runs():
        found = deployment.ask(RUNS)["runsOrError"]["results"]
        return len(found) >= len(PARTITIONS) and {run["status"] for run in found} == {"SUCCESS"} and found

    deployment.until(lambda: deployment.ask(LOADED)["repositoriesOrError"].get("nodes"), "loaded definitions")
    backfills = [launch(name) for name in BACKFILLED]
    # The queue takes three runs of backfills at a time. They wait in the middle of their work; one is still queued.
    deployment.until(lambda: len(executed()) == 3, "started runs")
    command_lines = deployment.command_lines()
    deployment.kill("daemon")
    deployment.kill("webserver")
    (gate / "open").touch()
    deployment.start("webserver")
    deployment.start("daemon")
    deployment.until(finished, "finished backfills")
    runs = deployment.until(all_runs, "finished runs, of the sensor too")

    assert executed() == PARTITIONS
    assert (
        sorted(
            (key["path"][-1], tag["value"])
            for run in runs
            for key in run["assetSelection"]
            for tag in run["tags"]
            if tag["key"] == "dagster/partition"
        )
        == PARTITIONS
    )
    for name, day in PARTITIONS:
        (update,) = history(open_feed(f"{base}/{name}/v1.0"), day, now=datetime.now(UTC))
        assert update.latest
    # The sensor's requests are in the state database.
    events = Store(deployment.environment["FEED_ASSETS_STATE"]).events()
    assert sorted(each.details["partition"] for each in events) == list(DAYS)

    logs = {name: deployment.log(name).read_text() for name in UNITS}
    (line,) = [line for line in logs["code"].splitlines() if f"published totals {DAYS[0]}" in line and line[0] == "{"]
    assert json.loads(line).items() >= {"level": "INFO", "partition": DAYS[0], "step_key": "totals"}.items()
    assert all(json.loads(line)["event"] for line in logs["daemon"].splitlines() if line.startswith("{"))
    assert "dagster" in command_lines
    for shown in (command_lines, *logs.values(), *(deployment.log(name, "err").read_text() for name in UNITS)):
        assert SECRET not in shown
