"""The processes of `deploy/`, started as its systemd units start them, on free ports of 127.0.0.1.

Here: unit files, environment, processes, and questions to the webserver. Not here: any test.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping
from configparser import RawConfigParser
from pathlib import Path
from typing import Any, TypeVar

import psutil
import pytest

from feed_assets_tests import ROOT
from feed_assets_tests.listening import family, free_port
from feed_assets_tests.waiting import HANGS

DEPLOY = ROOT / "deploy"
PROGRAMS = Path(sys.executable).parent
INSTALLED = "/opt/feed-assets/bin/"
UNITS = ("code", "daemon", "webserver")

Answer = TypeVar("Answer")


def unit(name: str) -> RawConfigParser:
    """A unit file."""
    parser = RawConfigParser(strict=False)
    parser.optionxform = str  # type: ignore[assignment,method-assign]
    parser.read(DEPLOY / "systemd" / f"feed-assets-{name}.service", encoding="utf-8")
    return parser


def environment_file() -> dict[str, str]:
    """The variables of the environment file, as systemd reads them."""
    lines = (DEPLOY / "feed-assets.env").read_text(encoding="utf-8").splitlines()
    return dict(line.split("=", 1) for line in lines if line and not line.startswith("#"))


class Deployment:
    """A Dagster home with the files of `deploy/`, and the processes that work on it."""

    def __init__(self, home: Path, values: Mapping[str, str]) -> None:
        home.mkdir()
        for name in ("dagster.yaml", "workspace.yaml"):
            shutil.copy(DEPLOY / name, home)
        ports = {f"FEED_ASSETS_{name}_PORT": str(free_port()) for name in ("UI", "CODE")}
        declared = environment_file()
        given = {**ports, **values, "DAGSTER_HOME": str(home)}
        assert set(declared) <= set(given) | {"FEED_ASSETS_UI_HOST", "FEED_ASSETS_CODE_HOST", "FEED_ASSETS_LOG_LEVEL"}
        self.environment = {**declared, **given}
        self.home, self.processes = home, dict[str, subprocess.Popen[bytes]]()

    def start(self, name: str) -> None:
        """Start the program of a unit, and wait until its unit counts as started."""
        environment = {**os.environ, **self.environment, "PATH": f"{PROGRAMS}{os.pathsep}{os.environ['PATH']}"}
        with self.log(name).open("ab") as out, self.log(name, "err").open("ab") as err:
            self.processes[name] = subprocess.Popen(
                self.command(name, "ExecStart"),
                cwd=ROOT,
                env=environment,
                stdout=out,
                stderr=err,
                start_new_session=True,
            )
        if "ExecStartPost" in unit(name)["Service"]:
            command = self.command(name, "ExecStartPost")
            subprocess.run(command, env=environment, check=True, timeout=HANGS, capture_output=True)

    def command(self, name: str, setting: str) -> list[str]:
        """A command of a unit, with the programs of this environment."""
        text = unit(name)["Service"][setting].replace(INSTALLED, f"{PROGRAMS}/")
        return shlex.split(re.sub(r"\$\{(\w+)\}", lambda each: self.environment[each[1]], text))

    def family(self) -> list[psutil.Process]:
        """All processes of the units, runs included."""
        return [process for each in self.processes.values() for process in family(each.pid)]

    def log(self, name: str, stream: str = "out") -> Path:
        """The file with the output of a unit."""
        return self.home / f"{name}.{stream}"

    def kill(self, name: str) -> None:
        """End a unit with SIGKILL, and all its processes."""
        process = self.processes.pop(name)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait(10)

    def ask(self, query: str, **variables: Any) -> Any:
        """The answer to a GraphQL query, as the UI asks it."""
        request = urllib.request.Request(
            f"http://127.0.0.1:{self.environment['FEED_ASSETS_UI_PORT']}/graphql",
            json.dumps({"query": query, "variables": variables}).encode(),
            {"Content-Type": "application/json"},
        )
        with urllib.request.urlopen(request, timeout=30) as response:
            answer = json.load(response)
        assert "errors" not in answer, answer
        return answer["data"]

    def until(self, look: Callable[[], Answer], what: str) -> Answer:
        """The first true answer. Fails with the ends of the logs if there is none in time, or if a process ended."""
        deadline = time.monotonic() + HANGS
        while time.monotonic() < deadline and all(each.poll() is None for each in self.processes.values()):
            with contextlib.suppress(urllib.error.URLError, ConnectionError, TimeoutError):
                if answer := look():
                    return answer
            time.sleep(0.2)
        ends = [f"{path}:\n{path.read_text()[-3000:]}" for path in sorted(self.home.glob("*.???")) if path.is_file()]
        pytest.fail(f"no {what}:\n" + "\n".join(each for each in ends if "yaml" not in each[:200]))

    def stop(self) -> None:
        """End all processes."""
        for name in list(self.processes):
            self.kill(name)
