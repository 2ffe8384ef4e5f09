"""The bar of progress and the lines that are printed beside it, on a terminal and through a pipe."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
from contextlib import suppress

import pytest

THREE_STEPS = """
from feed_assets.cli.output import progress
with progress("steps", 3) as advance:
    for step in range(3):
        advance(f"[b]step {step}[/b] :warning:")
"""
ON_A_SCREEN = {**os.environ, "TERM": "xterm-256color"}
LINES = "".join(f"[b]step {step}[/b] :warning:\n" for step in range(3))


def shown(terminal: int) -> str:
    """What a terminal got, until the other side closed it."""
    parts = []
    with suppress(OSError):
        while part := os.read(terminal, 65536):
            parts.append(part)
    os.close(terminal)
    return b"".join(parts).decode()


@pytest.fixture
def terminal():
    """Both sides of a terminal: the one that shows, and the one that a program writes to."""
    master, slave = pty.openpty()
    return master, slave


def test_on_a_terminal_each_line_has_a_line_of_its_own_above_the_bar(terminal):
    master, slave = terminal
    program = subprocess.Popen([sys.executable, "-c", THREE_STEPS], stdout=slave, stderr=slave, env=ON_A_SCREEN)
    os.close(slave)

    seen = shown(master)

    assert program.wait() == 0
    assert "steps" in seen
    assert "3/3" in seen
    for line in LINES.splitlines():
        before, found, after = seen.partition(line)
        assert found, seen
        assert before.endswith(("\x1b[2K", "\n")), seen
        assert after.startswith("\r\n"), seen


def test_a_pipe_gets_the_lines_and_the_terminal_the_bar(terminal):
    master, slave = terminal
    program = subprocess.Popen(
        [sys.executable, "-c", THREE_STEPS], stdout=subprocess.PIPE, stderr=slave, text=True, env=ON_A_SCREEN
    )
    os.close(slave)

    stdout, _ = program.communicate()
    seen = shown(master)

    assert (program.returncode, stdout) == (0, LINES)
    assert "3/3" in seen
    assert "step 0" not in seen


def test_publishing_shows_which_file_is_sent_and_how_large_it_is(terminal, tmp_path):
    master, slave = terminal
    for name in ("a.csv", "b.csv"):
        (tmp_path / name).write_bytes(bytes(2_000_000))
    files = [tmp_path / "a.csv", tmp_path / "b.csv"]
    program = subprocess.Popen(
        [sys.executable, "-m", "feed_assets.cli", "feed", "publish", tmp_path / "feed", *files],
        stdout=subprocess.DEVNULL,
        stderr=slave,
        env=ON_A_SCREEN,
    )
    os.close(slave)

    seen = shown(master)

    assert program.wait() == 0
    assert "b.csv (2 MB)" in seen
    assert "2/2" in seen


def test_without_a_terminal_there_is_no_bar():
    done = subprocess.run([sys.executable, "-c", THREE_STEPS], capture_output=True, text=True, check=True)

    assert (done.stdout, done.stderr) == (LINES, "")
