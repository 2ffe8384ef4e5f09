"""Flows that ask: by HTTP, with tokens, and on the page in a real browser."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import dagster as dg
import pytest

from feed_assets.file_feed.record import FeedInput
from feed_assets.serving.tokens import add_token
from feed_assets_tests import ROOT
from feed_assets_tests.harness import AS_OF, DAY, Installation, settings_below
from feed_assets_tests.plain_flows import publish_attempts
from feed_assets_tests.waiting import until
from feed_assets_tests.web.asking_project import FLOW, MODULE, OWN, definitions, publish
from feed_assets_tests.web.gated_shop import environment, serving
from feed_assets_tests.web.windows_service import Client


@dataclass
class Asking:
    """An installation whose flow asks, and the address of its service."""

    installation: Installation
    url: str

    def reopen(self) -> None:
        """Let the input of the flow be reopened, and the flow ask."""
        publish(self.installation)
        self.installation.tick("starts")


@pytest.fixture
def asking(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Asking]:
    monkeypatch.delenv("DAGSTER_HOME", raising=False)
    settings = settings_below(tmp_path / "base", tmp_path / "sources")
    home = tmp_path / "home"
    home.mkdir()
    with dg.instance_for_test(temp_dir=str(home)) as instance:
        installation = replace(Installation(settings, instance), _definitions=definitions(settings))
        publish(installation)
        installation.tick("starts")
        installation.make(FLOW, DAY, [FeedInput(OWN, DAY, installation.latest(OWN))])
        publish_attempts(installation)
        installation.tick("new_manifests")
        variables = environment(tmp_path / "base", home) | {"FEED_ASSETS_MODULE": MODULE, "PYTHONPATH": str(ROOT)}
        with serving(variables, tmp_path) as url:
            asking = Asking(installation, url)
            asking.reopen()
            yield asking


def test_d39_a_question_is_listed_and_answered_by_http(asking):
    client = Client(asking.url)
    (question,) = client.get("questions").body["questions"]
    assert (question["flow"], question["partition"]) == ("flow", DAY)
    assert question["inputs"] == {f"{OWN} - day {DAY}": 2}
    verdict = client.get("explain", flow="flow", partition=DAY).body
    assert (verdict["asks"], verdict["digest"]) == (True, question["digest"])

    given = {"flow": "flow", "partition": DAY, "answer": "rerun", "digest": question["digest"]}
    assert client.post("questions/answer", {**given, "answer": "perhaps"}).status == 400
    assert client.post("questions/answer", {**given, "flow": "other"}).status == 404
    other = client.post("questions/answer", {**given, "digest": "0"})
    assert (other.status, "have changed since this question" in other.body["detail"]) == (400, True)
    assert client.post("questions/answer", given).body["status"] == "accepted"
    assert client.post("questions/answer", given).body["status"] == "known"
    assert client.get("questions").body["questions"] == []
    told = [each for each in client.get("events", after=0).body["events"] if each["kind"] in {"asked", "answered"}]
    assert [(each["kind"], each["details"].get("answer")) for each in told] == [("asked", None), ("answered", "rerun")]
    assert asking.installation.tick("starts").asked == {DAY: ("flow",)}


def test_a_token_answers_only_with_the_verb_start(asking):
    store = asking.installation.store
    reader = add_token(store, "reader", ["read:*"], now=AS_OF, expires=None)
    starter = add_token(store, "starter", [f"start:{FLOW}"], now=AS_OF, expires=None)
    given = {"flow": "flow", "partition": DAY, "answer": "keep", "reason": "too small"}

    until(lambda: Client(asking.url).get("questions").status == 401)
    assert len(Client(asking.url, reader).get("questions").body["questions"]) == 1
    assert Client(asking.url, reader).post("questions/answer", given).status == 403
    assert Client(asking.url, starter).get("questions").body["questions"] == []
    assert Client(asking.url, starter).post("questions/answer", given).status == 200
    verdict = Client(asking.url, reader).get("explain", flow="flow", partition=DAY).body
    assert "stays, as starter has answered: too small" in verdict["sentence"]


def test_d44_a_program_forces_a_start_pauses_a_flow_and_lets_it_go_on(asking):
    client = Client(asking.url)
    given = {"flow": "flow", "partition": DAY, "reason": "new prices"}
    assert client.post("starts", {**given, "flow": "other"}).status == 404
    assert client.post("starts", {**given, "partition": "2019-11-31"}).status == 404
    assert [client.post("starts", given).body["status"] for _ in range(2)] == ["accepted", "known"]
    refused = client.post("starts", {**given, "reason": "another"})
    assert (refused.status, "attempt 2 of flow/v1.0 2019-11-24 is requested" in refused.body["detail"]) == (409, True)
    newest = client.get("attempts", flow="flow", partition=DAY).body["attempts"][-1]
    assert (newest["number"], newest["state"], newest["forced_by"]) == (2, "requested", "local")
    assert asking.installation.tick("starts").asked == {DAY: ("flow",)}

    pause = {"flow": "flow", "reason": "new schema"}
    assert [client.post("flows/pause", pause).body["status"] for _ in range(2)] == ["accepted", "known"]
    sentence = client.get("explain", flow="flow", partition=DAY).body["sentence"]
    assert sentence.endswith("by local: new schema")
    resumed = [client.post("flows/resume", {"flow": "flow"}).body["status"] for _ in range(2)]
    assert resumed == ["accepted", "known"]

    reader = add_token(asking.installation.store, "reader", ["read:*"], now=AS_OF, expires=None)
    until(lambda: client.get("datasets").status == 401)
    assert Client(asking.url, reader).post("starts", given).status == 403
    assert Client(asking.url, reader).post("flows/pause", pause).status == 403


def test_d39_a_person_answers_on_the_page_and_a_further_reopening_asks_anew(asking, browser):
    page = browser.new_page()
    page.set_default_timeout(60_000)
    problems: list[str] = []
    page.on("pageerror", lambda error: problems.append(str(error)))
    page.goto(f"{asking.url}/#dataset={FLOW}&from=2019-11-20&to=2019-11-28&slot={FLOW}+-+day+{DAY}")
    page.wait_for_selector("#question")
    assert "asks: " in page.text_content("#why .why")
    assert page.text_content("#question button:nth-of-type(2)") == f"Keep {asking.installation.latest(FLOW)}"

    page.focus("#question button:nth-of-type(2)")
    page.keyboard.press("Enter")
    page.wait_for_selector("#why .why:has-text('stays, as local has answered')")
    assert page.query_selector("#question") is None

    asking.reopen()
    page.wait_for_selector("#question")  # the page follows the events
    page.click("#question button:has-text('Run again')")
    page.wait_for_selector("#why .why:has-text('may start')")
    assert asking.installation.tick("starts").asked == {DAY: ("flow",)}
    assert problems == []
    page.close()
