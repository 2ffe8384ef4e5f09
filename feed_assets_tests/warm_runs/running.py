"""A pool of real workers, and Dagster's own parts that reach it: the UI's mutations, the queue, the retries.

Here: the processes, and steps of Dagster's daemon in the process of the test. Not here: any test.
"""

from __future__ import annotations

import logging
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import dagster as dg
import pytest
from dagster._core.workspace.context import WorkspaceProcessContext
from dagster._core.workspace.load_target import ModuleTarget
from dagster._daemon.auto_run_reexecution.event_log_consumer import EventLogConsumerDaemon
from dagster._daemon.run_coordinator.queued_run_coordinator_daemon import QueuedRunCoordinatorDaemon
from dagster_graphql.test.utils import execute_dagster_graphql

from feed_assets_tests.dev import LAUNCH, ROOT
from feed_assets_tests.waiting import until

CANCELED, FAILURE, SUCCESS = dg.DagsterRunStatus.CANCELED, dg.DagsterRunStatus.FAILURE, dg.DagsterRunStatus.SUCCESS
TERMINATE = """
mutation($id: String!) { terminateRun(runId: $id) { __typename ... on TerminateRunFailure { message } } }
"""


class Workers:
    """A pool for a Dagster home of its own, and the runs that the UI launches there."""

    def __init__(self, home: Path, module: str, workspace: WorkspaceProcessContext, process: Any) -> None:
        self.home, self.module, self.workspace, self.process = home, module, workspace, process
        self.instance = workspace.instance

    @property
    def pool(self) -> Mapping[str, Any]:
        """What the run launcher knows of the pool."""
        launcher: Any = self.instance.run_launcher
        return dict(launcher.pool())

    def ask(self, query: str, **variables: Any) -> Any:
        """The answer to a GraphQL query, as the webserver gives it."""
        answer = execute_dagster_graphql(self.workspace.create_request_context(), query, variables)
        assert not answer.errors, answer.errors
        return answer.data

    def launch(
        self, *assets: str, config: Mapping[str, Any] | None = None, day: str | None = None, job: str = "__ASSET_JOB"
    ) -> Run:
        """A run of these assets, launched as the UI does and taken from the queue at once."""
        params = {
            "selector": {
                "repositoryLocationName": self.module,
                "repositoryName": "__repository__",
                "pipelineName": job,
                "assetSelection": [{"path": [name]} for name in assets],
            },
            "runConfigData": config or {},
            "executionMetadata": {"tags": [{"key": "dagster/partition", "value": day}] if day else []},
        }
        launched = self.ask(LAUNCH, params=params)["launchPipelineExecution"]
        assert "run" in launched, launched
        self.dequeue()
        return Run(self, launched["run"]["runId"])

    def dequeue(self) -> None:
        """Let Dagster's daemon launch the runs of its queue."""
        daemon = QueuedRunCoordinatorDaemon(interval_seconds=1)
        assert [error for error in daemon.run_iteration(self.workspace) if error] == []

    def retry(self, run: Run) -> Run:
        """Let Dagster's daemon retry this run, which has failed."""
        assert [error for error in EventLogConsumerDaemon().run_iteration(self.workspace) if error] == []
        (again,) = [each for each in self.instance.get_runs() if each.parent_run_id == run.id]
        self.dequeue()
        return Run(self, again.run_id)


class Run:
    """A run that has been launched."""

    def __init__(self, workers: Workers, run_id: str) -> None:
        self._workers, self.id = workers, run_id

    @property
    def status(self) -> dg.DagsterRunStatus:
        """Its status at its end."""
        return until(lambda: (run := self._workers.instance.get_run_by_id(self.id)) and run.is_finished and run.status)

    @property
    def messages(self) -> list[str]:
        """What its log says."""
        return [entry.message for entry in self._workers.instance.all_logs(self.id)]

    @property
    def worker(self) -> int | None:
        """The process of the worker that took it; None if it has a process of its own."""
        takes = [message for message in self.messages if message.startswith("A worker takes the run")]
        return int(takes[-1].rpartition(" ")[2].rstrip(").")) if takes else None

    def terminate(self) -> None:
        """As the UI does."""
        answer = self._workers.ask(TERMINATE, id=self.id)["terminateRun"]
        assert answer["__typename"] == "TerminateRunSuccess", answer


def is_running(process_id: int) -> bool:
    """Whether there is such a process."""
    return Path(f"/proc/{process_id}").exists()


@contextmanager
def running(
    home: Path, module: str, environment: Mapping[str, str], arguments: Sequence[str] = ()
) -> Iterator[Workers]:
    """Workers for a module, with the `dagster.yaml` that `feed-assets dev` writes. Ends them, which must end well."""
    home.mkdir(exist_ok=True)
    shutil.copy(ROOT / "dagster.yaml", home)
    with pytest.MonkeyPatch.context() as patch:
        for name, value in {"DAGSTER_HOME": str(home), "PYTHONPATH": str(ROOT), **environment}.items():
            patch.setenv(name, value)
        sys.modules.pop(module, None)  # it may have read other variables when an earlier test loaded it
        process = start_pool(home, module, *arguments)
        target = ModuleTarget(module, None, str(ROOT), location_name=module)
        with dg.DagsterInstance.get() as instance, WorkspaceProcessContext(instance, target) as workspace:
            workers = Workers(home, module, workspace, process)
            # Dagster's daemon retries runs that fail after its first look.
            list(EventLogConsumerDaemon().run_iteration(workspace))
            until(lambda: workers.pool)
            logging.getLogger("dagster").setLevel(logging.WARNING)
            yield workers
            workers.process.terminate()
            assert workers.process.wait(30) == 0


def start_pool(home: Path, module: str, *arguments: str, log: Path | None = None) -> subprocess.Popen[bytes]:
    """A pool for the home of DAGSTER_HOME; its working directory is this one."""
    command = [sys.executable, "-m", "feed_assets.warm_runs", module, *arguments]
    with (log or home / "workers.log").open("ab") as output:
        return subprocess.Popen(command, cwd=home, env=os.environ, stderr=output)
