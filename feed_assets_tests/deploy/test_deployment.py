"""The deployment on a real PostgreSQL: backfills survive kills and a reload, and each partition is published once."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
from datetime import UTC, datetime

import psycopg
import pytest
from click.testing import CliRunner

from feed_assets.cli.main import main
from feed_assets.file_feed import history, open_feed
from feed_assets.starts.attempts import LOG
from feed_assets.state.store import Store
from feed_assets_tests.deploy.deployment import DEPLOY, INSTALLED, PROGRAMS, ROOT, UNITS, Deployment, environment_file
from feed_assets_tests.dev import FREQUENT_DAEMON
from feed_assets_tests.listening import listening
from feed_assets_tests.state.server import SECRET, new_database, postgresql

pytestmark = pytest.mark.slow

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
RELOAD = """
mutation { reloadRepositoryLocation(repositoryLocationName: "feed_assets") {
  __typename ... on WorkspaceLocationEntry { loadStatus locationOrLoadError { __typename } } } }
"""
RUNS = """
{ runsOrError { ... on Runs { results { status tags { key value } assetSelection { path } } } } }
"""


@pytest.fixture(scope="module")
def server():
    with postgresql() as url:
        yield url


@pytest.fixture
def deployment(server, tmp_path):
    (tmp_path / "gate").mkdir()
    (tmp_path / "base").mkdir()
    database = new_database(server)
    host, _, port = server.rpartition("@")[2].partition(":")
    values = {
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
        "PYTHONPATH": str(FREQUENT_DAEMON),
    }
    deployment = Deployment(tmp_path / "home", values)
    try:
        yield deployment
    finally:
        deployment.stop()


def examined(deployment):
    """What `feed-assets doctor` says of the deployment: state and text of each check."""
    result = CliRunner().invoke(main, ["doctor", "--json"], env=deployment.environment)
    assert SECRET not in result.output
    return {each["check"]: (each["state"], f"{each['found']} {each['advice']}") for each in json.loads(result.stdout)}


def tables(url):
    with psycopg.connect(url) as connection:
        return connection.execute("SELECT tablename FROM pg_tables WHERE schemaname = 'public'").fetchall()


def watched(deployment):
    """The figures that a monitor asks for, with the query of the page."""
    (query,) = re.findall(r"```graphql\n(.*?)```", (ROOT / "docs/production.md").read_text(), flags=re.DOTALL)
    return deployment.ask(query)


def locations(figures):
    """Each code location with its state, and with its error's causes if it has one."""
    entries = figures["workspaceOrError"]["locationEntries"]
    found = {}
    for each in entries:
        causes = [link["error"]["message"] for link in each["location"].get("errorChain", ())]
        found[each["name"]] = (each["loadStatus"], each["location"]["__typename"], causes)
    return found


def reload(deployment):
    reloaded = deployment.ask(RELOAD)["reloadRepositoryLocation"]
    assert reloaded["locationOrLoadError"]["__typename"] == "RepositoryLocation", reloaded


def kill_a_run(gate):
    """Kill the process of a run that waits; its asset and partition."""
    waiting = min(gate.iterdir())
    os.kill(int(waiting.read_text()), signal.SIGKILL)
    return tuple(waiting.name.split()[:2])


@pytest.mark.skipif(not shutil.which("systemd-analyze"), reason="systemd-analyze is not installed")
def test_systemd_takes_the_units_and_calls_them_confined(tmp_path):
    units = [tmp_path / f"feed-assets-{name}.service" for name in (*UNITS, "workers", "receiver", "consumer@prices")]
    for each in units:
        text = (DEPLOY / "systemd" / each.name.replace("@prices", "@")).read_text(encoding="utf-8")
        each.write_text(text.replace(INSTALLED, f"{PROGRAMS}/"), encoding="utf-8")

    for arguments in (["verify"], ["security", "--offline=yes", "--threshold=20"]):
        answer = subprocess.run(["systemd-analyze", *arguments, *units], capture_output=True, text=True, check=False)
        assert (answer.returncode, answer.stderr) == (0, ""), answer.stdout


def test_the_home_of_the_user_is_the_directory_that_the_units_may_write_to():
    # Caches are below the home, such as Spark's jars for S3.
    installed = [path.read_text(encoding="utf-8") for path in (ROOT / "docs/production.md", DEPLOY / "Dockerfile")]
    homes = [re.findall(r"useradd .*--home-dir (\S+)", text) for text in installed]
    units = [path.read_text(encoding="utf-8") for path in (DEPLOY / "systemd").iterdir()]
    writable = {name for text in units for name in re.findall(r"^StateDirectory=(.*)$", text, re.MULTILINE) or [""]}

    assert homes == [["/var/lib/feed-assets"]] * 2
    assert writable == {"feed-assets"}


def test_everything_listens_on_loopback_unless_told_otherwise():
    hosts = {name: value for name, value in environment_file().items() if name.endswith(("UI_HOST", "CODE_HOST"))}
    assert hosts == {"FEED_ASSETS_UI_HOST": "127.0.0.1", "FEED_ASSETS_CODE_HOST": "127.0.0.1"}


def test_the_container_runs_as_an_ordinary_user_with_the_files_of_the_deployment():
    lines = (DEPLOY / "Dockerfile").read_text(encoding="utf-8").splitlines()

    copied = [part for line in lines if re.match(r"COPY (?!--from)", line) for part in line.split()[1:-1]]
    assert copied
    assert [path for path in copied if not (ROOT / path).exists()] == []
    users = [line.split()[1] for line in lines if line.startswith("USER ")]
    assert users
    assert "root" not in users


def test_the_doctor_leaves_an_empty_database_empty_and_says_what_fills_it(deployment):
    found = examined(deployment)

    assert (found["dagster"][0], found["state"][0]) == ("fails", "warning")
    assert "A new database gets its tables when Dagster starts." in found["dagster"][1]
    assert tables(deployment.environment["FEED_ASSETS_STATE"]) == []


def test_a_project_that_cannot_be_loaded_fails_its_unit_and_is_told_to_a_monitor(deployment, tmp_path):
    (tmp_path / "broken_project.py").write_text("raise RuntimeError('a partner without a name')\n")
    deployment.environment["FEED_ASSETS_MODULE"] = "broken_project"
    deployment.environment["PYTHONPATH"] += f":{tmp_path}"

    with pytest.raises(subprocess.CalledProcessError) as failed:
        deployment.start("code")
    deployment.start("webserver")
    figures = deployment.until(lambda: watched(deployment), "answer of the webserver")

    assert failed.value.returncode == 1
    assert b"RuntimeError: a partner without a name" in failed.value.stdout
    (state, kind, causes) = locations(figures)["feed_assets"]
    assert (state, kind) == ("LOADED", "PythonError")
    assert "RuntimeError: a partner without a name" in causes[-1]


def test_two_backfills_survive_a_reload_and_kills_of_daemon_webserver_and_a_run(deployment, tmp_path):
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
        return len(found) > len(PARTITIONS) and {run["status"] for run in found} == {"SUCCESS", "FAILURE"} and found

    deployment.start("code")
    deployment.start("webserver")
    deployment.until(lambda: deployment.ask(LOADED)["repositoriesOrError"].get("nodes"), "loaded definitions")
    backfills = [launch(name) for name in BACKFILLED]
    deployment.start("daemon")  # it looks for backfills at its start
    # The queue takes three runs of backfills at a time. They wait in the middle of their work; one is still queued.
    deployment.until(lambda: len(executed()) == 3, "started runs")
    family = deployment.family()
    command_lines = " ".join(part for each in family for part in each.cmdline())
    addresses = [address for _, address in listening(family)]
    # Runs go on in the server of the old code, which sees that a run dies. The queued run gets the new code.
    reload(deployment)
    killed = kill_a_run(gate)
    deployment.kill("daemon")
    deployment.kill("webserver")
    (gate / "open").touch()
    deployment.start("webserver")
    deployment.start("daemon")
    deployment.until(finished, "finished backfills")
    runs = deployment.until(all_runs, "finished runs, of the sensor too")

    figures = watched(deployment)
    assert locations(figures) == {"feed_assets": ("LOADED", "RepositoryLocation", [])}
    assert (figures["queued"], figures["failed"]) == ({"count": 0}, {"count": 1})
    assert all(each["healthy"] is not False for each in figures["instance"]["daemonHealth"]["allDaemonStatuses"])
    (repository,) = figures["repositoriesOrError"]["nodes"]
    assert [tick for each in repository["sensors"] for tick in each["sensorState"]["failedTicks"]] == []
    assert executed() == sorted([*PARTITIONS, killed])
    assert (
        sorted(
            (key["path"][-1], tag["value"])
            for run in runs
            if run["status"] == "SUCCESS"
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
    events = Store(deployment.environment["FEED_ASSETS_STATE"]).events(log=LOG)
    assert sorted(each.details["slot"] for each in events if each.kind == "attempt requested") == list(DAYS)

    logs = {name: deployment.log(name).read_text() for name in UNITS}
    (line,) = [line for line in logs["code"].splitlines() if f"published totals {DAYS[0]}" in line and line[0] == "{"]
    fields = json.loads(line)
    assert (fields["level"], fields["dagster_meta"]["step_key"]) == ("info", "totals")
    assert fields["dagster_meta"]["job_tags"]["dagster/partition"] == DAYS[0]
    assert all(json.loads(line)["event"] for line in logs["daemon"].splitlines() if line.startswith("{"))
    assert addresses
    assert [each for each in addresses if each != "loopback"] == []
    assert {name: state for name, (state, _) in examined(deployment).items() if state != "ok"} == {
        "clock": "warning",
    }
    assert "dagster" in command_lines
    for shown in (command_lines, *logs.values(), *(deployment.log(name, "err").read_text() for name in UNITS)):
        assert SECRET not in shown
