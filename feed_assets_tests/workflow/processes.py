"""Real processes of a workflow: `python -m feed_assets_tests.workflow.processes master|worker BASE NAME`.

Here: a master and a worker without Dagster, Spark and a database that others share, a small flow of three stages with a
barrier and an effect, where a master is killed or stopped, and rules that can be switched off. Not here: judging what
they have done (`judged`).
"""

from __future__ import annotations

import argparse
import json
import logging
import os
import signal
import socket
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

from feed_assets.blackboard.port import AlreadyExistsError, Blackboard
from feed_assets.journal.numbered import NumberedEntries
from feed_assets.serving.tokens import KnownTokens
from feed_assets.state.address import sqlite_url
from feed_assets.state.store import Store
from feed_assets.workflow import epochs, machine
from feed_assets.workflow.calls import Answer, Commit, Refused
from feed_assets.workflow.client import Client
from feed_assets.workflow.epochs import Heart, Pace, newest_address
from feed_assets.workflow.flow import Work, Workflow
from feed_assets.workflow.places import Place, create_workflow, open_board
from feed_assets.workflow.running import run_master
from feed_assets.workflow.worker import Worker

PARTS: Final = 3
EFFECTS: Final = "effects/"
TWICE: Final = "twice/"
CHUNKS: Final = 10
"""Pieces of work of a long task, each followed by a checkpoint."""


def flow_of(name: str, *, seconds: float = 60.0, pause: float = 0.0) -> Workflow:
    """split -> convert -> total -> show: an order in parts, converted, and added up by a bundle; then made visible.

    `long` is a task of its own, in chunks with checkpoints. `pause` is how long a conversion and a chunk take.
    """
    flow = Workflow(name)

    @flow.stage(version="1", seconds=seconds)
    def split(work: Work) -> None:
        order = work.payload["order"]
        for part in range(PARTS):
            file = work.write(f"{part}.json", json.dumps({"amount": order + part}).encode())
            work.to(convert, {"order": order, "part": part}, files=[file])

    @flow.stage(version="1", seconds=seconds, parameters={"rate": 1})
    def convert(work: Work) -> None:
        (file,) = work.files
        rate = work.parameters["rate"]
        time.sleep(pause)
        amount = json.loads(work.board.read(file).data)["amount"] * rate
        made = work.write("converted.json", json.dumps({"amount": amount, "rate": rate}).encode())
        work.to(total, {"order": work.payload["order"]}, files=[made], bundle=(work.origin, PARTS))

    @flow.stage(version="1", seconds=seconds)
    def total(work: Work) -> None:
        found = [json.loads(work.board.read(each).data) for each in work.files]
        amounts = sum(each["amount"] for each in found)
        what = {"unit": work.unit, "amount": amounts, "rates": sorted({each["rate"] for each in found})}
        work.to(show, work.payload, files=[work.write("total.json", json.dumps(what).encode())])

    @flow.stage(version="1", seconds=seconds)
    def show(work: Work) -> None:
        (file,) = work.files
        data, order = work.board.read(file).data, work.payload["order"]
        try:
            work.board.create(f"{EFFECTS}{name}/{order}", data)
        except AlreadyExistsError:
            if work.board.read(f"{EFFECTS}{name}/{order}").data != data:
                work.board.create(f"{TWICE}{name}/{order}-{work.unit}", data)

    @flow.stage(version="1", seconds=seconds)
    def long(work: Work) -> None:
        for chunk in range(int(work.checkpoint or 0), CHUNKS):
            time.sleep(pause)
            work.write(f"{chunk}.chunk", b"")
            work.save(str(chunk + 1), (chunk + 1) / CHUNKS)

    return flow


@dataclass(frozen=True, slots=True)
class Stopping:
    """Where a master is killed, or stops until it is continued: before or after its `number`-th write."""

    what: str
    when: str
    number: int


class Watched:
    """A blackboard on which the writes of a reign (epochs and entries) are counted, and may be a process's last."""

    def __init__(self, inner: Blackboard, stopping: Stopping | None) -> None:
        self._inner, self._stopping, self._count = inner, stopping, 0

    def __getattr__(self, operation: str) -> Any:
        return getattr(self._inner, operation)

    def create(self, key: str, data: bytes) -> Any:
        """See `Blackboard.create`."""
        if "/journal/" not in key and "/epochs/" not in key:
            return self._inner.create(key, data)
        self._count += 1
        self._stop("before")
        created = self._inner.create(key, data)
        self._stop("after")
        return created

    def _stop(self, when: str) -> None:
        stopping = self._stopping
        if stopping is not None and (stopping.when, stopping.number) == (when, self._count):
            os.kill(os.getpid(), signal.SIGKILL if stopping.what == "kill" else signal.SIGSTOP)


# --- rules that are switched off ----------------------------------------------------------------------------------


def _no_lease_check() -> None:
    check = machine.Machine._commit

    def commit(self: machine.Machine, call: Commit, change: Any) -> Answer:
        try:
            return check(self, call, change)
        except Refused as error:
            if error.code != "LeaseLost":
                raise
            ids, there = change.make(call.produce)
            return Answer(ids=ids, there=there)

    machine.Machine._commit = commit  # type: ignore[method-assign]


def _refusal_taken_for_a_loss() -> None:
    """Take whatever has the number for one's own entry, whose answer was lost; nor look for newer epochs."""
    NumberedEntries._compare = lambda *_: None  # type: ignore[method-assign]
    Heart.look = lambda self: False  # type: ignore[method-assign] # noqa: ARG005 - called by its name


def _repeat_executed() -> None:
    machine.Machine._before = lambda *_: None  # type: ignore[method-assign]


BROKEN: Final[dict[str, Callable[[], None]]] = {
    "no lease check": _no_lease_check,
    "refusal taken for a loss": _refusal_taken_for_a_loss,
    "repeat executed": _repeat_executed,
}


# --- processes ----------------------------------------------------------------------------------------------------


def place_at(base: str, name: str, stopping: Stopping | None = None) -> Place:
    """The workflow at a base, which is created; its master's writes may be its last."""
    board: Any = Watched(open_board(base), stopping)
    return create_workflow(board, name)


def quickly(heartbeat: float, shortest_lease: float) -> None:
    """Let masters of this process show signs of life more often, and give shorter leases than real ones."""
    epochs.ON_DISK = epochs.ON_S3 = Pace(heartbeat, 10 * heartbeat)  # type: ignore[misc]
    machine.SECONDS = (shortest_lease, 3600.0)  # type: ignore[misc]


def serve(place: Place, *, failover_after: float | None = None, ready: Callable[[int, str], None]) -> None:
    """Be a candidate, then the master, until a signal comes."""
    with TemporaryDirectory() as folder, socket.create_server(("127.0.0.1", 0)) as listening:
        url = f"http://127.0.0.1:{listening.getsockname()[1]}"
        tokens = KnownTokens(Store(sqlite_url(Path(folder) / "state.db")))
        run_master(
            place,
            listening,
            url,
            tokens=tokens,
            now=lambda: datetime.now(UTC),
            ready=lambda epoch: ready(epoch, url),
            failover_after=failover_after,
        )


def client_of(place: Place, *, patience: float = 120.0) -> Client:
    """A client that finds the master on the storage."""

    def find() -> str | None:
        found = newest_address(place)
        return found.url if found else None

    return Client(place.token, find, patience=patience)


def worker_of(place: Place, *, board: Blackboard | None = None, seconds: float = 60.0, pause: float = 0.0) -> Worker:
    """A worker of all stages, which prints what became of each task. `board`: its own way to the storage."""
    flow = flow_of(place.name, seconds=seconds, pause=pause)

    def done(stage: Any, unit: int, outcome: str) -> None:
        print(stage.name, unit, outcome, flush=True)

    return Worker(flow, list(flow.stages.values()), client_of(place), board or place.board, done=done)


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(prog="python -m feed_assets_tests.workflow.processes")
    parser.add_argument("role", choices=["master", "worker"])
    parser.add_argument("base")
    parser.add_argument("name")
    parser.add_argument("--stopping", nargs=3, metavar=("kill|stop", "before|after", "NUMBER"))
    parser.add_argument("--failover-after", type=float)
    parser.add_argument("--usual-pace", action="store_true", help="heartbeats and leases as in production")
    parser.add_argument("--heartbeat", type=float, default=0.05)
    parser.add_argument("--shortest-lease", type=float, default=0.2)
    parser.add_argument("--lease", type=float, default=60.0)
    parser.add_argument("--pause", type=float, default=0.0)
    parser.add_argument("--broken", choices=BROKEN)
    chosen = parser.parse_args()
    logging.basicConfig(level=logging.WARNING, format="%(asctime)s %(levelname)s %(message)s")
    if not chosen.usual_pace:
        quickly(chosen.heartbeat, chosen.shortest_lease)
    if chosen.broken:
        BROKEN[chosen.broken]()
    if chosen.role == "worker":
        worker_of(place_at(chosen.base, chosen.name), seconds=chosen.lease, pause=chosen.pause).run(lambda: False)
        return
    what = chosen.stopping
    stopping = Stopping(what[0], what[1], int(what[2])) if what else None
    place = place_at(chosen.base, chosen.name, stopping)
    serve(place, failover_after=chosen.failover_after, ready=lambda epoch, url: print(epoch, url, flush=True))


if __name__ == "__main__":
    main()
