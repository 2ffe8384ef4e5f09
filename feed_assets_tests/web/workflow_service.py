"""A workflow with tasks in all states, its real master, and the service that shows it, each in a process of its own.

Here: starting them, and what workers have done. Not here: any expectation.
"""

from __future__ import annotations

import multiprocessing
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from feed_assets.dependencies.service import Dependencies
from feed_assets.serving.tokens import KnownTokens
from feed_assets.state.store import Store
from feed_assets.web.running import run
from feed_assets.web.watched_workflows import WatchedWorkflows
from feed_assets.workflow.calls import Answer, Commit, Configure, Fail, Insert, Lease, Renew
from feed_assets.workflow.client import Client as MasterClient
from feed_assets.workflow.epochs import newest_address
from feed_assets.workflow.flow import PUBLISH, Stage, Work, Workflow
from feed_assets.workflow.places import create_workflow, open_board, open_workflow
from feed_assets.workflow.running import run_master
from feed_assets.workflow.tasks import NewBundle, NewTask
from feed_assets_tests.dependencies.datasets import BASE
from feed_assets_tests.forked import start_server
from feed_assets_tests.waiting import until
from feed_assets_tests.web.windows_service import NOW, Client, NoFlows, datasets

NAME = "revenue"
REASON = "ValueError: no rate for XX"
ATTEMPTS = 3
"""After so many a task of `convert` is dead."""


def revenue() -> Workflow:
    """Orders by country, converted and added up; what is published may have to be computed again."""
    flow = Workflow(NAME)

    def stage(work: Work) -> None:
        """Do nothing: the tests lease and commit by themselves."""

    for name in ("split", "convert", "total"):
        stage.__name__ = name
        flow.stage(version="1")(stage)
    flow.stages[PUBLISH] = Stage(PUBLISH, stage, "1")  # as `flow.publishes` adds it
    return flow


def _serve(base: str, database: str, listening: socket.socket, with_flows: bool, token: str | None) -> None:
    store = Store(database)
    flows = [revenue()] if with_flows else []
    watched = WatchedWorkflows.of(flows, base, token)
    run(store, BASE, Dependencies(store, BASE, datasets()), NoFlows(), listening, now=lambda: NOW, workflows=watched)


def _rule(base: str, database: str, listening: socket.socket) -> None:
    tokens = KnownTokens(Store(database))
    tokens.refresh()
    url = f"http://127.0.0.1:{listening.getsockname()[1]}"
    run_master(create_workflow(open_board(base), NAME), listening, url, tokens=tokens, now=lambda: NOW)


@contextmanager
def _process(target: Any, *args: Any) -> Iterator[str]:
    """The URL of a server in a process of its own, which is killed at the end."""
    listening = socket.create_server(("127.0.0.1", 0))
    start_server()
    process = multiprocessing.get_context("forkserver").Process(target=target, args=(*args[:2], listening, *args[2:]))
    process.start()
    url = f"http://127.0.0.1:{listening.getsockname()[1]}"
    listening.close()
    try:
        yield url
    finally:
        process.kill()
        process.join()


@contextmanager
def serving(base: str, database: str, *, with_flows: bool = True, token: str | None = None) -> Iterator[Client]:
    """A client of the service over a project with this workflow, or with none; `token` is the service's own."""
    with _process(_serve, base, database, with_flows, token) as url:
        client = Client(url)
        until(lambda: client.ask("/ready").status == 200)
        yield client


@contextmanager
def mastering(base: str, database: str) -> Iterator[str]:
    """The URL of a real master of the workflow, once it answers."""
    with _process(_rule, base, database) as url:
        until(lambda: _answers(url))
        yield url


def _answers(url: str) -> bool:
    try:
        return Client(url).ask("/ready").status == 200
    except OSError:
        return False


@dataclass
class Someone:
    """A worker, or a person, with a session of its own."""

    base: str
    build: str = "worker-7, process 4711"
    token: str | None = None
    client: MasterClient = field(init=False)

    def __post_init__(self) -> None:
        place = open_workflow(open_board(self.base), NAME)

        def find() -> str | None:
            found = newest_address(place)
            return found.url if found else None

        given = f"Bearer {self.token}" if self.token else None
        self.client = MasterClient(place.token, find, build=self.build, authorization=given)

    def apply(self) -> None:
        """Bring the configuration of the project into force, with fewer attempts for `convert`."""
        for stage in revenue().stages.values():
            attempts = {"attempts": ATTEMPTS} if stage.name == "convert" else {}
            self.client.call(Configure, type=stage.name, payload={**stage.configuration, **attempts})

    def insert(self, *tasks: NewTask) -> tuple[int, ...]:
        """Insert tasks; returns their units."""
        return self.client.call(Insert, tasks=tasks).answer.ids

    def lease(self, kind: str, most: int = 1) -> tuple[int, ...]:
        """Lease tasks; returns their ids."""
        return self.client.call(Lease, types=(kind,), most=most, seconds=600.0, wait=5.0).answer.ids

    def commit(self, ids: tuple[int, ...], *produce: NewTask) -> Answer:
        """Commit leased tasks."""
        there = self.client.read("tasks", group="configuration")["tasks"]
        used = {each["key"]: each["id"] for each in there}
        return self.client.call(Commit, consume=ids, configurations=used, produce=produce).answer


def fill(base: str) -> dict[str, int]:
    """Tasks in all states; returns the units of some, by what they are."""
    person, worker = Someone(base, "person"), Someone(base)
    person.apply()
    for number in range(2):
        (unit,) = person.insert(NewTask("split", {"day": f"2024-05-2{number}"}, files=(f"orders-{number}.csv",)))
        bundle = NewBundle(str(unit), 3)
        made = [NewTask("convert", {"day": f"2024-05-2{number}", "country": each}) for each in ("CH", "FR", "XX")]
        worker.commit(worker.lease("split"), *made)
        for _ in range(2):
            worker.commit(worker.lease("convert"), NewTask("total", {"day": f"2024-05-2{number}"}, bundle=bundle))
        for _ in range(ATTEMPTS if number == 0 else 0):
            worker.client.call(Fail, ids=worker.lease("convert"), reason=REASON, after=0.0)
    dead = worker.client.read("tasks", status="dead")["tasks"][0]["unit"]
    # A day goes through to the end, and what was published has to be computed again once.
    (through,) = person.insert(NewTask("split", {"day": "2024-05-19"}, priority=9))
    single = NewBundle(str(through), 1)
    worker.commit(worker.lease("split"), NewTask("total", {"day": "2024-05-19"}, bundle=single))
    worker.commit(worker.lease("total"), NewTask("publish", {"update": "20240519.1"}))
    worker.commit(worker.lease("publish"), NewTask("total", {"day": "2024-05-19"}))
    worker.commit(worker.lease("total"), NewTask("publish", {"update": "20240519.2"}))
    leased = worker.lease("convert")
    (leased_unit,) = [each["unit"] for each in worker.client.read("tasks", status="leased")["tasks"]]
    worker.client.call(Renew, ids=leased, seconds=600.0, progress=0.4, checkpoint="row 4000")
    person.insert(*(NewTask("split", {"day": f"2024-06-{day:02}"}) for day in range(1, 13)))
    return {"dead": dead, "leased": leased_unit, "through": through}
