"""A child exchanges messages with its parent, ends with it, and gets Ctrl-C only from it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from multiprocessing import get_context
from multiprocessing.connection import Connection
from pathlib import Path

import pytest

from feed_assets.processes.child import Child, end_with_parent, first_ready, leave_signals, take_signals
from feed_assets_tests import ROOT
from feed_assets_tests.waiting import until


def echo(parent: Connection, greeting: str) -> None:
    """Send a greeting, and then each message back, until one is empty."""
    take_signals()
    try:
        parent.send(greeting)
        while message := parent.recv():
            parent.send(message)
    except KeyboardInterrupt:
        parent.send("interrupted")


def deaf(parent: Connection) -> None:
    leave_signals(signal.SIGINT, signal.SIGTERM)
    parent.send("ready")
    parent.recv()


def bound(parent: Connection) -> None:
    end_with_parent()
    parent.send(os.getpid())
    time.sleep(600)


@pytest.fixture
def context():
    return get_context("spawn")


def taken(child: Child) -> str:
    assert child.connection.poll(60)
    return str(child.connection.recv())


def test_messages_go_both_ways_and_the_end_is_seen(context) -> None:
    child = Child.start(echo, "hello", name="echo", context=context)
    assert taken(child) == "hello"
    child.send("one")
    first_ready([child], seconds=60)
    assert list(child.received()) == ["one"]
    assert (child.is_alive, child.exit_code) == (True, None)

    child.send("")
    child.join()
    child.send("to nobody")

    assert (list(child.received()), child.is_alive, child.exit_code) == ([], False, 0)


def test_ctrl_c_reaches_a_child_that_takes_it_from_its_parent_and_none_that_leaves_it(context) -> None:
    taking, leaving = (
        Child.start(echo, "hello", name="a", context=context),
        Child.start(deaf, name="b", context=context),
    )
    assert (taken(taking), taken(leaving)) == ("hello", "ready")
    assert os.getpgid(taking.process.pid) != os.getpgid(0)

    taking.interrupt()
    leaving.interrupt()
    leaving.terminate()

    assert taken(taking) == "interrupted"
    taking.join()
    assert leaving.is_alive
    leaving.kill()
    assert (taking.exit_code, leaving.exit_code) == (0, -signal.SIGKILL)
    taking.interrupt()


def test_a_child_ends_when_its_parent_was_killed() -> None:
    code = """
import time
from multiprocessing import get_context
from feed_assets.processes.child import Child
from feed_assets_tests.processes.test_child import bound
if __name__ == "__main__":
    child = Child.start(bound, name="bound", context=get_context("spawn"))
    print(child.connection.recv(), flush=True)
    time.sleep(600)
"""
    parent = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True, cwd=ROOT)
    assert parent.stdout is not None
    pid = int(parent.stdout.readline())
    parent.kill()
    parent.wait()

    until(lambda: not Path(f"/proc/{pid}/cmdline").exists() or not Path(f"/proc/{pid}/cmdline").read_bytes())
