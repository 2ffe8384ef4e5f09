"""Real processes: a master that stands still is fenced when it goes on, and one that is killed loses nothing."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from contextlib import suppress
from itertools import count
from multiprocessing import get_context
from pathlib import Path

import pytest

from feed_assets.workflow.places import create_workflow, open_board
from feed_assets.workflow.reigns import take_over
from feed_assets_tests.workflow.killed import DONE, serve
from feed_assets_tests.workflow.states import Mutations

WRITES = """
import sys
from feed_assets.workflow.errors import WorkflowError
from feed_assets.workflow.places import open_board, open_workflow
from feed_assets.workflow.reigns import take_over
from feed_assets_tests.workflow.states import Mutations

place = open_workflow(open_board(sys.argv[1]), "revenue")
reign, state = take_over(place, Mutations, address="")
try:
    while True:
        mutation = b"%d" % state.position
        reign.append(state.position + 1, [mutation])
        state.replay(mutation)
        print(mutation.decode(), flush=True)
except WorkflowError as error:
    print(type(error).__name__, flush=True)
"""


@pytest.fixture(params=["disk", "s3"])
def base(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    if request.param == "disk":
        return str(tmp_path / "base")
    server = request.getfixturevalue("versitygw")
    server.client().create_bucket(Bucket="workflows")
    for name, value in server.environment.items():
        monkeypatch.setenv(name, value)
    return "s3://workflows/base"


def test_a_master_that_stood_still_while_another_took_over_is_refused_and_ends(base: str) -> None:
    place = create_workflow(open_board(base), "revenue")
    stopped = subprocess.Popen([sys.executable, "-c", WRITES, base], stdout=subprocess.PIPE, text=True)
    assert stopped.stdout is not None
    acknowledged = [stopped.stdout.readline().strip() for _ in range(3)]
    os.kill(stopped.pid, signal.SIGSTOP)

    reign, state = take_over(place, Mutations, address="", failover_after=0.5)
    reign.append(state.position + 1, [b"of the second"])
    os.kill(stopped.pid, signal.SIGCONT)
    *more, end = stopped.communicate(timeout=60)[0].split()
    reign.resign()

    assert end == "SupersededError"
    _, later = take_over(place, Mutations, address="")
    assert later.all == [*state.all, b"of the second"]
    assert [each.decode() for each in state.all[: len(acknowledged)]] == acknowledged
    assert {*more} <= {each.decode() for each in state.all}  # answers that it printed before it stood still


def answers_of(base: str, kill_at: int) -> list[bytes]:
    """What a master has sent that was killed at this request."""
    context = get_context("forkserver")
    ours, theirs = context.Pipe(duplex=False)
    process = context.Process(target=serve, args=(base, kill_at, theirs))
    process.start()
    theirs.close()
    found = []
    with suppress(EOFError):
        while True:
            found.append(ours.recv_bytes())
    process.join()
    return found


@pytest.mark.slow
def test_a_master_that_is_killed_at_any_request_loses_nothing_and_the_next_need_not_wait(tmp_path: Path) -> None:
    kills = 0
    for request in count(1):
        for kill_at in (request, -request):
            base = str(tmp_path / f"{kill_at}")
            place = create_workflow(open_board(base), "revenue")
            acknowledged = answers_of(base, kill_at)
            if DONE in acknowledged:
                assert kills > 60
                return
            kills += 1

            # Whoever waited for a heartbeat would wait for an hour.
            reign, state = take_over(place, Mutations, address="", failover_after=3600)
            reign.resign()
            assert state.all[: len(acknowledged)] == acknowledged, kill_at
            assert len(state.all) - len(acknowledged) <= 1, kill_at
