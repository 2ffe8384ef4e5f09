"""The API of the real server: who may send what, limits, broken clients, and what it shows of itself."""

from __future__ import annotations

import asyncio
import datetime as dt
import gzip
import http.client
import json
import os
import socket
import ssl
import subprocess
import sys
import time
from contextlib import ExitStack, closing
from dataclasses import replace
from types import SimpleNamespace

import psutil
import pytest
from starlette.exceptions import HTTPException

from feed_assets.receiving.entries import Entry, Header, framed
from feed_assets.receiving.keeping import Backlog, Keeper
from feed_assets.receiving.limits import Limits
from feed_assets.receiving.metrics import Metrics
from feed_assets.receiving.server import Receiver, create_app
from feed_assets.serving.tables import remove_token
from feed_assets.serving.tokens import add_token
from feed_assets_tests.certificates import self_signed
from feed_assets_tests.listening import family, listening
from feed_assets_tests.receiving.light import Light, describe, running_light
from feed_assets_tests.receiving.serving import SOURCE
from feed_assets_tests.waiting import HANGS, until

NOW = dt.datetime.now(dt.UTC)
GOOD = b'{"id":"1","time":"2019-11-24 12:00:00"}\n'
HEAD = b"POST /v1/events/shop_ads HTTP/1.1\r\nHost: x\r\nContent-Type: application/x-ndjson\r\n"
LIMITS = Limits(
    roll_seconds=3600, body_bytes=20_000, unpacked_bytes=50_000, records=100, record_bytes=1000, body_seconds=0.5
)


@pytest.fixture(scope="module")
def open_server(tmp_path_factory):
    """A server without tokens, with small limits."""
    with running_light(Light(tmp_path_factory.mktemp("open") / "base", LIMITS)) as server:
        yield server


@pytest.fixture(scope="module")
def certificate(tmp_path_factory):
    """A certificate of 127.0.0.1 and its key, which it has signed itself."""
    return self_signed(tmp_path_factory.mktemp("tls"))


def test_good_and_bad_records_are_answered_with_counts_and_an_error_for_each_bad_one(open_server):
    body = b"[" + GOOD + b"," + GOOD + b',{"id":""}]'
    sent = {
        "lines": open_server.post(GOOD + GOOD + b'{"id":""}'),
        "array": open_server.post(body, Content_Type="application/json; charset=utf-8"),
        "gzip": open_server.post(gzip.compress(body), Content_Type="application/json", Content_Encoding="gzip"),
        "key": open_server.post(GOOD + GOOD + b'{"id":""}', source=SOURCE),
    }

    errors = [{"index": 2, "reason": "nothing identifies the record: no value for id"}]
    for answer in sent.values():
        assert answer.status == 202
        assert {name: answer.body[name] for name in ("accepted", "rejected", "errors")} == {
            "accepted": 2,
            "rejected": 1,
            "errors": errors,
        }
    assert len({answer.body["request_id"] for answer in sent.values()}) == len(sent)


def test_a_request_with_a_key_is_taken_once_and_its_key_names_no_other_request(open_server):
    before = open_server.metric('feed_assets_receive_events_total{outcome="accepted"}')

    first, again = (open_server.post(GOOD, Idempotency_Key="a key") for _ in range(2))
    assert (first.status, again.status) == (400, 400)  # a space
    first, again = (open_server.post(GOOD, Idempotency_Key="key-1") for _ in range(2))
    other = open_server.post(GOOD + GOOD, Idempotency_Key="key-1")

    assert first.body == again.body
    assert again.headers["idempotency-replayed"] == "true"
    assert other.status == 422
    assert open_server.metric('feed_assets_receive_events_total{outcome="accepted"}') == before + 1


@pytest.mark.parametrize(
    ("body", "options", "status", "words"),
    [
        (GOOD, {"source": "nobody"}, 404, "check the name"),
        (GOOD, {"source": "shop_files"}, 415, "clicks/shop_files takes files, not events"),
        (GOOD, {"source": "stopped_ads"}, 503, "stopped until its description is corrected; send it again"),
        (GOOD, {"Content_Type": "text/csv"}, 415, "application/x-ndjson"),
        (GOOD, {"Content_Encoding": "br"}, 415, "pack it with gzip"),
        (GOOD, {"Content_Encoding": "gzip"}, 400, "is not gzip"),
        (b"[1,", {"Content_Type": "application/json"}, 400, "not an array of JSON"),
        pytest.param(b" " * 20_001, {}, 413, "20,000 bytes", id="large"),
        pytest.param(
            gzip.compress(b" " * 50_001), {"Content_Encoding": "gzip"}, 413, "50,000 bytes", id="large when unpacked"
        ),
        pytest.param(b"{}\n" * 101, {}, 413, "101 records, more than 100", id="many"),
    ],
)
def test_a_request_that_is_refused_says_why_and_leaves_nothing(open_server, body, options, status, words):
    before = open_server.metric("feed_assets_receive_commit_seconds_count")

    answer = open_server.post(body, **options)

    assert (answer.status, words in answer.body["detail"]) == (status, True), answer.body
    assert open_server.metric("feed_assets_receive_commit_seconds_count") == before


def test_events_of_a_client_that_offers_http_2_are_refused_and_not_acknowledged_without_being_read(open_server):
    offer = b"Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQAAP__\r\n"

    with closing(socket.create_connection(("127.0.0.1", open_server.port), timeout=HANGS)) as client:
        client.sendall(HEAD + offer + b"Content-Length: %d\r\n\r\n" % len(GOOD) + GOOD)
        answer = http.client.HTTPResponse(client)
        answer.begin()
        detail = json.loads(answer.read())["detail"]

    assert (answer.status, "send the events by HTTP/1.1" in detail) == (400, True)


def test_a_slow_body_is_ended_and_one_that_breaks_off_leaves_nothing_while_others_are_served(open_server):
    head = HEAD + b"Content-Length: 100\r\n\r\n"
    open_server.post(GOOD)  # the server shows the figure from its first event on
    before = open_server.metric('feed_assets_receive_events_total{outcome="accepted"}')

    with closing(socket.create_connection(("127.0.0.1", open_server.port))) as slow:
        slow.sendall(head + GOOD)
        with closing(socket.create_connection(("127.0.0.1", open_server.port))) as broken:
            broken.sendall(head + GOOD)
        assert open_server.post(GOOD).status == 202
        assert slow.recv(1000).startswith(b"HTTP/1.1 408")

    assert open_server.metric('feed_assets_receive_events_total{outcome="accepted"}') == before + 1
    assert open_server.metric("feed_assets_receive_held_bytes") == 0


def test_the_server_documents_itself_and_shows_its_state_without_a_name_of_a_source(open_server):
    open_server.post(GOOD)
    api = open_server.get("/openapi.json").body
    ready, metrics = open_server.get("/ready"), open_server.get("/metrics")

    post = api["paths"]["/v1/events/{source}"]["post"]
    assert set(post["responses"]) >= {"202", "400", "401", "403", "413", "415", "429", "503"}
    assert set(post["requestBody"]["content"]) == {"application/json", "application/x-ndjson"}
    assert open_server.get("/docs").status == open_server.get("/health").status == 200
    assert ready.status == 200
    assert ready.body["journal_writable"]
    assert ready.body["lander_alive"]
    assert "shop_ads" not in json.dumps([api, ready.body, metrics.body])
    assert listening(family(open_server.process.pid)) == {(psutil.Process(open_server.process.pid).name(), "loopback")}


def test_a_token_writes_its_sources_only_over_tls_until_it_is_revoked_and_its_successor_beside_it(
    tmp_path, certificate
):
    patient = replace(LIMITS, body_seconds=5)  # a client may come late after its handshake
    light = Light(tmp_path / "base", patient, tokens=True, tls=certificate)
    describe(light.base)
    acme = add_token(light.store, "acme", [SOURCE], now=NOW, expires=None)
    next_one = add_token(light.store, "acme", [SOURCE], now=NOW, expires=NOW + dt.timedelta(days=1))
    other = add_token(light.store, "other", ["ads/mall_ads"], now=NOW, expires=None)
    expired = add_token(light.store, "gone", [SOURCE], now=NOW, expires=NOW)
    secrets = [each.split("_", 2)[2] for each in (acme, next_one, other, expired)]

    with running_light(light) as server:

        def status(token, source="shop_ads", scheme="Bearer"):
            answer = server.post(GOOD, source, Authorization=f"{scheme} {token}")
            return answer.status, answer.body.get("detail", "").replace(source, "SOURCE")

        assert [status(each)[0] for each in (acme, next_one, expired, acme[:-1], "", "fa__", acme.upper())] == [
            *[202, 202],
            *[401] * 5,
        ]
        assert server.post(GOOD).status == status(acme, scheme="Basic")[0] == 401
        assert status(other) == status(other, "nobody") == status(acme, "mall_ads")
        assert status(other)[0] == 403
        with light.store.writing() as transaction:
            assert remove_token(transaction, acme.split("_")[1], now=NOW)
        until(lambda: status(acme)[0] != 202)
        assert status(next_one)[0] == 202
        repeated = [server.post(GOOD, Authorization=f"Bearer {next_one}", Idempotency_Key="k").body for _ in range(2)]
        assert repeated[0] == repeated[1]
        with pytest.raises(ssl.SSLError):
            ssl.create_default_context().wrap_socket(
                socket.create_connection(("127.0.0.1", server.port)), server_hostname="127.0.0.1"
            )

    stored = (light.base / ".state" / "state.db").read_bytes() + (light.base / "log").read_bytes()
    assert not any(secret.encode() in stored for secret in secrets)


def test_a_partner_that_sends_more_than_its_rate_waits_and_too_much_under_way_is_refused(tmp_path):
    limits = Limits(roll_seconds=3600, rate=0.01, held_bytes=1000, body_seconds=5)  # the next is due in 20 minutes
    with running_light(Light(tmp_path / "base", limits)) as server:
        refused = server.post(b"x" * 1001)
        burst = [server.post(GOOD * 12), server.post(GOOD)]

    assert (refused.status, refused.headers["retry-after"]) == (429, "1")
    assert [answer.status for answer in burst] == [202, 429]
    assert int(burst[1].headers["retry-after"]) > 1000


def test_a_partner_that_has_waited_for_as_long_as_it_was_told_may_send_again():
    clock = SimpleNamespace(now=0.0)
    receiver = Receiver([], None, None, None, Limits(rate=10), Metrics())
    receiver.rate.clock = lambda: clock.now
    receiver.rate.spend("acme", 35)
    with pytest.raises(HTTPException) as refused:
        receiver.require_rate("acme")

    clock.now += int(refused.value.headers["Retry-After"])

    receiver.require_rate("acme")


def test_as_many_connections_as_are_allowed_are_served_and_one_more_is_refused_until_another_ends(tmp_path):
    def health(connection):
        connection.request("GET", "/health")
        answer = connection.getresponse()
        answer.read()
        return answer.status

    with (
        running_light(Light(tmp_path / "base", Limits(roll_seconds=3600, connections=2))) as server,
        ExitStack() as stack,
    ):
        first, second, third = (
            stack.enter_context(closing(http.client.HTTPConnection("127.0.0.1", server.port, timeout=30)))
            for _ in range(3)
        )
        assert [health(each) for each in (first, second, third)] == [200, 200, 503]
        first.close()
        third.close()
        assert until(lambda: server.get("/health").status == 200)
        assert health(second) == 200


def test_a_signal_ends_the_server_after_what_is_in_flight_and_the_next_lands_it_all(tmp_path):
    light = Light(tmp_path / "base", Limits(roll_seconds=3600))
    with running_light(light) as server:
        server.post(GOOD)
        with (
            closing(socket.create_connection(("127.0.0.1", server.port))) as idle,
            closing(socket.create_connection(("127.0.0.1", server.port))) as slow,
        ):
            idle.sendall(b"GET /health HTTP/1.1\r\nHost: x\r\n\r\n")
            slow.sendall(HEAD + b"Content-Length: %d\r\n\r\n" % len(GOOD) + GOOD[:5])
            until(lambda: server.metric("feed_assets_receive_held_bytes"))
            psutil.Process(server.process.pid).terminate()
            while idle.recv(1000):  # it is closed when the server begins to end
                pass
            slow.sendall(GOOD[5:])
            answer = slow.recv(1000)
        server.process.join(HANGS)
        assert server.process.exitcode == 0
    assert answer.startswith(b"HTTP/1.1 202")
    assert len(light.opened().segments()) == 1

    with running_light(light) as server:
        until(lambda: not light.opened().segments())
    (sent,) = (light.base / "raw/.sent/ads/shop_ads").iterdir()
    assert len(sent.read_bytes().splitlines()) == 2


def test_a_lander_that_dies_is_started_again_and_lands_what_is_due(tmp_path):
    light = Light(tmp_path / "base", Limits(roll_seconds=0.2))
    with running_light(light) as server:
        server.post(GOOD)
        (lander,) = psutil.Process(server.process.pid).children()
        lander.kill()
        until((light.base / "raw/.sent/ads/shop_ads").exists)
        server.wait("/ready", '"backlog_segments": 0')


def test_what_waits_is_as_old_as_its_first_event_also_after_a_restart(tmp_path, monkeypatch):
    light = Light(tmp_path / "base", LIMITS)
    yesterday = f"{NOW - dt.timedelta(days=1):%Y%m%dT%H%M%S%f}-0123456789abcdef"
    monkeypatch.setattr("feed_assets.journal.on_disk.new_segment", lambda: yesterday)
    journal = light.opened()
    journal.claim()
    segment = journal.begin()
    journal.append([framed(Entry(Header("ads/gone", "request-1", 1), GOOD))])
    journal.seal(segment)
    os.close(journal._lock)

    with running_light(light) as server:
        ready = until(lambda: (found := server.get("/ready")).body["backlog_segments"] and found)
        shown = server.metric("feed_assets_receive_backlog_seconds")

    assert min(ready.body["backlog_seconds"], shown) >= 24 * 60 * 60


@pytest.mark.parametrize(("age", "status"), [(60 + 890, 200), (60 + 910, 503)])
@pytest.mark.parametrize("sealed", [True, False])
def test_it_is_ready_until_an_event_waits_for_longer_than_planned_and_the_backlog_may_take(age, status, sealed):
    segment = f"{dt.datetime.now(dt.UTC) - dt.timedelta(seconds=age):%Y%m%dT%H%M%S%f}-0123456789abcdef"
    keeper = Keeper(None, None, None, backlog=Backlog(1, segment if sealed else "", lander_alive=True))
    committer = SimpleNamespace(failure="", oldest_seconds=0.0 if sealed else float(age))
    app = create_app(Receiver([], None, committer, keeper, Limits(), Metrics()))
    (ready,) = (route.endpoint for route in app.routes if route.path == "/ready")

    assert asyncio.run(ready(None)).status_code == status


def test_a_source_that_cannot_land_is_named_and_holds_up_no_other(tmp_path):
    light = Light(tmp_path / "base", Limits(roll_seconds=0.1, backlog_seconds=0))
    journal = light.opened()
    journal.claim()
    segment = journal.begin()
    for source in ("ads/gone", "ads/shop_ads"):
        journal.append([framed(Entry(Header(source, "request-1", 1), GOOD + b"\n"))])
    journal.seal(segment)
    os.close(journal._lock)

    with running_light(light) as server:
        server.wait("/ready", '"ads/gone"')
        until((light.base / "raw/.sent/ads/shop_ads").exists)
        time.sleep(0.3)  # longer than events may wait
        ready, stuck = server.get("/ready"), server.metric("feed_assets_receive_stuck_segments")

        assert (ready.status, list(ready.body["stuck_sources"]), stuck) == (200, ["ads/gone"], 1)
        assert ready.body["backlog_segments"] == ready.body["backlog_problems"] == 1
        assert server.post(GOOD.replace(b"1", b"2", 1)).status == 202
        until(lambda: len(list((light.base / "raw/.sent/ads/shop_ads").iterdir())) == 2)


def test_a_segment_that_ends_the_lander_each_time_holds_up_no_other(tmp_path):
    light = Light(tmp_path / "base", Limits(roll_seconds=0.1))
    with running_light(light) as server:
        server.post(GOOD.replace(b"1", b"poison", 1))
        until(lambda: light.opened().segments())
        time.sleep(0.3)
        server.post(GOOD)
        until((light.base / "raw/.sent/ads/shop_ads").exists)

        assert server.get("/ready").body["backlog_segments"] >= 1


def test_a_disk_that_takes_no_more_is_answered_with_503_until_it_does(tmp_path):
    with running_light(Light(tmp_path / "base", Limits(roll_seconds=3600))) as server:
        process = psutil.Process(server.process.pid)
        server.post(GOOD)
        process.rlimit(psutil.RLIMIT_FSIZE, (10, psutil.RLIM_INFINITY))
        refused, ready = server.post(GOOD), server.get("/ready")
        process.rlimit(psutil.RLIMIT_FSIZE, (psutil.RLIM_INFINITY, psutil.RLIM_INFINITY))
        taken = server.post(GOOD)

        assert (refused.status, refused.headers["retry-after"]) == (503, "5")
        assert (ready.status, ready.body["journal_writable"]) == (503, False)
        assert taken.status == 202
        assert server.get("/ready").status == 200


def test_the_server_loads_no_spark():
    code = "import sys, feed_assets.receiving.running; sys.exit('pyspark' in sys.modules or 'dagster' in sys.modules)"

    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
