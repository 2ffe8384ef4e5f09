"""Ctrl-C, wherever it comes, leaves nothing that a reader could mistake for an update."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result

from feed_assets.processes import group
from feed_assets.processes.group import run_until_interrupted
from feed_assets_tests.listening import free_port
from feed_assets_tests.waiting import HANGS, until

pytestmark = pytest.mark.slow

Run = Callable[..., Result]
Written = Callable[[str, str], Path]


def test_ctrl_c_in_the_middle_of_a_large_file_publishes_nothing(run: Run, written: Written, tmp_path: Path):
    feed = tmp_path / "f"
    run("feed", "publish", feed, written("a.csv", "x\n"))
    endless = tmp_path / "endless.csv"
    os.mkfifo(endless)
    publishing = subprocess.Popen(
        [sys.executable, "-m", "feed_assets.cli", "feed", "publish", feed, written("b.csv", "x\n"), endless],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    with endless.open("wb") as pipe:
        pipe.write(bytes(4 * 1024 * 1024))
        pipe.flush()  # a pipe holds far less, so by now the other side is in the middle of it
        publishing.send_signal(signal.SIGINT)
    stdout, stderr = publishing.communicate(timeout=HANGS)
    assert (publishing.returncode, stdout) == (130, "")
    assert "Interrupted" in stderr
    assert "Traceback" not in stderr

    assert json.loads(run("feed", "latest", feed, "--json").stdout)["update"] == "20191201.120000"
    newest, oldest = json.loads(run("feed", "ls", feed, "--json").stdout)
    assert (newest["state"], oldest["state"]) == ("incomplete", "valid")
    assert not list(feed.rglob("endless.csv"))
    run("feed", "publish", feed, written("c.csv", "x\n"))


def test_ctrl_c_is_exit_code_130_also_where_nothing_was_written(tmp_path: Path):
    waiting = tmp_path / "waiting.csv"
    os.mkfifo(waiting)
    publishing = subprocess.Popen(
        [sys.executable, "-m", "feed_assets.cli", "feed", "publish", tmp_path / "f", waiting],
        stderr=subprocess.PIPE,
        text=True,
    )
    # Closed after it: a signal just before Python begins to read waits until something comes, if only the end.
    with waiting.open("wb"):
        publishing.send_signal(signal.SIGINT)
    _, stderr = publishing.communicate(timeout=HANGS)
    assert publishing.returncode == 130, stderr
    assert not list((tmp_path / "f").rglob("_SUCCESS"))


def test_ctrl_c_while_spark_starts_is_answered_without_a_stack_trace():
    checking = subprocess.Popen(
        [sys.executable, "-m", "feed_assets.cli", "sources", "check"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "FEED_ASSETS_SPARK_MASTER": "local[1]"},
    )
    children = Path(f"/proc/{checking.pid}/task/{checking.pid}/children")
    while not children.read_text():
        assert checking.poll() is None
        time.sleep(0.05)
    # Java runs, and has not said yet where it listens: Spark then answers an interruption with Java's stack trace.
    time.sleep(0.5)
    checking.send_signal(signal.SIGINT)
    stdout, stderr = checking.communicate(timeout=HANGS)

    assert checking.returncode == 130
    assert stdout == ""
    assert "Interrupted" in stderr
    for part in ("Traceback", "Exception", "py4j"):
        assert part not in stderr


@pytest.mark.parametrize("moment", [0.3, 1.5, 6.0])
def test_ctrl_c_in_a_backfill_ends_all_its_processes_without_a_stack_trace(tmp_path: Path, moment: float):
    shutil.copy(Path(__file__).parents[2] / "dagster.yaml", tmp_path)
    place = {"DAGSTER_HOME": str(tmp_path), "FEED_ASSETS_BASE": str(tmp_path / "data")}
    command = [sys.executable, "-m", "feed_assets.cli", "backfill", "--from", "2019-11-24", "--to", "2019-11-29"]
    computing = subprocess.Popen(
        [*command, "--at-once", "2"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, **place, "FEED_ASSETS_SPARK_MASTER": "local[1]"},
        start_new_session=True,
    )
    children = Path(f"/proc/{computing.pid}/task/{computing.pid}/children")
    started: set[str] = set()
    while len(started) < 2:  # what tracks resources, and the first of the processes
        assert computing.poll() is None
        time.sleep(0.02)
        started |= set(children.read_text().split())
    time.sleep(moment)
    started |= set(children.read_text().split())
    os.killpg(computing.pid, signal.SIGINT)  # as a terminal does
    _, stderr = computing.communicate(timeout=HANGS)

    assert computing.returncode == 130, stderr
    assert stderr.strip() == "Interrupted. Unfinished updates stay invisible to readers."
    until(lambda: not any(map(is_running, started)))


INTERRUPTED_IN_A_CALLBACK = """
import signal, sys, time
from contextlib import nullcontext
import click
from dagster._core.errors import DagsterExecutionInterruptedError, raise_execution_interrupts
from feed_assets.cli.exit_codes import explained_errors

in_a_run = sys.argv.pop() == "in a run"

class Callback:
    def __del__(self):
        signal.raise_signal(signal.SIGINT)

@click.command()
@click.pass_context
def command(ctx):
    with explained_errors(ctx):
        try:
            with raise_execution_interrupts() if in_a_run else nullcontext():
                exec("Callback()")
                time.sleep(3600)
                print("The interrupt was lost.")
        except DagsterExecutionInterruptedError:
            raise KeyboardInterrupt from None

command()
"""


@pytest.mark.parametrize("moment", ["before a run", "in a run"])
def test_ctrl_c_that_python_drops_in_a_callback_ends_a_command_that_waits(moment: str):
    command = [sys.executable, "-c", INTERRUPTED_IN_A_CALLBACK, moment]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=HANGS)

    assert (done.returncode, done.stdout) == (130, "")
    assert done.stderr.strip() == "Interrupted. Unfinished updates stay invisible to readers."


def is_running(pid: str) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


STARTS_TWO = """
import os, signal, subprocess, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN if sys.argv[2] == "deaf" else lambda *_: sys.exit())
if sys.argv[1] != "0":
    subprocess.Popen([sys.executable, __file__, str(int(sys.argv[1]) - 1), sys.argv[2]])
print("started", os.getpid(), flush=True)
try:
    time.sleep(600)
finally:
    print("a stack trace", flush=True)
"""
RUNS_IT = """
import sys
from feed_assets.processes import group
group.GRACE = 1
print(group.run_until_interrupted(sys.argv[1:], say=print), flush=True)
"""


@pytest.mark.parametrize("manner", ["polite", "deaf"])
@pytest.mark.parametrize("ending", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_program_that_runs_until_ctrl_c_ends_quietly_with_all_that_it_started(
    tmp_path: Path, ending: signal.Signals, manner: str
):
    program = tmp_path / "starts_two.py"
    program.write_text(STARTS_TWO)
    running = subprocess.Popen(
        [sys.executable, "-c", RUNS_IT, sys.executable, program, "2", manner],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    assert running.stderr is not None
    started = [running.stderr.readline().split() for _ in range(3)]
    os.killpg(running.pid, ending)
    stdout, stderr = running.communicate(timeout=HANGS)

    assert (running.returncode, stdout, stderr) == (0, "None\n", "")
    assert [is_running(pid) for _, pid in started] == [False] * 3


def test_the_program_beside_starts_again_if_it_fails_and_ends_with_the_first(tmp_path: Path, monkeypatch, capfd):
    monkeypatch.setattr(group, "START_AGAIN_AFTER", 0.0)
    starts = tmp_path / "starts"
    starts.touch()
    fails = f"open({str(starts)!r}, 'a').write('x'); exit(3)"
    waits = f"import os, time\nwhile os.path.getsize({str(starts)!r}) < 2: time.sleep(.05)"

    said: list[str] = []

    assert run_until_interrupted([sys.executable, "-c", waits], [sys.executable, "-c", fails], say=said.append) == 0
    assert "ended with exit code 3, and starts again" in said[0]


def test_ctrl_c_ends_dev_while_dagster_starts_with_one_word(tmp_path: Path):
    environment = {
        "FEED_ASSETS_BASE": str(tmp_path / "data"),
        "DAGSTER_HOME": "",
        "PYTHONUNBUFFERED": "1",
    }
    running = subprocess.Popen(
        [sys.executable, "-m", "feed_assets.cli", "dev", "--port", str(free_port())],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env={**os.environ, **environment},
        cwd=tmp_path,
        start_new_session=True,
    )
    assert running.stdout is not None
    assert "Dagster keeps its runs in" in running.stdout.readline()
    assert "Data: " in running.stdout.readline()
    assert "Ctrl-C ends it" in running.stdout.readline()
    time.sleep(4)  # Dagster loads; its parts follow one after the other
    os.killpg(running.pid, signal.SIGINT)
    output, _ = running.communicate(timeout=HANGS)

    assert (running.returncode, output.splitlines()[-1]) == (130, "Stopped.")
    assert "Traceback" not in output
    assert "Aborted" not in output
