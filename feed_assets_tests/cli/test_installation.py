"""What a command finds out before anything starts: base, Spark's master, Dagster's home. Nothing here starts Spark."""

from __future__ import annotations

import errno
import fcntl
import json
import os
import shutil
import socket
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result

from feed_assets.resources.settings import Settings
from feed_assets_tests import ROOT
from feed_assets_tests.listening import free_port

Run = Callable[..., Result]
COMPUTING = [
    ["land", "open_bandit_ads", str(ROOT / "README.md")],
    ["backfill", "--from", "2019-11-24", "--to", "2019-11-24"],
    ["demo"],
]


@pytest.fixture
def empty(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty working directory, with nothing in the environment."""
    # Set to nothing, which counts as not set: what a command leaves there for others is then undone after the test.
    for name in ("HOME", "BASE", "SPARK_MASTER", "AS_OF", "SENSOR_SECONDS", "LOG_LEVEL", "SPARK_LOG_LEVEL"):
        monkeypatch.setenv("DAGSTER_HOME" if name == "HOME" else f"FEED_ASSETS_{name}", "")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("command", COMPUTING)
def test_a_bucket_that_does_not_answer_is_said_before_anything_starts(run: Run, empty: Path, monkeypatch, command):
    monkeypatch.setenv("FEED_ASSETS_BASE", "s3://bucket/prefix")
    monkeypatch.setenv("AWS_ENDPOINT_URL_S3", f"http://127.0.0.1:{free_port()}")
    for name, value in {"ACCESS_KEY_ID": "x", "SECRET_ACCESS_KEY": "x", "MAX_ATTEMPTS": "1"}.items():
        monkeypatch.setenv(f"AWS_{name}", value)

    result = run(*command, code=1)

    assert "Could not list s3://bucket/prefix/: no answer from 127.0.0.1" in result.stderr
    assert "Traceback" not in result.stderr
    assert list(empty.iterdir()) == []


@pytest.mark.parametrize("command", COMPUTING)
def test_a_master_that_is_none_or_does_not_answer_is_said_before_anything_starts(
    run: Run, empty: Path, monkeypatch, command
):
    nobody = f"spark://127.0.0.1:{free_port()}"
    for master, part in (("local[x]", "it takes local[*]"), (nobody, "Connection refused"), ("local[0]", "it takes")):
        monkeypatch.setenv("FEED_ASSETS_SPARK_MASTER", master)
        result = run(*command, code=1)
        assert part in result.stderr
        assert "Traceback" not in result.stderr
    assert list(empty.iterdir()) == []


def test_a_command_takes_the_variables_of_the_env_file_as_dagster_does(run: Run, empty: Path, monkeypatch):
    monkeypatch.setenv("FEED_ASSETS_BASE", "data")
    (empty / "elsewhere").mkdir()
    (empty / ".env").write_text("FEED_ASSETS_BASE=elsewhere\n")

    said = run("feeds").stderr
    assert "There is no feed below elsewhere" in said
    assert ".env replaces FEED_ASSETS_BASE of the environment" in said

    (empty / ".env").write_bytes(b"NAME=\xe4\n")

    assert ".env is not UTF-8" in run("feeds", code=1).stderr


def test_a_base_that_is_no_directory_is_said_before_anything_starts(run: Run, empty: Path, monkeypatch):
    (empty / "file").write_text("")
    monkeypatch.setenv("FEED_ASSETS_BASE", str(empty / "file" / "below"))

    assert f"{empty / 'file'} is no directory" in run(*COMPUTING[1], code=1).stderr


@pytest.mark.skipif(os.geteuid() == 0, reason="root can write everywhere")
def test_a_base_that_cannot_be_written_is_said_before_anything_starts(run: Run, empty: Path, monkeypatch):
    (empty / "base").mkdir(mode=0o555)
    monkeypatch.setenv("FEED_ASSETS_BASE", str(empty / "base"))

    assert f"{empty / 'base'} cannot be written" in run(*COMPUTING[1], code=1).stderr


@pytest.fixture
def executed(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """The programs that `dev` would start; they do not run, and end without a fault."""
    programs: list[list[str]] = []
    monkeypatch.setattr(
        "feed_assets.cli.dev.run_until_interrupted", lambda command, _, **__: programs.append(command) or 0
    )
    return programs


def test_dev_opens_the_demo_only_where_there_is_no_data_of_ones_own(run: Run, empty: Path, executed, monkeypatch):
    demo = empty / "demo-data"
    (demo / ".dagster").mkdir(parents=True)
    (demo / ".as-of").write_text("2019-12-01T00:00:00")

    port = free_port()
    assert f"Data: {demo}, where it is 2019-12-01 00:00:00" in run("dev", "--port", str(port)).stderr
    assert (os.environ["FEED_ASSETS_BASE"], os.environ["DAGSTER_HOME"]) == (str(demo), str(demo / ".dagster"))
    for name in ("FEED_ASSETS_BASE", "DAGSTER_HOME"):
        monkeypatch.delenv(name)
    (empty / "data").mkdir()
    assert f"Data: {empty / 'data'}. " in run("dev", "--port", str(free_port())).stderr
    assert os.environ["DAGSTER_HOME"] == str(empty / ".dagster")
    monkeypatch.delenv("DAGSTER_HOME")
    assert f"Data: {demo}, " in run("dev", "--demo", "--port", str(free_port())).stderr
    assert "-m dagster dev -m feed_assets.definitions" in " ".join(executed[0])
    assert str(port) in executed[0]


def test_dev_on_a_port_in_use_starts_nothing_and_names_the_option(run: Run, empty: Path, executed):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        message = run("dev", "--port", str(port), code=1).stderr
    assert f"cannot listen on 127.0.0.1:{port} (Address already in use)" in message
    assert "--port" in message
    assert executed == []


def test_a_second_dev_on_one_dagster_home_starts_nothing_and_names_the_home(run: Run, empty: Path, executed):
    assert "The UI is at" in run("dev", "--port", str(free_port())).stderr
    with (empty / ".dagster/dev.lock").open() as other:
        fcntl.flock(other, fcntl.LOCK_EX)
        message = run("dev", "--port", str(free_port()), code=1).stderr

    assert f"Another `feed-assets dev` uses {empty / '.dagster'}: end it, or set DAGSTER_HOME" in " ".join(
        message.split()
    )
    assert len(executed) == 1


def test_data_of_ones_own_does_not_inherit_the_demos_time(empty: Path):
    (empty / "demo-data").mkdir()
    (empty / "demo-data/.as-of").write_text("2019-12-01T00:00:00")

    assert Settings.from_environment({}).as_of is None


def test_where_no_dagster_home_is_one_is_made_and_said_once(run: Run, empty: Path, executed, monkeypatch):
    assert (
        f"Dagster keeps its runs in {empty / '.dagster'} from now on" in run("dev", "--port", str(free_port())).stderr
    )
    monkeypatch.delenv("DAGSTER_HOME")
    assert (empty / ".dagster/dagster.yaml").read_bytes() == (ROOT / "dagster.yaml").read_bytes()
    assert "from now on" not in run("dev", "--port", str(free_port())).stderr
    monkeypatch.setenv("DAGSTER_HOME", str(empty / "absent"))
    assert "is no directory" in run("dev", "--port", str(free_port()), code=1).stderr


def test_a_folder_that_takes_no_dagster_home_is_named_and_what_to_set(run: Run, empty: Path, executed, monkeypatch):
    def mkdir(*_: object, **__: object) -> None:
        raise OSError(errno.EACCES, os.strerror(errno.EACCES))

    monkeypatch.setattr(Path, "mkdir", mkdir)

    message = run("dev", code=1).stderr

    assert f"{empty / '.dagster'} cannot be written (Permission denied): set DAGSTER_HOME to a directory" in message
    assert executed == []


def test_dagsters_tables_are_there_before_its_processes_start_at_once(run: Run, empty: Path, monkeypatch):
    """Two of them that make the tables at the same time leave tables that no Dagster can read."""
    found: set[str] = set()

    def start(*_: object, **__: object) -> int:
        found.update(path.name for path in (empty / ".dagster").rglob("*.db"))
        return 0

    monkeypatch.setattr("feed_assets.cli.dev.run_until_interrupted", start)
    run("dev", "--port", str(free_port()))

    assert found == {"runs.db", "index.db", "schedules.db"}


def test_dev_says_how_its_sensors_get_changed_code(run: Run, empty: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("feed_assets.cli.dev.run_until_interrupted", lambda *_, **__: 0)

    assert "After a change of code or of a source, use Reload" in run("dev", "--port", str(free_port())).stderr


def test_explain_in_an_empty_directory_names_the_base_it_looked_at_and_makes_nothing(run: Run, empty: Path):
    result = run("explain", "2019-11-24")

    assert f"Looked below {empty / 'data'}" in result.stderr
    every_day = run("explain").stderr
    assert "There is no unprocessed raw data." in every_day
    assert "All" not in every_day  # nothing was processed, either
    assert list(empty.iterdir()) == []


def test_explain_names_raw_data_of_a_source_that_was_renamed_and_does_not_call_all_processed(run: Run, empty: Path):
    for key in ("ads/old_name", "clicks/another", "clicks/open_bandit_clicks", ".landed/ads/old_name"):
        raw = empty / f"data/raw/{key}/2019-11-24/23/theirs.parquet"
        raw.parent.mkdir(parents=True)
        raw.write_bytes(b"PAR1")

    for options in ([], ["--json"]):
        message = run("explain", *options).stderr
        assert [line.split()[3] for line in message.splitlines() if line.startswith("No day reads")] == [
            "raw/ads/old_name:",
            "raw/clicks/another:",
        ]
        assert "no unprocessed raw data" not in message


@pytest.mark.parametrize("command", ["feeds", "late", "explain", "quarantine"])
def test_a_command_that_finds_nothing_says_what_is_near_a_mistyped_base(run: Run, empty: Path, monkeypatch, command):
    (empty / "data").mkdir()
    monkeypatch.setenv("FEED_ASSETS_BASE", str(empty / "data"))
    assert "The nearest place" not in run(command).stderr

    monkeypatch.setenv("FEED_ASSETS_BASE", str(empty / "dta"))
    assert "There is: data. Did you mean data?" in run(command).stderr


@pytest.mark.parametrize("day", ["0001-01-01", "9999-12-31"])
def test_the_first_and_the_last_day_of_the_calendar_can_be_explained(run: Run, empty: Path, day: str):
    raw = empty / f"data/raw/ads/open_bandit_ads/{day}/23/theirs.parquet"
    raw.parent.mkdir(parents=True)
    raw.write_bytes(b"PAR1")

    shown = run("explain", day).stdout
    assert f"clean_ads {day}" in shown
    assert f"ads/open_bandit_ads {day}: " in shown


def test_a_base_whose_marker_file_holds_no_time_is_an_error_that_names_the_file(run: Run, empty: Path, monkeypatch):
    monkeypatch.setenv("FEED_ASSETS_AS_OF", "")
    marker = empty / "data/.as-of"
    marker.parent.mkdir()
    for content in (b"0001-01-01T00:00:00+12:00", b"\xff"):
        marker.write_bytes(content)
        assert f"Error: {marker} is " in run("report", code=1).stderr


@pytest.mark.parametrize("content", [b"nonsense: [", b"- a list", b"\xff", b"nonsense: 1", b"text"])
def test_a_dagster_yaml_that_cannot_be_used_is_one_error_after_the_stories(run: Run, empty: Path, monkeypatch, content):
    (empty / "dagster.yaml").write_bytes(content)
    monkeypatch.setenv("DAGSTER_HOME", str(empty))

    result = run("explain", "2019-11-24", code=1)
    assert f"Error: {empty / 'dagster.yaml'} cannot be used" in result.stderr
    assert "clean_ads 2019-11-24" in result.stdout
    stories = json.loads(run("explain", "2019-11-24", "--json", code=1).stdout)
    assert [story["failed_runs"] for story in stories] == [None] * 3
    backfill = run(*COMPUTING[1], code=1)
    assert f"Error: {empty / 'dagster.yaml'} cannot be used" in backfill.stderr


def test_a_database_of_dagster_that_cannot_be_used_is_one_error_after_the_stories(run: Run, empty: Path, monkeypatch):
    monkeypatch.setenv("DAGSTER_HOME", str(empty))
    (empty / "dagster.yaml").write_text("telemetry: {enabled: false}")
    (empty / "history").mkdir()
    (empty / "history" / "runs.db").write_text("no database" * 100)
    problem = f"Error: The database of Dagster, which {empty} configures, cannot be used: file is not a database."

    result = run("explain", "2019-11-24", code=1)
    assert problem in result.stderr
    assert "clean_ads 2019-11-24" in result.stdout
    assert problem in run(*COMPUTING[1], code=1).stderr


@pytest.mark.parametrize(
    ("words", "at", "completed"), [("poll r", "2", "plain,reindex"), ("poll shop --j", "3", "plain,--json")]
)
def test_completion_knows_the_commands_of_poll_although_one_needs_no_name(program, words: str, at: str, completed: str):
    environment = {"_FEED_ASSETS_COMPLETE": "bash_complete", "COMP_WORDS": f"feed-assets {words}", "COMP_CWORD": at}
    assert completed in program(environment=environment).stdout.split()


def test_completion_knows_commands_and_options(program):
    completed = program(
        environment={"_FEED_ASSETS_COMPLETE": "bash_complete", "COMP_WORDS": "feed-assets feed l", "COMP_CWORD": "2"}
    )

    assert {"plain,ls", "plain,latest"} <= set(completed.stdout.split())
    assert shutil.which("bash") is None or "Traceback" not in completed.stderr
