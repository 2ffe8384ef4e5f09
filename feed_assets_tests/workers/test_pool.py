"""Runs that a pool of real workers executes, asked for as the run launcher asks."""

from __future__ import annotations

import os
import signal
import stat
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from uuid import uuid4

import dagster as dg
import pytest
from dagster._core.definitions.reconstruct import ReconstructableRepository

from feed_assets.workers.requests import SOCKET, ask

ROOT = Path(__file__).parents[2]
MODULE = "feed_assets_tests.workers.plain_project"
CANCELED, FAILURE, SUCCESS = dg.DagsterRunStatus.CANCELED, dg.DagsterRunStatus.FAILURE, dg.DagsterRunStatus.SUCCESS


class Pool:
    """A pool for a home of its own, and its runs."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.sources = home / "sources"
        self.sources.mkdir()
        environment = {
            "DAGSTER_HOME": str(home),
            "FEED_ASSETS_BASE": str(home),
            "FEED_ASSETS_SOURCES": str(self.sources),
        }
        os.environ.update(environment)
        self.process = subprocess.Popen([sys.executable, "-m", "feed_assets.workers", MODULE], cwd=ROOT)
        self.instance = dg.DagsterInstance.get()
        repository = ReconstructableRepository.for_module(MODULE, "defs", str(ROOT))
        self.job = repository.get_reconstructable_job("__ASSET_JOB")

    def launch(self, **config: str) -> Run:
        says = self.home / uuid4().hex
        run_config = {"ops": {"deed": {"config": {"says": str(says), **config}}}}
        run = self.instance.create_run_for_job(
            self.job.get_definition(), run_config=run_config, job_code_origin=self.job.get_python_origin()
        )
        until(lambda: ask(self.home, launch=run.run_id, module=MODULE).get("launched"))
        return Run(self, run.run_id, says)


class Run:
    """A run that the pool has taken."""

    def __init__(self, pool: Pool, run_id: str, says: Path) -> None:
        self.pool, self.id, self._says = pool, run_id, says

    @property
    def worker(self) -> int:
        """The process that executes it."""
        return int(until(lambda: self._says.exists() and self._says.read_text()))

    @property
    def status(self) -> dg.DagsterRunStatus:
        """Its status at its end."""
        return until(lambda: (run := self.pool.instance.get_run_by_id(self.id)) and run.is_finished and run.status)

    def terminate(self) -> None:
        """As the run launcher does."""
        self.pool.instance.report_run_canceling(self.pool.instance.get_run_by_id(self.id))
        assert ask(self.pool.home, terminate=self.id) == {"terminated": True}


def until(look: Callable[[], object], seconds: float = 60) -> object:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if answer := look():
            return answer
        time.sleep(0.05)
    pytest.fail(f"nothing within {seconds} s")


@pytest.fixture(scope="module")
def pool(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pool]:
    with pytest.MonkeyPatch.context() as patch:
        for name in ("DAGSTER_HOME", "FEED_ASSETS_BASE", "FEED_ASSETS_SOURCES"):
            patch.setenv(name, "")
        pool = Pool(tmp_path_factory.mktemp("home"))
        yield pool
        pool.process.terminate()
        assert pool.process.wait(30) == 0


def test_one_process_executes_one_run_after_the_other_also_after_one_that_failed(pool: Pool):
    first = pool.launch(ends="badly")
    assert first.status == FAILURE
    second = pool.launch()
    assert (second.status, second.worker) == (SUCCESS, first.worker)


def test_runs_at_the_same_time_have_processes_of_their_own(pool: Pool, tmp_path: Path):
    first = pool.launch(waits_for=str(tmp_path / "go"))
    assert first.worker
    second = pool.launch()
    assert second.status == SUCCESS
    (tmp_path / "go").touch()
    assert first.status == SUCCESS
    assert second.worker != first.worker


def test_a_run_that_is_terminated_ends_with_its_process_and_no_other_run_does(pool: Pool, tmp_path: Path):
    stopped, other = pool.launch(waits_for=str(tmp_path / "never")), pool.launch(waits_for=str(tmp_path / "go"))
    assert stopped.worker != other.worker
    stopped.terminate()
    assert stopped.status == CANCELED
    until(lambda: not Path(f"/proc/{stopped.worker}").exists())
    (tmp_path / "go").touch()
    assert other.status == SUCCESS


@pytest.mark.parametrize("ends", ["at once", "killed"])
def test_a_run_whose_process_dies_fails_at_once_and_the_next_finds_another_process(
    pool: Pool, tmp_path: Path, ends: str
):
    first = pool.launch(ends=ends) if ends == "at once" else pool.launch(waits_for=str(tmp_path / "never"))
    if ends == "killed":
        os.kill(first.worker, signal.SIGKILL)
    assert first.status == FAILURE
    assert pool.launch().status == SUCCESS


def test_sources_that_have_changed_are_loaded_before_the_next_run(pool: Pool):
    first = pool.launch()
    assert first.status == SUCCESS
    (pool.sources / "new.yaml").write_text("nothing that describes a source")
    broken = pool.launch()
    assert broken.status == FAILURE
    assert any("Could not load job definition" in entry.message for entry in pool.instance.all_logs(broken.id))
    (pool.sources / "new.yaml").unlink()
    second = pool.launch()
    assert second.status == SUCCESS
    assert second.worker != first.worker


def test_nobody_else_can_ask_and_a_run_of_other_code_is_not_taken(pool: Pool):
    assert stat.S_IMODE((pool.home / SOCKET).stat().st_mode) == 0o600
    assert ask(pool.home, launch="a run", module="another.module") == {"launched": False}
    assert ask(pool.home / "sources", launch="a run", module=MODULE) == {}
