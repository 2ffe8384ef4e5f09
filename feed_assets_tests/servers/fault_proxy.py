"""A proxy before a server of S3 that injects faults: the same server, with an endpoint at which requests may go wrong.

Here: starting it, and choosing the faults. Not here: the faults themselves (see `faulty`, its process).

A store of today may show these: SlowDown, an internal error, a connection cut before or after the server acted, a
conflict of conditional writes, slow and truncated bodies, a clock that is wrong. S3 is strongly consistent since 2020:
listings that repeat keys, lag or tear between pages are beyond its contract.
"""

from __future__ import annotations

import http.client
import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from feed_assets_tests.servers.faulty import CONTROL, KINDS, LISTINGS
from feed_assets_tests.servers.server import S3Server

CONTRACT: Final = tuple(kind for kind in KINDS if kind not in LISTINGS)
"""The faults that a store within the contract of S3 may show."""


class FaultProxy(S3Server):
    """The proxy of one server, in a process of its own. Without `inject` it passes everything on."""

    name = "faults"

    def __init__(self, data: Path, upstream: S3Server, seed: int = 0) -> None:
        super().__init__(data)
        self.upstream = upstream
        self.region, self.access_key, self.secret_key = upstream.region, upstream.access_key, upstream.secret_key
        self._seed = seed

    def start(self) -> None:
        """See `S3Server.start`. The server must run."""
        program = Path(__file__).with_name("faulty.py")
        self._run([sys.executable, program, str(self.port), str(self.upstream.port), str(self._seed)], {})
        self._wait(self._answers)

    def inject(self, **rates: float) -> None:
        """Set the rate of each fault: the share of the requests that it may hit. All others stop."""
        if unknown := set(rates) - set(KINDS):
            raise ValueError(f"There is no fault {', '.join(sorted(unknown))}; the faults are {', '.join(KINDS)}.")
        self._control("PUT", json.dumps(rates))

    @contextmanager
    def injecting(self, **rates: float) -> Iterator[None]:
        """Inject these faults for a while."""
        self.inject(**rates)
        try:
            yield
        finally:
            self.inject()

    def injected(self) -> dict[str, int]:
        """How often each fault was injected since `inject` was called."""
        return dict(json.loads(self._control("GET", "")))

    def _control(self, method: str, body: str) -> str:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=10)
        try:
            connection.request(method, CONTROL, body)
            return connection.getresponse().read().decode()
        finally:
            connection.close()
