"""A server that gives one answer, whatever it is asked."""

from __future__ import annotations

import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress

import pytest


@pytest.fixture
def one_answer() -> Iterator[Callable[..., str]]:
    """Start a server that gives this answer to one request, perhaps under TLS. Returns its URL."""
    servers: list[socket.socket] = []

    def start(answer: bytes, tls: ssl.SSLContext | None = None) -> str:
        server = socket.create_server(("127.0.0.1", 0))
        server = tls.wrap_socket(server, server_side=True) if tls else server
        servers.append(server)
        threading.Thread(target=_answer, args=(server, answer), daemon=True).start()
        return f"http{'s' if tls else ''}://127.0.0.1:{server.getsockname()[1]}"

    yield start
    for server in servers:
        server.close()


def _answer(server: socket.socket, answer: bytes) -> None:
    with suppress(OSError):  # who does not trust the certificate closes
        connection, _ = server.accept()
        with connection, connection.makefile("rb") as request:
            # What is left unread when the connection closes would cut the answer off.
            head = iter(request.readline, b"\r\n")
            length = next((int(each[15:]) for each in list(head) if each.lower().startswith(b"content-length:")), 0)
            request.read(length)
            connection.sendall(answer)
