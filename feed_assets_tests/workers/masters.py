"""A master of a workflow in a process of its own: `python -m feed_assets_tests.workers.masters BASE NAME`."""

from __future__ import annotations

import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

from feed_assets.serving.tokens import KnownTokens
from feed_assets.state.store import Store
from feed_assets.workflow.client import Client
from feed_assets.workflow.finding import client_of
from feed_assets.workflow.places import create_workflow, open_board, open_workflow
from feed_assets.workflow.running import run_master
from feed_assets_tests import ROOT


@contextmanager
def served(base: Path, name: str) -> Iterator[Client]:
    """A client of a master that runs while the block does."""
    with subprocess.Popen(
        [sys.executable, "-m", __name__, str(base), name], cwd=ROOT, stdout=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        try:
            assert process.stdout.readline() == b"ready\n"
            yield client_of(open_workflow(open_board(str(base)), name), "a test")
        finally:
            process.terminate()


def main(base: str, name: str) -> None:
    """Be the master until SIGTERM."""
    place = create_workflow(open_board(base), name)
    listening = socket.create_server(("127.0.0.1", 0))
    url = f"http://127.0.0.1:{listening.getsockname()[1]}"
    tokens = KnownTokens(Store(f"sqlite:///{base}/tokens.db"))
    tokens.refresh()
    run_master(
        place, listening, url, tokens=tokens, now=lambda: datetime.now(UTC), ready=lambda _: print("ready", flush=True)
    )


if __name__ == "__main__":
    main(*sys.argv[1:])
