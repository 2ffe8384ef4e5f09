"""The service over datasets of the test's own, as a process; no project, and no Dagster.

Here: its start and requests to it. Not here: any expectation.
"""

from __future__ import annotations

import json
import multiprocessing
import socket
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import date, datetime, time
from functools import partial
from typing import Any
from urllib.parse import urlencode

from feed_assets.datasets.dataset import Dataset
from feed_assets.datasets.grains import Grain
from feed_assets.datasets.members import Hierarchy, Member
from feed_assets.datasets.slots import Slot
from feed_assets.dependencies.errors import UnknownFlowError
from feed_assets.dependencies.gate.decision import InputState, Verdict
from feed_assets.dependencies.gate.flow_port import Run
from feed_assets.dependencies.http.calendar import Progress
from feed_assets.dependencies.rules import Basis, Declared, Rule
from feed_assets.dependencies.service import Dependencies
from feed_assets.sources.spec import Source
from feed_assets.state.store import Store
from feed_assets.web.request_answers import RequestSays
from feed_assets.web.running import run
from feed_assets.web.source_answers import sources_say
from feed_assets_tests.dependencies.datasets import BASE, DAY, at, feed, raw, topic
from feed_assets_tests.forked import start_server
from feed_assets_tests.waiting import HANGS, until

NOW = at(f"{DAY}T16:10")
MEMBERS = 1000


class NoFlows:
    """A project without any flow."""

    def made_by(self, _: str) -> str | None:
        return None

    def reads(self, _: str) -> Sequence[str]:
        return ()

    def dataset_of(self, flow: str) -> str:
        raise UnknownFlowError(f"{flow!r} is no asset with a trigger: this project has none.")

    def partition(self, _: Slot) -> str | None:
        return None

    def explain(self, flow: str, _: str) -> Verdict:
        raise UnknownFlowError(f"{flow!r} is no asset with a trigger: this project has none.")

    def wrong_files(self, _: Slot) -> str:
        return ""

    def progress(self, _: Sequence[Slot]) -> Mapping[Slot, Progress]:
        return {}

    def inputs(self, _: Slot) -> Sequence[InputState]:
        return ()

    def consumers(self, _: Slot) -> Sequence[Slot]:
        return ()

    def runs(self, _: Slot) -> Sequence[Run] | None:
        return None


def many_members() -> Declared:
    """Five-minute windows of 1,000 data centers, which are complete as they end."""
    members = tuple(Member(f"eu/dc{number:04}", date(2026, 11, 27)) for number in range(MEMBERS))
    dataset = Dataset("raw/clicks", (Grain.FIVE_MINUTES, Grain.HOUR, Grain.DAY), Hierarchy(("region", "dc"), members))
    return Declared(dataset, Rule(Basis.ASSUMED))


def datasets(*, many: bool = False) -> dict[str, Declared]:
    """What the service knows; with `many`, also the dataset of many members, whose first look takes seconds."""
    declared = [raw("shop_a", "shop_b"), feed(), feed("revenue/v1.0"), topic(), *([many_members()] if many else [])]
    return {each.dataset.name: each for each in declared}


def dependencies(database: str) -> Dependencies:
    """The same, for a writer in another process."""
    return Dependencies(Store(database), BASE, datasets())


def _serve(
    database: str,
    listening: socket.socket,
    now: datetime,
    many: bool,
    deadlines: Mapping[str, time] | None,
    sources: Sequence[Source],
    requests: Callable[[str], RequestSays | None],
) -> None:
    store = Store(database)
    states = Dependencies(store, BASE, datasets(many=many))
    standing = partial(sources_say, store, BASE, sources, now=now)
    run(
        store,
        BASE,
        states,
        NoFlows(),
        listening,
        now=lambda: now,
        deadlines=deadlines,
        sources=standing,
        requests=requests,
    )


def nobody_knows(_: str) -> RequestSays | None:
    """No request."""
    return None


@dataclass(frozen=True, slots=True)
class Answered:
    """An answer: its status, its JSON or text, and its headers in lower case."""

    status: int
    body: Any
    headers: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Client:
    """Asks a service, with a token if there is one."""

    url: str
    token: str = ""

    def get(self, path: str, **parameters: object) -> Answered:
        """The answer of a path below the API's root; `from_` is the parameter `from`."""
        query = urlencode({name.rstrip("_"): value for name, value in parameters.items()})
        return self.ask(f"/v1/dependencies/{path}{'?' if query else ''}{query}")

    def post(self, path: str, body: object, **headers: str) -> Answered:
        """The answer to this body, as JSON unless it is bytes."""
        content = body if isinstance(body, bytes) else json.dumps(body).encode()
        return self.ask(f"/v1/dependencies/{path}", content, **{"Content-Type": "application/json", **headers})

    def ask(self, path: str, body: bytes | None = None, **headers: str) -> Answered:
        """The answer of any path."""
        given = {name.replace("_", "-"): value for name, value in headers.items()}
        given |= {"Authorization": f"Bearer {self.token}"} if self.token else {}
        request = urllib.request.Request(f"{self.url}{path}", body, given)
        try:
            with urllib.request.urlopen(request, timeout=HANGS) as answer:
                return _answered(answer.status, answer.read(), answer.headers)
        except urllib.error.HTTPError as error:
            with error:
                return _answered(error.code, error.read(), error.headers)


def _answered(status: int, body: bytes, headers: Mapping[str, str]) -> Answered:
    lower = {name.lower(): value for name, value in headers.items()}
    is_json = lower.get("content-type", "").startswith("application/json")
    return Answered(status, json.loads(body) if is_json else body.decode(), lower)


@contextmanager
def serving(
    database: str,
    *,
    now: datetime = NOW,
    many: bool = False,
    deadlines: Mapping[str, time] | None = None,
    sources: Sequence[Source] = (),
    requests: Callable[[str], RequestSays | None] = nobody_knows,
) -> Iterator[Client]:
    """A client of a service that is ready. `deadlines` are those of series of runs; `requests` goes to its process."""
    listening = socket.create_server(("127.0.0.1", 0))
    start_server()
    given = (database, listening, now, many, deadlines, sources, requests)
    process = multiprocessing.get_context("forkserver").Process(target=_serve, args=given)
    process.start()
    client = Client(f"http://127.0.0.1:{listening.getsockname()[1]}")
    listening.close()
    try:
        until(lambda: client.ask("/ready").status == 200, every=0.05)
        yield client
    finally:
        process.kill()
        process.join()
