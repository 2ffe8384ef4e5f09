"""Ports, small servers in the process of a test, addresses on which programs listen, and killing programs."""

from __future__ import annotations

import ipaddress
import socket
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from http.server import HTTPServer
from typing import TypeVar

import psutil

AServer = TypeVar("AServer", bound=HTTPServer)


def free_port() -> int:
    """A port on which nobody listens."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])


@contextmanager
def serving(server: AServer) -> Iterator[AServer]:
    """The server, answering in a thread."""
    with server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()


def family(process_id: int) -> list[psutil.Process]:
    """A process and all that it started."""
    root = psutil.Process(process_id)
    return [root, *root.children(recursive=True)]


def kill_family(process_id: int) -> None:
    """Kill a process and all that it started at once: asked politely, Java would end its tasks in order."""
    with suppress(psutil.NoSuchProcess):
        for each in reversed(family(process_id)):
            with suppress(psutil.NoSuchProcess):
                each.kill()


def listening(processes: Iterable[psutil.Process]) -> set[tuple[str, str]]:
    """The name and the address of each that listens. Loopback is `loopback`, also in the form of IPv6."""
    found = set()
    for process in processes:
        with suppress(psutil.NoSuchProcess):
            for connection in process.net_connections("inet"):
                if connection.status == psutil.CONN_LISTEN:
                    address = ipaddress.ip_address(connection.laddr.ip)
                    inner = getattr(address, "ipv4_mapped", None) or address
                    found.add((process.name(), "loopback" if inner.is_loopback else str(inner)))
    return found
