"""Webhooks that a service signs, sent with curl: who is believed, and that a service's retry lands once."""

from __future__ import annotations

import base64
import hmac
import json
import subprocess
import time

import pytest

from feed_assets.receiving.limits import Limits
from feed_assets.serving.tokens import add_token
from feed_assets_tests.receiving.light import SECRETS, Light, describe, running_light
from feed_assets_tests.receiving.test_server import GOOD, NOW
from feed_assets_tests.waiting import until

SIGNED = "ads/signed_ads"
EVENT = b'{"id":"1","time":"2019-11-24 12:00:00"}'


@pytest.fixture(scope="module")
def light(tmp_path_factory):
    light = Light(tmp_path_factory.mktemp("signed") / "base", Limits(roll_seconds=0.3), tokens=True)
    describe(light.base)
    return light


@pytest.fixture(scope="module")
def token(light):
    return add_token(light.store, "acme", [SIGNED], now=NOW, expires=None)


@pytest.fixture(scope="module")
def server(light, token):
    with running_light(light) as server:
        yield server


def signature(message_id, body, secret="ACME_SECRET", at=None):
    """The headers with which a service signs."""
    at = int(time.time() if at is None else at)
    key = base64.b64decode(SECRETS[secret].removeprefix("whsec_"))
    digest = base64.b64encode(hmac.digest(key, f"{message_id}.{at}.".encode() + body, "sha256")).decode()
    return {"webhook-id": message_id, "webhook-timestamp": str(at), "webhook-signature": f"v1,{digest}"}


def curl(server, body, source="signed_ads", **headers):
    """The status and the content of the answer."""
    given = {"Content-Type": "application/json"} | {name.replace("_", "-"): value for name, value in headers.items()}
    options = [option for name, value in given.items() for option in ("-H", f"{name}: {value}")]
    command = ["curl", "-s", "-w", "\n%{http_code}", *options, "--data-binary", "@-"]
    done = subprocess.run(
        [*command, f"{server.url}/v1/events/{source}"], input=body, capture_output=True, check=True, timeout=30
    )
    content, _, status = done.stdout.decode().rpartition("\n")
    return int(status), json.loads(content)


def test_a_signed_event_is_taken_by_any_of_the_secrets_and_a_retry_lands_once(server, light, token):
    first = curl(server, EVENT, **signature("msg-1", EVENT))
    time.sleep(1.1)
    retry = curl(server, EVENT, **signature("msg-1", EVENT, secret="ACME_NEXT_SECRET"))  # signed anew
    other = curl(server, EVENT.replace(b"1", b"2", 1), **signature("msg-2", EVENT.replace(b"1", b"2", 1)))

    assert (first[0], first[1]["accepted"]) == (202, 1)
    assert retry == first
    assert other[1]["request_id"] != first[1]["request_id"]
    folder = light.base / f"raw/.sent/{SIGNED}"
    until(lambda: folder.exists() and sum(len(each.read_bytes().splitlines()) for each in folder.iterdir()) == 2)
    (status,) = curl_status(server, token)
    assert (status["partner"], status["requests"], status["accepted"]) == ("acme", 2, 2)


def curl_status(server, token):
    command = ["curl", "-s", f"{server.url}/v1/status", "-H", f"Authorization: Bearer {token}"]
    return json.loads(subprocess.run(command, capture_output=True, check=True, timeout=30).stdout)["sources"]


def test_whoever_signs_wrongly_late_or_for_another_source_learns_no_more_than_who_does_not_sign(server):
    replayed = signature("msg-3", EVENT, at=time.time() - 301)
    right = signature("msg-3", EVENT)
    refused = {
        "wrong": curl(server, EVENT + b" ", **right),
        "late": curl(server, EVENT, **replayed),
        "other id": curl(server, EVENT, **right | {"webhook-id": "msg-4"}),
        "no id": curl(server, EVENT, **{name: text for name, text in right.items() if name != "webhook-id"}),
        "unsigned": curl(server, EVENT),
        "source without `push`": curl(server, EVENT, source="shop_ads", **right),
        "no source": curl(server, EVENT, source="nobody", **right),
        "wrong token": curl(server, EVENT, **right, Authorization="Bearer fa_1_2"),
    }

    assert {status for status, _ in refused.values()} == {401}
    assert len({json.dumps(content) for _, content in refused.values()}) == 1
    assert server.metric('feed_assets_receive_refused_signatures_total{reason="time"}') == 1
    assert server.metric('feed_assets_receive_refused_signatures_total{reason="wrong"}') == 2
    assert server.metric('feed_assets_receive_refused_signatures_total{reason="malformed"}') == 1


def test_an_id_names_one_event_and_a_signed_body_is_not_packed(server):
    curl(server, EVENT, **signature("msg-5", EVENT))

    assert curl(server, GOOD, **signature("msg-5", GOOD))[0] == 422
    assert curl(server, EVENT, **signature("msg-6", EVENT), Content_Encoding="gzip")[0] == 415
    assert curl(server, b"[]]", **signature("msg-7", b"[]]"))[0] == 400
