"""A program in a network of its own: only 127.0.0.1 of this machine leads to it, and it ends with its network."""

from __future__ import annotations

import http.client
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest

from feed_assets_tests import ROOT
from feed_assets_tests.listening import family, free_port, listening
from feed_assets_tests.servers import own_network
from feed_assets_tests.servers.server import MissingServerError, done
from feed_assets_tests.waiting import until

pytestmark = pytest.mark.slow

IN_ITS_NETWORK = [sys.executable, "-m", own_network.MODULE]


@pytest.fixture(autouse=True)
def _possible() -> None:
    try:
        done([*IN_ITS_NETWORK, "0", "true"], cwd=ROOT)
    except MissingServerError as reason:
        pytest.skip(str(reason))


@contextmanager
def serving(port: int, *command: str) -> Iterator[psutil.Process]:
    """The process of the network while the program runs."""
    with subprocess.Popen([*IN_ITS_NETWORK, str(port), *command], cwd=ROOT) as process:
        try:
            yield psutil.Process(process.pid)
        finally:
            process.kill()


def status(address: str, port: int) -> int:
    """What a server of HTTP answers there; 0 if none does."""
    connection = http.client.HTTPConnection(address, port, timeout=10)
    try:
        connection.request("GET", "/")
        return connection.getresponse().status
    except (OSError, http.client.HTTPException):
        return 0
    finally:
        connection.close()


def test_a_program_that_listens_on_all_addresses_is_reached_by_loopback_alone() -> None:
    port = free_port()
    with serving(port, sys.executable, "-m", "http.server", str(port), "--bind", "0.0.0.0") as network:
        until(lambda: status("127.0.0.1", port) == 200)
        assert {address for _, address in listening(family(network.pid))} == {"loopback"}
        addresses = [
            each.address for found in psutil.net_if_addrs().values() for each in found if each.family == socket.AF_INET
        ]
        assert [each for each in addresses if status(each, port)] == ["127.0.0.1"]
        (program,) = network.children()
        networks = [Path(f"/proc/{each}/ns/net").readlink() for each in ("self", program.pid)]
        assert networks[0] != networks[1]


def test_a_program_ends_with_its_network() -> None:
    with serving(free_port(), "sleep", "1000") as network:
        program = until(network.children)[0]
        network.kill()
        until(lambda: not program.is_running() or program.status() == psutil.STATUS_ZOMBIE)


def test_a_network_ends_with_its_program() -> None:
    assert subprocess.run([*IN_ITS_NETWORK, "0", "sh", "-c", "exit 3"], cwd=ROOT, check=False).returncode == 3
