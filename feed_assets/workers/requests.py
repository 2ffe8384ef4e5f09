"""Requests to the pool of workers, over a socket in the Dagster home that only its owner can open.

Here: where the socket is, and how a request gets its answer: a line of JSON each. Not here: what the requests do.
"""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

SOCKET = "workers.sock"
ANSWERS_WITHIN = 10.0
"""Seconds; the pool answers at once, unless the machine is overloaded."""
_LONGEST = 65536


@contextmanager
def listening(home: Path) -> Iterator[socket.socket]:
    """A socket for requests in this Dagster home; another's that is there is replaced."""
    with _short_path(home) as path, socket.socket(socket.AF_UNIX) as server:
        Path(path).unlink(missing_ok=True)
        before = os.umask(0o177)
        try:
            server.bind(path)
        finally:
            os.umask(before)
        server.listen()
        yield server


def ask(home: Path, **request: Any) -> Mapping[str, Any]:
    """The pool's answer to a request; empty if no pool answers."""
    try:
        with _short_path(home) as path, socket.socket(socket.AF_UNIX) as client:
            client.settimeout(ANSWERS_WITHIN)
            client.connect(path)
            client.sendall(json.dumps(request).encode() + b"\n")
            return _read(client)
    except (OSError, TypeError, ValueError):
        return {}


def answer(client: socket.socket, decide: Callable[[Mapping[str, Any]], Mapping[str, Any]]) -> None:
    """Read the request of this client and send the answer of `decide`. A client that is gone gets none."""
    with client:
        client.settimeout(ANSWERS_WITHIN)
        try:
            client.sendall(json.dumps(decide(_read(client))).encode() + b"\n")
        except (OSError, TypeError, ValueError):
            return


def _read(peer: socket.socket) -> Mapping[str, Any]:
    line = b""
    while not line.endswith(b"\n") and len(line) < _LONGEST:
        part = peer.recv(4096)
        if not part:
            break
        line += part
    return dict(json.loads(line))


@contextmanager
def _short_path(home: Path) -> Iterator[str]:
    """A path of the socket that fits into the 107 bytes of an address, however long the path of the home is."""
    folder = os.open(home, os.O_PATH | os.O_DIRECTORY)
    try:
        yield f"/proc/self/fd/{folder}/{SOCKET}"
    finally:
        os.close(folder)
