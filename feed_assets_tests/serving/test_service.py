"""What every service answers, whatever it is for, and how it begins and ends."""

from __future__ import annotations

import http.client
import json
import os
import re
import signal
from contextlib import closing

import pytest

from feed_assets_tests.serving.greeting import serving
from feed_assets_tests.waiting import HANGS


def asked(port, method, path):
    with closing(http.client.HTTPConnection("127.0.0.1", port, timeout=HANGS)) as client:
        client.request(method, path)
        answer = client.getresponse()
        return answer.status, answer.getheader("content-type", ""), answer.read().decode()


@pytest.fixture(scope="module")
def port():
    with serving() as (_, port):
        yield port


@pytest.mark.parametrize("path", ["/health", "/ready", "/metrics", "/openapi.json", "/docs"])
def test_what_load_balancers_ask_is_answered_to_get_and_without_a_body_to_head(port, path):
    status, kind, body = asked(port, "GET", path)

    assert status == 200
    assert body
    assert asked(port, "HEAD", path) == (200, kind, "")


def test_a_service_that_cannot_work_says_so_with_503_and_its_state():
    with serving(is_ready=False) as (_, port):
        assert asked(port, "GET", "/ready") == (503, "application/json", '{"asleep":true}')
        assert asked(port, "HEAD", "/ready") == (503, "application/json", "")
        assert asked(port, "GET", "/health")[0] == 200


def test_the_figures_are_those_of_the_service(port):
    assert "greetings 3.0" in asked(port, "GET", "/metrics")[2].splitlines()


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [("GET", "/nothing", 404), ("POST", "/health", 405), ("DELETE", "/v1/greetings/a", 405)],
)
def test_what_there_is_not_is_refused_in_json(port, method, path, status):
    found, kind, body = asked(port, method, path)

    assert (found, kind) == (status, "application/json")
    assert json.loads(body).keys() == {"detail"}


def test_the_document_has_every_operation_and_the_page_loads_nothing_from_elsewhere(port):
    document = json.loads(asked(port, "GET", "/openapi.json")[2])
    page = asked(port, "GET", "/docs")[2]

    assert document["openapi"].startswith("3.1")
    assert set(document["paths"]) == {"/v1/greetings/{name}", "/health", "/ready", "/metrics"}
    greet = document["paths"]["/v1/greetings/{name}"]["get"]
    assert greet["responses"]["200"]["content"]["application/json"]["schema"]["type"] == "object"
    assert document["paths"]["/ready"]["get"]["description"] == "Whether it is awake."
    assert "<code>name</code>, who is &lt;somebody&gt;" in page
    assert not re.search(r"https?:|//|<script|@import|url\(", page.replace("<!DOCTYPE html>", ""))


def test_a_signal_that_comes_before_the_first_request_ends_the_service_in_order():
    with serving(early=True) as (process, _):
        process.join(HANGS)

        assert process.exitcode == 0


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_the_service_in_order(number):
    with serving() as (process, port):
        asked(port, "GET", "/health")
        os.kill(process.pid, number)
        process.join(HANGS)

        assert process.exitcode == 0
