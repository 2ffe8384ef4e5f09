"""The API of workflows: what it answers without a browser, whom it refuses, and what its document says."""

from __future__ import annotations

import pytest

from feed_assets.serving.tokens import add_token
from feed_assets.state.address import sqlite_url
from feed_assets.state.store import Store
from feed_assets.web.flow_order import columns
from feed_assets.workflow.calls import Configure
from feed_assets_tests.web.windows_service import NOW, Client
from feed_assets_tests.web.workflow_service import NAME, Someone, fill, mastering, serving

JSON = {"Content_Type": "application/json"}


@pytest.fixture(scope="module")
def scene(tmp_path_factory):
    folder = tmp_path_factory.mktemp("workflow")
    base, database = str(folder / "base"), sqlite_url(folder / "state.db")
    (folder / "base").mkdir()
    with mastering(base, database) as master, serving(base, database) as client:
        yield client, fill(base), master, base


def test_a_circle_of_feeds_and_a_group_that_feeds_itself_leave_an_order():
    feeds = [("b", "c"), ("a", "b"), ("c", "b"), ("c", "c"), ("a", "c"), ("c", "d"), ("gone", "a")]

    assert columns(["d", "c", "b", "a"], feeds) == [["a"], ["b"], ["c"], ["d"]]
    assert columns(["x", "y"], []) == [["x", "y"]]
    assert columns([], [("a", "b")]) == []
    assert columns(["b", "a"], [("a", "b"), ("b", "a")]) == [["b"], ["a"]]


def test_a_workflow_is_listed_and_described_with_its_groups_in_order(scene):
    client, units, master, _ = scene
    (listed,) = client.ask("/v1/workflows").body["workflows"]
    found = client.ask(f"/v1/workflows/{NAME}").body

    assert listed == {"name": NAME, "stages": ["split", "convert", "total", "publish"], "may_control": True}
    assert [[each["name"] for each in column] for column in found["columns"]] == [
        ["split"], ["convert"], ["total"], ["publish"],
    ]  # fmt: skip
    assert (found["problem"], found["hints"], found["master"]["url"]) == ("", [], master)
    assert [each["unit"] for each in found["dead"]] == [units["dead"]]


def test_a_stage_with_another_version_than_the_one_in_force_is_a_hint(tmp_path):
    base, database = str(tmp_path / "base"), sqlite_url(tmp_path / "state.db")
    (tmp_path / "base").mkdir()
    with mastering(base, database), serving(base, database) as client:
        Someone(base).client.call(Configure, type="split", payload={"digest": "another"})
        missing, changed = client.ask(f"/v1/workflows/{NAME}").body["hints"]

    assert missing.startswith("convert, total, publish: no configuration yet.")
    assert changed.startswith("split: the configuration in force is not that of this project.")


@pytest.mark.parametrize(
    ("path", "body", "status", "message"),
    [
        ("nothing", None, 404, "The project has no workflow 'nothing'; there are: revenue."),
        (f"{NAME}/units/x", None, 400, "is no number of a unit"),
        (f"{NAME}/orders", b"{}", 400, "makes no sense"),
        (f"{NAME}/orders", b'{"order": "failover", "target": "all", "reason": "x"}', 400, "makes no sense"),
        (f"{NAME}/orders", b'{"order": "pause", "target": "split", "reason": " "}', 400, "Give a reason"),
        (f"{NAME}/orders", b'{"order": "pause", "target": "splat", "reason": "x"}', 404, "No group is called splat"),
        (f"{NAME}/orders", b'{"order": "resume", "target": "publish", "reason": "x"}', 409, "There is no pause"),
        (f"{NAME}/orders", b'{"order": "drop", "target": "99999", "reason": "x"}', 404, "There is no unit 99999"),
    ],
)
def test_what_makes_no_sense_is_refused_with_a_sentence(scene, path, body, status, message):
    client, _, _, _ = scene
    answer = client.ask(f"/v1/workflows/{path}", body, **JSON)

    assert answer.status == status, answer
    assert message in answer.body["detail"]


def test_a_page_of_another_site_can_give_no_order(scene):
    client, _, _, _ = scene
    body = b'{"order": "pause", "target": "split", "reason": "x"}'

    # A browser sends a simple request with this type without asking; JSON it would have to ask for.
    assert client.ask(f"/v1/workflows/{NAME}/orders", body, Content_Type="text/plain").status == 415


def test_a_unit_has_its_story_without_a_master_too(tmp_path):
    base, database = str(tmp_path / "base"), sqlite_url(tmp_path / "state.db")
    (tmp_path / "base").mkdir()
    with mastering(base, database):
        unit = fill(base)["dead"]
    with serving(base, database) as client:
        found = client.ask(f"/v1/workflows/{NAME}/units/{unit}").body
        order = client.ask(f"/v1/workflows/{NAME}/orders", b'{"order": "drop", "target": "1", "reason": "x"}', **JSON)

    assert found["task"] is None
    assert found["problem"].startswith("No master answers")
    assert found["story"][-1]["what"].startswith("dead, attempt 3")
    assert order.status == 503


def test_a_token_is_asked_for_its_grant_by_service_and_master(tmp_path):
    base, database = str(tmp_path / "base"), sqlite_url(tmp_path / "state.db")
    (tmp_path / "base").mkdir()
    reads, controls, other = (
        add_token(Store(database), name, [grant], now=NOW, expires=None)
        for name, grant in (("eva", f"read:{NAME}"), ("ana", "control:*"), ("tom", "work:else"))
    )
    order = b'{"order": "pause", "target": "all", "reason": "x"}'
    with mastering(base, database) as master, serving(base, database) as client:

        def asked(token, path, body=None):
            return Client(client.url, token).ask(f"/v1/workflows{path}", body, **JSON)

        assert asked("", "").status == 401
        assert asked(other, "").body == {"workflows": []}
        assert asked(other, f"/{NAME}").status == 403
        assert asked(reads, f"/{NAME}").body["problem"] == ""
        assert asked(reads, f"/{NAME}").body["may_control"] is False
        assert asked(reads, f"/{NAME}/orders", order).status == 403
        assert asked(controls, f"/{NAME}/orders", order).body == {"order": "pause", "target": "all", "by": "ana"}
        assert Client(master, reads).ask("/v1/stats").status == 200
        assert Client(master, reads).ask("/v1/hello", b'{"token": "x"}', **JSON).status == 403
        assert Client(master, other).ask("/v1/stats").status == 403


def test_a_service_with_another_state_database_than_the_master_takes_a_token_of_its_own(tmp_path):
    base, own, masters = str(tmp_path / "base"), *(sqlite_url(tmp_path / f"{each}.db") for each in ("own", "masters"))
    (tmp_path / "base").mkdir()
    token = add_token(Store(masters), "page", [f"control:{NAME}"], now=NOW, expires=None)
    with mastering(base, masters):
        with serving(base, own) as client:
            problem = client.ask(f"/v1/workflows/{NAME}").body["problem"]
        with serving(base, own, token=token) as client:
            found = client.ask(f"/v1/workflows/{NAME}").body

    assert "refuses to answer" in problem
    assert "set `FEED_ASSETS_WORKFLOW_TOKEN`" in problem
    assert (found["problem"], found["may_control"]) == ("", True)


def test_the_document_has_each_operation_with_its_parameters(scene):
    client, _, _, _ = scene
    paths = client.ask("/openapi.json").body["paths"]

    assert {each for each in paths if each.startswith("/v1/workflows")} == {
        "/v1/workflows",
        "/v1/workflows/{workflow}",
        "/v1/workflows/{workflow}/units/{unit}",
        "/v1/workflows/{workflow}/orders",
    }
    order = paths["/v1/workflows/{workflow}/orders"]["post"]
    assert order["requestBody"]["content"]["application/json"]["schema"]["required"] == ["order", "target", "reason"]
