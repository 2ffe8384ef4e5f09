"""Ctrl-C, wherever it comes, leaves nothing that a reader could mistake for an update."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from click.testing import Result

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
    stdout, stderr = publishing.communicate(timeout=60)
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
    _, stderr = publishing.communicate(timeout=60)
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
    stdout, stderr = checking.communicate(timeout=120)

    assert (checking.returncode, stdout) == (130, "")
    assert "Interrupted" in stderr
    for part in ("Traceback", "Exception", "py4j"):
        assert part not in stderr
