"""Requests to the pool of workers, over a socket in the Dagster home that only its owner can open.

Here: where the socket is, and how a request gets its answer: a line of JSON each. Not here: what the requests do.
"""

from __future__ import annotations

import fcntl
import json
import logging
import os
import socket
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

SOCKET, LOCK = "workers.sock", "workers.lock"
ANSWERS_WITHIN = 10.0
"""Seconds; the pool answers at once, unless the machine is overloaded."""
_LONGEST = 65536

_log = logging.getLogger("feed_assets.warm_runs")


@contextmanager
def bound(home: Path) -> Iterator[socket.socket]:
    """The socket of this Dagster home, as soon as no other pool has it.

    It does not listen yet: whoever asks before its owner calls `listen` is told at once that there is no pool.
    Raises OSError if the home cannot be written, or if its path is too long for a socket.
    """
    with (home / LOCK).open("w") as lock, socket.socket(socket.AF_UNIX) as server:
        os.fchmod(lock.fileno(), 0o600)  # whoever can open it can lock it
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            _log.warning("Other workers serve %s: these wait until the others have ended.", home)
            fcntl.flock(lock, fcntl.LOCK_EX)
        (home / SOCKET).unlink(missing_ok=True)
        before = os.umask(0o177)
        try:
            server.bind(_address(home))
        finally:
            os.umask(before)
        yield server


def ask(home: Path, **request: Any) -> Mapping[str, Any]:
    """The pool's answer to a request; empty if there is no pool. Raises TimeoutError if it does not answer in time."""
    try:
        with socket.socket(socket.AF_UNIX) as client:
            client.settimeout(ANSWERS_WITHIN)
            client.connect(_address(home))
            client.sendall(json.dumps(request).encode() + b"\n")
            return _read(client)
    except TimeoutError:
        raise
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


def _address(home: Path) -> str:
    """The shorter path of the socket, absolute or relative: about 100 bytes fit into the address of a socket."""
    return min(str(home / SOCKET), os.path.relpath(home / SOCKET), key=len)
