"""Runs that a pool of real workers executes, launched and terminated as by the UI."""

from __future__ import annotations

import os
import shutil
import signal
import stat
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
import yaml

from feed_assets.operations.doctor import examine
from feed_assets.resources.settings import Settings
from feed_assets.warm_runs.requests import SOCKET, ask
from feed_assets_tests.waiting import until
from feed_assets_tests.warm_runs.running import (
    CANCELED,
    FAILURE,
    SUCCESS,
    Run,
    Workers,
    is_running,
    running,
    start_pool,
)

pytestmark = pytest.mark.slow

MODULE = "feed_assets_tests.warm_runs.plain_project"


@pytest.fixture(scope="module")
def workers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Workers]:
    # Longer than the address of a socket may be.
    home = tmp_path_factory.mktemp("home") / ("long-" * 40)
    sources = tmp_path_factory.mktemp("sources")
    environment = {"FEED_ASSETS_BASE": str(home), "FEED_ASSETS_SOURCES": str(sources)}
    home.mkdir()
    before = Path.cwd()
    os.chdir(home)
    try:
        with running(home, MODULE, environment, ["--idle", "3"]) as workers:
            yield workers
    finally:
        os.chdir(before)


@pytest.fixture(autouse=True)
def _in_the_home(workers: Workers, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(workers.home)


def deed(workers: Workers, *, resources: dict[str, object] | None = None, **config: str | bool) -> Run:
    run_config = {"ops": {"deed": {"config": config}}, **({"resources": resources} if resources else {})}
    return workers.launch("deed", config=run_config)


def output(workers: Workers, run: Run) -> str:
    """What the tab `stdout` of the run shows."""
    manager = workers.instance.compute_log_manager
    events = [each.dagster_event for each in workers.instance.all_logs(run.id) if each.dagster_event]
    (captured,) = [each.logs_captured_data for each in events if each.event_type_value == "LOGS_CAPTURED"]
    key = manager.build_log_key_for_run(run.id, captured.file_key)
    return (manager.get_log_data(key).stdout or b"").decode()


def test_one_process_executes_one_run_after_the_other_also_after_one_that_failed(workers):
    first = deed(workers, ends="badly")
    assert first.status == FAILURE
    second = deed(workers)
    assert second.status == SUCCESS
    assert second.worker == first.worker is not None
    assert output(workers, second) == "The greeting is None\n"


def test_runs_at_the_same_time_have_processes_of_their_own_and_then_one_stays(workers, tmp_path):
    first = deed(workers, waits_for=str(tmp_path / "go"))
    assert until(lambda: first.worker)
    second = deed(workers)
    assert second.status == SUCCESS
    (tmp_path / "go").touch()
    assert first.status == SUCCESS
    assert second.worker != first.worker
    until(lambda: not is_running(first.worker))
    assert is_running(second.worker)


def test_a_run_that_is_terminated_ends_with_its_process_and_no_other_run_does(workers, tmp_path):
    stopped, other = deed(workers, waits_for=str(tmp_path / "never")), deed(workers, waits_for=str(tmp_path / "go"))
    until(lambda: stopped.worker and other.worker)
    stopped.terminate()
    assert stopped.status == CANCELED
    until(lambda: not is_running(stopped.worker))
    (tmp_path / "go").touch()
    assert other.status == SUCCESS


def test_a_run_that_is_terminated_while_python_drops_errors_ends_before_it_is_killed(workers, tmp_path):
    stopped = deed(workers, waits_for=str(tmp_path / "never"), in_a_callback=True)
    assert until((tmp_path / "never.awaited").exists)
    stopped.terminate()
    assert stopped.status == CANCELED
    assert 'Execution of step "deed" failed.' in stopped.messages


@pytest.mark.parametrize("ends", ["at once", "unheard", "killed"])
def test_a_run_whose_process_dies_fails_at_once_and_its_retry_finds_another_process(workers, tmp_path, ends):
    first = deed(workers, **({"waits_for": str(tmp_path / "go")} if ends == "killed" else {"ends": ends}))
    if ends == "killed":
        os.kill(until(lambda: first.worker), signal.SIGKILL)
        (tmp_path / "go").touch()
    assert first.status == FAILURE
    again = workers.retry(first)
    assert again.status == (SUCCESS if ends == "killed" else FAILURE)
    assert again.worker != first.worker


def test_a_run_whose_worker_dies_while_nothing_can_be_stored_fails_as_soon_as_it_can(workers, tmp_path):
    run = deed(workers, waits_for=str(tmp_path / "never"))
    worker = until(lambda: run.worker)
    config, log = workers.home / "dagster.yaml", workers.home / "workers.log"
    right = config.read_text()
    config.write_text("no configuration: [")
    os.kill(worker, signal.SIGKILL)
    until(lambda: f"The end of run {run.id} could not be stored" in log.read_text())
    config.write_text(right)
    assert run.status == FAILURE


def test_the_processes_of_steps_end_with_the_worker_of_their_run(workers, tmp_path):
    config = {"waits_for": str(tmp_path / "never"), "in_a_callback": True}
    run = workers.launch("deed", config={"ops": {"deed": {"config": config}}}, job="apart")
    until((tmp_path / "never.awaited").exists)
    steps = psutil.Process(run.worker).children()
    os.kill(run.worker, signal.SIGKILL)
    assert run.status == FAILURE
    until(lambda: not any(is_running(each.pid) for each in steps))


def test_code_and_variables_that_have_changed_are_loaded_before_the_next_run(workers):
    first = deed(workers)
    assert first.status == SUCCESS
    (workers.home / ".env").write_text("GREETING=hello")
    greeted = deed(workers)
    assert greeted.status == SUCCESS
    assert greeted.worker != first.worker
    assert output(workers, greeted) == "The greeting is hello\n"
    source = Path(os.environ["FEED_ASSETS_SOURCES"]) / "new.yaml"
    source.write_text("nothing that describes a source")
    broken = deed(workers)
    assert broken.status == FAILURE
    assert "Could not load job definition." in broken.messages
    source.unlink()
    (workers.home / ".env").unlink()
    assert deed(workers).status == SUCCESS


@pytest.mark.parametrize(("change", "named"), [("greets", "GREETING"), ("goes_to", "the working directory")])
def test_a_run_finds_neither_variables_nor_the_directory_of_the_run_before(workers, tmp_path, change, named):
    first = deed(workers, **{change: str(tmp_path)})
    assert first.status == SUCCESS
    second = deed(workers)
    assert second.status == SUCCESS
    assert output(workers, second) == "The greeting is None\n"
    assert f"The place is {workers.home}." in second.messages
    assert second.worker not in {None, first.worker}
    assert f"Run {first.id} changed {named}. So its worker ends" in (workers.home / "workers.log").read_text()


def test_a_run_finds_neither_the_mask_of_files_nor_the_logging_of_the_run_before(workers):
    first = deed(workers, hides=True)
    assert first.status == SUCCESS
    second = deed(workers)
    assert second.status == SUCCESS
    assert second.worker == first.worker
    found = [[each for each in run.messages if each.startswith("New files lose")] for run in (first, second)]
    assert found[0] == found[1] != []


def test_a_run_that_configures_its_resources_has_a_process_of_its_own(workers):
    run = deed(workers, resources={"spark": {"config": {"spark_config": {"spark.sql.shuffle.partitions": "7"}}}})
    assert run.status == SUCCESS
    assert run.worker is None


def test_nobody_else_can_ask_and_a_run_of_other_code_is_not_taken(workers):
    assert stat.S_IMODE((workers.home / SOCKET).stat().st_mode) == 0o600
    assert ask(workers.home, launch="a run", module="another.module") == {"launched": False}
    assert ask(workers.home / "sources", launch="a run", module=MODULE) == {}
    found = next(finding for name, finding in examine(Settings.from_environment(), workers.home) if name == "dagster")
    assert found.found.endswith(f" answers, 1 worker takes runs of {MODULE}")


def test_a_second_pool_waits_for_the_end_of_the_first_and_takes_over_from_a_killed_one(workers, tmp_path):
    log = tmp_path / "second.log"
    second = start_pool(workers.home, MODULE, log=log)
    until(lambda: "wait until the others have ended" in log.read_text())
    workers.process.kill()
    workers.process.wait(10)
    workers.process = second
    run = until(lambda: workers.pool) and deed(workers)
    assert run.status == SUCCESS
    assert run.worker


def test_who_asks_a_pool_that_is_starting_is_told_at_once_that_there_is_none(workers, tmp_path, monkeypatch):
    home, code = tmp_path / "new", tmp_path / "code"
    home.mkdir()
    code.mkdir()
    shutil.copy(workers.home / "dagster.yaml", home)
    # Python imports this before everything else: here it holds the process that workers are forked from.
    (code / "sitecustomize.py").write_text(f"""
import sys, time
from pathlib import Path
while "multiprocessing.forkserver" in str(sys.orig_argv) and not Path({str(tmp_path / "go")!r}).exists():
    time.sleep(0.05)
""")
    monkeypatch.setenv("DAGSTER_HOME", str(home))
    monkeypatch.setenv("PYTHONPATH", str(code), prepend=os.pathsep)
    pool = start_pool(home, MODULE)
    try:
        until((home / SOCKET).exists)
        assert ask(home, holds="") == {}
        (tmp_path / "go").touch()
        assert until(lambda: ask(home, holds=""))["workers"] == 1
    finally:
        (tmp_path / "go").touch()  # else it would wait for ever
        pool.terminate()
    assert pool.wait(30) == 0


@pytest.mark.parametrize("launcher", [None, {"module": "dagster", "class": "DefaultRunLauncher"}])
def test_a_home_that_names_another_launcher_gets_no_workers_and_is_told_how(workers, tmp_path, monkeypatch, launcher):
    home = tmp_path / "older"
    home.mkdir()
    config = yaml.safe_load((workers.home / "dagster.yaml").read_text()) | {"run_launcher": launcher}
    (home / "dagster.yaml").write_text(yaml.safe_dump(config))
    monkeypatch.setenv("DAGSTER_HOME", str(home))
    assert start_pool(home, MODULE).wait(30) == 0
    assert "class: WorkerRunLauncher}` into" in (home / "workers.log").read_text()


def test_without_a_place_for_a_socket_there_are_no_workers_and_the_reason_is_said(workers, tmp_path, monkeypatch):
    home = tmp_path / ("far-" * 40)
    home.mkdir()
    shutil.copy(workers.home / "dagster.yaml", home)
    monkeypatch.setenv("DAGSTER_HOME", str(home))
    log = tmp_path / "far.log"
    assert start_pool(workers.home, MODULE, log=log).wait(30) == 0
    assert "cannot listen" in log.read_text()
