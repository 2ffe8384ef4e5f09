"""The command line as tests run it: in this process, and as a program of its own."""

from __future__ import annotations

import fcntl
import os
import pty
import struct
import subprocess
import sys
import termios
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import click
import pytest
from click.testing import CliRunner, Result

from feed_assets.blackboard.location import open_blackboard
from feed_assets.cli.main import main
from feed_assets_tests.blackboard.recording import RecordingBlackboard
from feed_assets_tests.harness import DAY, Installation
from feed_assets_tests.waiting import HANGS

NOON = "2019-12-01T12:00:00"

Requests = Callable[[], "Counter[str]"]
Run = Callable[..., Result]
Program = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch) -> Run:
    """Runs a command in this process at noon; its exit code must be `code`; None allows any."""
    monkeypatch.setenv("FEED_ASSETS_AS_OF", NOON)

    def run(*arguments: object, code: int | None = 0) -> Result:
        result = CliRunner().invoke(main, [str(each) for each in arguments])
        assert code in {None, result.exit_code}, (result.output, result.exception)
        return result

    return run


@pytest.fixture
def triggered(desk: Installation, monkeypatch: pytest.MonkeyPatch) -> Installation:
    """An installation whose assets have triggers, also for commands, with raw ads of an hour; the user is ann."""
    installation = replace(desk, settings=replace(desk.settings, gate=True), _definitions=None)
    for name, value in {
        "BASE": str(desk.base),
        "SOURCES": str(desk.settings.sources_directory),
        "FIRST_DAY": "2019-11-20",
        "GATE": "1",
        "STATE": installation.settings.state,
    }.items():
        monkeypatch.setenv(f"FEED_ASSETS_{name}", value)
    monkeypatch.setenv("LOGNAME", "ann")
    installation.raw_bytes(DAY, {"x": 1000}, hour="15")
    return installation


@pytest.fixture
def requests(monkeypatch: pytest.MonkeyPatch) -> Requests:
    """How many requests of each kind a command that runs in this process makes."""
    boards: list[RecordingBlackboard] = []

    def recorded(uri: str) -> RecordingBlackboard:
        boards.append(RecordingBlackboard(open_blackboard(uri)))
        return boards[-1]

    def counts() -> Counter[str]:
        total = sum((board.counts() for board in boards), Counter[str]())
        boards.clear()
        return total

    monkeypatch.setattr("feed_assets.file_feed.feed.open_blackboard", recorded)
    return counts


@pytest.fixture
def program() -> Program:
    """Runs a command as a program of its own, with pipes for its output."""

    def run(*arguments: object, environment: Mapping[str, str] | None = None) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "feed_assets.cli", *map(str, arguments)],
            capture_output=True,
            text=True,
            check=False,
            env={**os.environ, "FEED_ASSETS_AS_OF": NOON, **(environment or {})},
        )

    return run


@pytest.fixture
def program_on() -> Callable[..., str]:
    """Runs a command on a terminal with so many columns, and returns what it shows there, without colours."""

    def run(width: int, *arguments: object) -> str:
        main_side, program_side = pty.openpty()
        fcntl.ioctl(program_side, termios.TIOCSWINSZ, struct.pack("HHHH", 50, width, 0, 0))
        environment = {name: value for name, value in os.environ.items() if name not in {"COLUMNS", "LINES"}}
        process = subprocess.Popen(
            [sys.executable, "-m", "feed_assets.cli", *map(str, arguments)],
            stdin=subprocess.DEVNULL,
            stdout=program_side,
            stderr=program_side,
            env={**environment, "FEED_ASSETS_AS_OF": NOON, "TERM": "xterm-256color"},
        )
        os.close(program_side)
        parts = []
        with suppress(OSError):
            while part := os.read(main_side, 65536):
                parts.append(part)
        os.close(main_side)
        process.wait(timeout=HANGS)
        return click.unstyle(b"".join(parts).decode())

    return run


@pytest.fixture
def written(tmp_path: Path) -> Callable[[str, str], Path]:
    """Writes a local file, to be published."""

    def write(name: str, content: str) -> Path:
        path = tmp_path / "local" / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(content)
        return path

    return write
