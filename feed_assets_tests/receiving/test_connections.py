"""What a connection may cost before it is known whose it is. Not here: requests with a head (`test_server`)."""

from __future__ import annotations

import socket
import subprocess
import sys
from contextlib import ExitStack, closing, suppress

import psutil
import pytest

from feed_assets.receiving.limits import Limits
from feed_assets_tests.receiving.light import Light, running_light
from feed_assets_tests.waiting import HANGS, until

GOOD = b'{"id":"1","time":"2019-11-24 12:00:00"}\n'
HEAD = b"POST /v1/events/shop_ads HTTP/1.1\r\nHost: x\r\nContent-Type: application/x-ndjson\r\n"


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


@pytest.mark.parametrize("sent", [b"", HEAD, b"GET /health HTTP/1.1\r\nHost: x\r\n\r\n" + HEAD])
def test_a_connection_that_does_not_end_its_head_is_cut(server, sent):
    with connected(server) as connection:
        connection.sendall(sent)

        assert is_cut(connection)

    assert server.get("/health").status == 200


@pytest.mark.parametrize(
    ("start", "more"),
    [
        (b"GET /", b"a" * 10_000),
        (HEAD + b"X: ", b"a" * 10_000),
        (HEAD, b"X: y\r\n" * 1000),
        (HEAD + b"Transfer-Encoding: chunked\r\n\r\n1\r\n \r\n0\r\n", b"X: y\r\n" * 1000),
    ],
    ids=["address", "header", "headers", "headers behind a body"],
)
def test_a_head_without_end_is_cut_before_it_costs_memory(server, start, more):
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


def test_the_receiver_may_open_as_many_files_as_the_system_allows():
    limits = "resource.getrlimit(resource.RLIMIT_NOFILE)"
    lines = (
        "import resource; from feed_assets.receiving.connections import allow_files",
        f"resource.setrlimit(resource.RLIMIT_NOFILE, (256, {limits}[1])); allow_files(); print(len(set({limits})))",
    )
    assert subprocess.run([sys.executable, "-c", "\n".join(lines)], capture_output=True, check=True).stdout == b"1\n"


def established(server):
    return [each for each in psutil.Process(server.process.pid).net_connections() if each.status == "ESTABLISHED"]
