"""What a connection may cost before it is known whose it is. Not here: what a request may do."""

from __future__ import annotations

import asyncio
import http.client
import json
import re
import socket
import ssl
import subprocess
import sys
from contextlib import ExitStack, closing, suppress
from itertools import pairwise
from threading import Thread

import psutil
import pytest
import uvicorn
from hypothesis import given
from hypothesis import strategies as st
from uvicorn.server import ServerState

from feed_assets.receiving.limits import Limits
from feed_assets.serving.connections import ConnectionLimits, options
from feed_assets_tests.certificates import self_signed
from feed_assets_tests.receiving.light import Light, running_light
from feed_assets_tests.waiting import HANGS, until

GOOD = b'{"id":"1","time":"2019-11-24 12:00:00"}\n'
HEAD = b"POST /v1/events/shop_ads HTTP/1.1\r\nHost: x\r\nContent-Type: application/x-ndjson\r\n"
HEALTH = b"GET /health HTTP/1.1\r\nHost: x\r\n\r\n"
CHUNKED = b"Transfer-Encoding: chunked\r\n\r\n"
MOST_MB = 30
"""What the memory of a server may grow by. Without limits it grows by hundreds of MB in the same time."""


def in_chunks(body, size):
    parts = [body[start : start + size] for start in range(0, len(body), size)]
    return b"".join(b"%x\r\n%s\r\n" % (len(part), part) for part in [*parts, b""])


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    """A server without tokens, on which a head may take a second."""
    light = Light(tmp_path_factory.mktemp("open") / "base", Limits(roll_seconds=3600, body_seconds=1))
    with running_light(light) as running:
        yield running


def connected(server):
    return closing(socket.create_connection(("127.0.0.1", server.port), timeout=HANGS))


def is_cut(connection):
    """Whether the server cuts it, whatever it answers before."""
    with suppress(ConnectionError):
        while connection.recv(65536):
            pass
    return True


@pytest.mark.slow
@pytest.mark.parametrize("sent", [b"", HEAD, HEALTH + HEAD])
def test_a_connection_that_does_not_end_its_head_is_cut(server, sent):
    with connected(server) as connection:
        connection.sendall(sent)

        assert is_cut(connection)

    assert server.get("/health").status == 200


def grown(server, before):
    """The MB by which the server's memory has grown."""
    return (psutil.Process(server.process.pid).memory_info().rss - before) / 1e6


def answered(connection):
    """The next answer, with its detail."""
    answer = http.client.HTTPResponse(connection)
    answer.begin()
    return answer.status, json.loads(answer.read())["detail"]


@pytest.mark.parametrize("connections", [1, 100])
@pytest.mark.parametrize(
    "request_",
    [
        HEALTH,
        b"GET / HTTP/1.1\r\n\r\n",
        HEALTH.replace(b"\r\n\r\n", b"\r\nContent-Length: 3\r\n\r\nabc"),
        HEAD + b"Content-Length: %d\r\n\r\n" % len(GOOD) + GOOD,
        HEAD + b"Expect: 100-continue\r\nContent-Length: %d\r\n\r\n" % len(GOOD) + GOOD,
        HEAD + CHUNKED + in_chunks(GOOD, 1),
    ],
    ids=["GET", "short GET", "GET with a body", "POST", "POST that asks first", "POST in chunks of a byte"],
)
def test_requests_that_are_sent_before_the_answers_cost_no_memory_and_keep_nobody_waiting(
    server, request_, connections
):
    def send(connection):
        with suppress(OSError):
            while True:
                connection.sendall(request_ * 1000)

    def read(connection, size=2**16):
        nonlocal answers
        with suppress(OSError):
            while found := connection.recv(size):
                answers += found.count(b"HTTP/1.1 ")

    answers, before = 0, psutil.Process(server.process.pid).memory_info().rss
    with ExitStack() as stack:
        for _ in range(connections):
            connection = stack.enter_context(connected(server))
            stack.callback(connection.shutdown, socket.SHUT_RDWR)
            for each in (send, read):
                Thread(target=each, args=[connection], daemon=True).start()
        until(lambda: answers > 500 or grown(server, before) > MOST_MB)

        assert server.get("/health").status == 200
        assert grown(server, before) < MOST_MB


@st.composite
def requests_(draw):
    """A request, and the number of bytes of its body."""
    body = draw(st.sampled_from([b"", b"a", b"\r\n\r\n" * 3, b"0\r\n\r\n", b"\n\r\n\r\n" * 50, HEALTH * 2]))
    head = b"POST /%d HTTP/1.1\r\n" % len(body)
    if draw(st.booleans()):
        return head + b"Content-Length: %d\r\n\r\n" % len(body) + body
    chunks = in_chunks(body, draw(st.integers(1, 10)))
    return head + CHUNKED + (chunks.replace(b"0\r\n\r\n", b"0\r\nX: y\r\n\r\n") if not body else chunks)


@given(st.lists(requests_(), min_size=1, max_size=8), st.lists(st.integers(1, 300), max_size=20), st.booleans())
def test_requests_are_answered_one_after_the_other_however_their_bytes_come(requests, cuts, reads_body):
    under_way = most = 0

    async def app(scope, receive, send):
        nonlocal under_way, most
        under_way += 1
        most = max(most, under_way)
        size, more = 0, reads_body
        while more:
            message = await receive()
            size, more = size + len(message["body"]), message["more_body"]
        await asyncio.sleep(0)
        text = b"%s %d." % (scope["path"].encode(), size)
        under_way -= 1
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"%d" % len(text))]})
        await send({"type": "http.response.body", "body": text})

    async def talk():
        ours, theirs = socket.socketpair()
        ours.setblocking(False)
        loop, config = asyncio.get_running_loop(), uvicorn.Config(app, log_config=None, **options(ConnectionLimits()))
        config.load()
        await loop.connect_accepted_socket(
            lambda: config.http_protocol_class(config=config, server_state=ServerState(), app_state={}), theirs
        )
        sent, places = b"".join(requests), [0]
        for cut in cuts:
            places.append(min(places[-1] + cut, len(sent)))
        for start, end in pairwise([*places, len(sent)]):
            await loop.sock_sendall(ours, sent[start:end])
            for _ in range(3):
                await asyncio.sleep(0)
        found = b""
        while found.count(b".") - found.count(b"HTTP/1.1") < len(requests):
            found += await loop.sock_recv(ours, 65536)
        ours.close()
        await asyncio.sleep(0)
        return re.findall(rb"/(\d+) (\d+)\.", found)

    asked = [request.split()[1][1:] for request in requests]

    assert asyncio.run(talk()) == [(size, size if reads_body else b"0") for size in asked]
    assert most == 1


@pytest.mark.parametrize(
    ("head", "words"),
    [
        (HEALTH[:-2] + b"X: " + b"a" * 16_384 + b"\r\n\r\n", "more than 16,384 bytes"),
        (HEALTH[:-2] + b"X: y\r\n" * 100 + b"\r\n", "more than 100 headers"),
        (HEAD + CHUNKED + b"1\r\n \r\n0\r\n" + b"X: y\r\n" * 10_000, "more than 16,384 bytes"),
        (HEAD + CHUNKED + b"1;" + b"x" * 40_000, "more than 16,384 bytes"),
    ],
    ids=["bytes", "headers", "headers behind a body", "a chunk's options"],
)
def test_a_head_that_is_too_large_is_refused_with_the_limit_that_it_exceeds(server, head, words):
    with connected(server) as connection:
        connection.sendall(head)
        status, detail = answered(connection)

    assert (status, words in detail) == (431, True), detail


def test_a_head_within_the_limits_is_taken(server):
    with connected(server) as connection:
        connection.sendall(HEALTH[:-2] + b"X: y\r\n" * 98 + b"Y: " + b"a" * 15_000 + b"\r\n\r\n")

        assert connection.recv(15) == b"HTTP/1.1 200 OK"


@pytest.mark.parametrize(
    "bad", [b"\x16\x03\x01\x02\r\n\r\n", HEALTH.replace(b"\r\n", b"\n"), HEAD + b"Transfer-Encoding: gzip\r\n\r\n"]
)
def test_what_is_no_request_is_refused_with_the_reason(server, bad):
    with connected(server) as connection:
        connection.sendall(bad)
        status, detail = answered(connection)

    assert (status, detail.startswith("This is no request of HTTP/1.1: ")) == (400, True)


def test_a_client_that_speaks_http_2_at_once_is_told_to_speak_http_1(server):
    with connected(server) as connection:
        connection.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes.fromhex("000000040000000000"))
        status, detail = answered(connection)

    assert (status, "send it by HTTP/1.1" in detail) == (505, True)


@pytest.mark.parametrize("protocol", [b"websocket", b"h2c"])
def test_a_connection_ends_after_a_request_that_offers_another_protocol_and_its_body_is_no_request(server, protocol):
    offer = b"\r\nConnection: Upgrade\r\nUpgrade: %s\r\nContent-Length: %d\r\n\r\n" % (protocol, len(HEALTH))
    with connected(server) as connection:
        connection.sendall(HEALTH.replace(b"\r\n\r\n", offer) + HEALTH)
        answer = b"".join(iter(lambda: connection.recv(65536), b""))

    assert answer.count(b"HTTP/1.1 200 OK") == answer.count(b"HTTP/1.1") == 1


@pytest.mark.parametrize(
    ("start", "more"),
    [
        (b"GET /", b"a" * 10_000),
        (HEAD + b"X: ", b"a" * 10_000),
        (HEAD, b"X: y\r\n" * 1000),
        (HEAD + CHUNKED + b"1\r\n \r\n0\r\n", b"X: y\r\n" * 1000),
        (HEAD + CHUNKED + b"1\r\n \r\n0\r\nX: ", b"a" * 10_000),
        (HEALTH.replace(b"\r\n\r\n", b"\r\n" + CHUNKED) + b"0\r\nX: ", b"a" * 10_000),
        (HEALTH.replace(b"\r\n\r\n", b"\r\n" + CHUNKED), b"1\r\na\r\n" * 1000),
        (HEAD.replace(b"shop_ads", b"nobody") + CHUNKED, b"1\r\na\r\n" * 1000),
        (b"", b"\r\n" * 5000),
        (b"GET / HTTP/1.1\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n", b"a" * 10_000),
    ],
    ids=[
        "address",
        "header",
        "headers",
        "headers behind a body",
        "header behind a body",
        "header behind an ignored body",
        "ignored body",
        "refused body",
        "empty lines",
        "another protocol",
    ],
)
def test_a_request_without_end_is_cut_before_it_costs_memory(server, start, more):
    process = psutil.Process(server.process.pid)
    server.get("/health")
    before = process.memory_info().rss

    with connected(server) as connection, suppress(ConnectionError):
        connection.sendall(start)
        for _ in range(2000):
            connection.sendall(more)

    assert process.memory_info().rss - before < 10_000_000
    assert server.get("/health").status == 200


def test_a_client_that_reads_no_answer_is_cut(server):
    one = b"GET /openapi.json HTTP/1.1\r\nHost: x\r\n\r\n"
    with connected(server) as connection:
        connection.settimeout(0.5)
        with suppress(ConnectionError, TimeoutError):
            for _ in range(100_000):
                connection.sendall(one * 100)

        assert until(lambda: not established(server))


def test_of_silent_connections_no_more_are_kept_than_get_an_answer(tmp_path):
    light = Light(tmp_path / "base", Limits(roll_seconds=3600, connections=5))
    with running_light(light) as server, ExitStack() as stack:
        for _ in range(300):
            stack.enter_context(connected(server))

        assert until(lambda: len(established(server)) <= 105)


@pytest.fixture(scope="module")
def encrypting(tmp_path_factory):
    """A server with TLS that takes five connections, and the context of its clients."""
    certificate, base = self_signed(tmp_path_factory.mktemp("tls")), tmp_path_factory.mktemp("encrypting") / "base"
    limits = Limits(roll_seconds=3600, connections=5, body_seconds=1)
    with running_light(Light(base, limits, tls=certificate)) as running:
        yield running, ssl.create_default_context(cafile=certificate[0])


@pytest.mark.parametrize("sent", [b"", b"\x16\x03\x01\x02\x00\x01", HEALTH], ids=["nothing", "a part", "no TLS"])
def test_handshakes_that_do_not_end_are_limited_and_those_that_end_make_room(encrypting, sent):
    server, _ = encrypting
    with ExitStack() as stack:
        for _ in range(300):
            connection = stack.enter_context(connected(server))
            with suppress(ConnectionError):
                connection.sendall(sent)

        assert until(lambda: len(established(server)) <= 105)

    assert until(lambda: not established(server))
    assert server.get("/health").status == 200
    assert "Traceback" not in server.log.read_text(encoding="utf-8")


def test_requests_that_come_with_the_end_of_the_handshake_are_answered(encrypting):
    server, context = encrypting
    for _ in range(200):
        with connected(server) as plain, context.wrap_socket(plain, server_hostname="127.0.0.1") as encrypted:
            encrypted.sendall(HEALTH * 5)
            found = b""
            while found.count(b"HTTP/1.1 200 OK") < 5:
                found += encrypted.recv(65536)


def test_the_receiver_may_open_as_many_files_as_the_system_allows():
    limits = "resource.getrlimit(resource.RLIMIT_NOFILE)"
    lines = (
        "import resource; from feed_assets.serving.connections import allow_files",
        f"resource.setrlimit(resource.RLIMIT_NOFILE, (256, {limits}[1])); allow_files(); print(len(set({limits})))",
    )
    assert subprocess.run([sys.executable, "-c", "\n".join(lines)], capture_output=True, check=True).stdout == b"1\n"


def established(server):
    return [each for each in psutil.Process(server.process.pid).net_connections() if each.status == "ESTABLISHED"]
