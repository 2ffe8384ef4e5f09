"""What a real master answers by HTTP: who may ask, which parameters it takes, and clients that hang up."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import urllib3
from msgspec.json import encode

from feed_assets.serving.tables import remove_token
from feed_assets.serving.tokens import add_token
from feed_assets.state.address import sqlite_url
from feed_assets.state.store import Store
from feed_assets.workflow.calls import Command, Fail, Hello, Lease, Renew
from feed_assets.workflow.places import open_board, open_workflow
from feed_assets.workflow.stories import story_of
from feed_assets.workflow.tasks import NewBundle, NewTask
from feed_assets_tests.waiting import until
from feed_assets_tests.web.windows_service import NOW, Client
from feed_assets_tests.web.workflow_service import NAME, Someone, fill, mastering


@dataclass
class Served:
    """A master, where it answers, and where its tokens are."""

    base: str
    url: str
    store: Store


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Served]:
    base, database = str(tmp_path / "base"), sqlite_url(tmp_path / "state.db")
    (tmp_path / "base").mkdir()
    with mastering(base, database) as url:
        yield Served(base, url, Store(database))


def test_a_task_is_not_leased_to_a_client_that_has_hung_up(served: Served) -> None:
    person, token = Someone(served.base), open_workflow(open_board(served.base), NAME).token
    person.apply()
    session = Client(served.url).ask("/v1/hello", encode(Hello(token=token))).body["answer"]["session"]
    lease = encode(Lease(token=token, session=session, seq=1, types=("split",), wait=30.0))
    with pytest.raises(urllib3.exceptions.ReadTimeoutError):
        urllib3.PoolManager().request("POST", f"{served.url}/v1/lease", body=lease, timeout=1.0, retries=False)
    person.client.read("stats")  # an answer from the master after it has heard of the end of the connection
    person.insert(NewTask("split"))

    assert len(Someone(served.base).lease("split")) == 1


def test_dead_tasks_are_listed_by_their_ids_page_by_page(served: Served) -> None:
    fill(served.base)
    person = Someone(served.base)
    tasks = person.client.read("tasks", limit=1000)["tasks"]
    dead = [each["id"] for each in tasks if each["status"] == "dead"]
    assert dead

    assert [each["id"] for each in person.client.read("tasks", status="dead", group="convert")["tasks"]] == dead
    assert person.client.read("tasks", status="dead", group="split")["tasks"] == []
    assert person.client.read("tasks", status="dead", after=dead[-1])["tasks"] == []


def test_a_story_says_whether_a_unit_was_committed_or_dropped(served: Served) -> None:
    person, worker = Someone(served.base, "person"), Someone(served.base)
    person.apply()
    bundle = NewBundle("all", 2)
    units = person.insert(
        NewTask("split"), NewTask("convert"), NewTask("total", bundle=bundle), NewTask("total", bundle=bundle)
    )
    worker.commit(worker.lease("split"))
    for unit in units[1:3]:
        person.client.call(Command, order="drop", target=str(unit), by="ada", reason="a test")
    worker.commit(worker.lease("total"))

    place = open_workflow(open_board(served.base), NAME)
    stories = [[event.what for event in story_of(place, each)] for each in units]
    leased = "leased for 600 s"
    assert stories == [
        ["made for split", leased, "committed"],
        ["made for convert", "dropped"],
        ["made for total", "dropped, its bundle gets it as an empty one", leased, "committed"],
        ["made for total", leased, "committed"],
    ]


@pytest.mark.parametrize(
    ("query", "message"),
    [
        (f"group={'g' * 300}", "it has more than 200 characters"),
        ("group=a%20b", "must begin with a letter"),
        ("status=lost", "it is waiting, leased, dead"),
        ("limit=many", "must be a whole number"),
    ],
)
def test_a_list_of_tasks_takes_names_and_states_that_there_can_be(served: Served, query: str, message: str) -> None:
    answer = Client(served.url).ask(f"/v1/tasks?{query}")

    assert answer.status == 400
    assert message in answer.body["detail"]


def test_a_master_takes_tokens_that_are_added_while_it_reigns_and_no_revoked_ones(served: Served) -> None:
    def status(token: str) -> int:
        return Client(served.url, token).ask("/v1/stats").status

    def added(owner: str) -> str:
        return add_token(served.store, owner, [f"read:{NAME}"], now=NOW, expires=None)

    assert status("") == 200  # without tokens, this machine may ask
    ada, bob = added("ada"), added("bob")
    until(lambda: status("") == 401)
    until(lambda: status(bob) == 200)
    with served.store.writing() as transaction:
        remove_token(transaction, ada.split("_")[1], now=NOW)
    until(lambda: status(ada) == 401)
    assert status(bob) == 200


def test_how_long_committed_tasks_waited_and_took_is_told_once_for_each_commit_and_bundle(served: Served) -> None:
    person, worker = Someone(served.base), Someone(served.base)
    person.apply()
    day, lost = person.insert(NewTask("split"), NewTask("split"))
    leased = worker.lease("split")
    renewed = worker.client.call(Renew, ids=leased, seconds=600.0).answer.ids
    worker.commit(renewed, *(NewTask("total", bundle=NewBundle("day", 2)) for _ in range(2)))
    worker.client.call(Fail, ids=worker.lease("split"), reason="no disk", after=0.0)
    worker.commit(worker.lease("total", 2))

    says = worker.client.read("ended")

    split, total = says["commits"]
    assert (split["type"], split["unit"], total["type"]) == ("split", day, "total")
    for each in (split, total):
        assert each["wanted"] <= each["started"] <= each["ended"] <= time.time()
    assert total["wanted"] >= split["started"]
    assert worker.client.read("ended", after=split["position"])["commits"] == [total]
    assert worker.client.read("ended", after=says["position"])["commits"] == []
    assert lost not in {split["unit"], total["unit"]}
