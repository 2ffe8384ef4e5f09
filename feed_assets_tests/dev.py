"""A `feed-assets dev` with a Dagster home of its own, and questions to its UI.

Here: the processes, GraphQL, and waiting. Not here: any expectation.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from feed_assets_tests import ROOT
from feed_assets_tests.listening import free_port
from feed_assets_tests.waiting import HANGS

MODULE = "feed_assets.definitions"
FREQUENT_DAEMON = Path(__file__).with_name("frequent_daemon")
"""A folder for PYTHONPATH, with which Dagster's daemon looks for backfills every three seconds instead of every 30."""

Answer = TypeVar("Answer")

LOADED = """
{ repositoriesOrError { ... on RepositoryConnection { nodes { name
    assetNodes { assetKey { path } } sensors { name sensorState { status } } } } } }
"""
LAUNCH = """
mutation($params: ExecutionParams!) { launchPipelineExecution(executionParams: $params) {
    __typename ... on LaunchRunSuccess { run { runId } } ... on PythonError { message } } }
"""
RUN = """
query($id: ID!) { runOrError(runId: $id) { ... on Run { status startTime endTime } } }
"""


class Dev:
    """A `feed-assets dev` in a process group of its own, with the Dagster home `home`."""

    def __init__(self, home: Path, environment: Mapping[str, str]) -> None:
        self.home, self.port = home, free_port()
        home.mkdir(exist_ok=True)
        if not (home / "dagster.yaml").exists():
            shutil.copy(ROOT / "dagster.yaml", home)
        self.log = home / "dev.log"
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "feed_assets.cli", "--module", MODULE, "dev", "--port", str(self.port)],
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

    def loaded(self) -> Any:
        """The repository, as soon as it is loaded."""

        def look() -> Any:
            nodes = self.ask(LOADED)["repositoriesOrError"].get("nodes")
            return nodes[0] if nodes else None

        return self.until(look, "loaded definitions")

    def launch(self, assets: Sequence[str], day: str, **more: Any) -> str:
        """Launch a run of assets for a day, as a click on Materialize does. Returns its id."""
        selector = {
            "repositoryLocationName": MODULE,
            "repositoryName": "__repository__",
            "pipelineName": "__ASSET_JOB",
            "assetSelection": [{"path": [name]} for name in assets],
        }
        tags = [{"key": "dagster/partition", "value": day}]
        launched = self.ask(LAUNCH, params={"selector": selector, "executionMetadata": {"tags": tags}, **more})
        assert "run" in launched["launchPipelineExecution"], launched
        return str(launched["launchPipelineExecution"]["run"]["runId"])

    def ended(self, run_id: str) -> Any:
        """The run, when it has ended."""

        def look() -> Any:
            run = self.ask(RUN, id=run_id)["runOrError"]
            return run if run["status"] in {"SUCCESS", "FAILURE", "CANCELED"} else None

        return self.until(look, "finished run")

    def until(self, look: Callable[[], Answer], what: str, *, every: float = 0.1) -> Answer:
        """The first answer that says something. Fails with the log's end where there is none in time."""
        deadline = time.monotonic() + HANGS
        while time.monotonic() < deadline:
            assert self.process.poll() is None, self.log.read_text()[-3000:]
            with contextlib.suppress(urllib.error.URLError, ConnectionError, TimeoutError):
                if answer := look():
                    return answer
            time.sleep(every)
        raise AssertionError(f"no {what} within {HANGS} s:\n{self.log.read_text()[-5000:]}")

    def stop(self) -> int:
        """Ctrl-C; returns the exit code."""
        os.killpg(self.process.pid, signal.SIGINT)
        try:
            return self.process.wait(timeout=HANGS)
        except subprocess.TimeoutExpired:
            os.killpg(self.process.pid, signal.SIGKILL)
            raise
