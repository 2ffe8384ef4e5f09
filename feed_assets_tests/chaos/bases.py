"""Where a run takes place: a directory, or a real S3 server behind the proxy that injects faults.

Here: starting it, and the blackboards of the workers and of the checker. Not here: the run (see `run`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final
from uuid import uuid4

import boto3
from botocore.config import Config

from feed_assets.blackboard.local import LocalBlackboard
from feed_assets.blackboard.port import Blackboard
from feed_assets.blackboard.s3 import S3Blackboard
from feed_assets_tests.servers.ceph import Ceph
from feed_assets_tests.servers.fault_proxy import CONTRACT, FaultProxy
from feed_assets_tests.servers.server import S3Server
from feed_assets_tests.servers.versitygw import Versitygw

RATES: Final[Mapping[str, float]] = dict.fromkeys(CONTRACT, 0.01)
"""The share of the requests that each kind of fault hits: together about one request in fourteen."""

PAGE_KEYS: Final = 20
"""Small pages, so that listings have many of them."""

CONNECT_SECONDS, ANSWER_SECONDS, ATTEMPTS = 5, 10, 4
SLOWEST_SECONDS: Final = 2 * ATTEMPTS * (CONNECT_SECONDS + ANSWER_SECONDS)
"""No request of the blackboard may take longer: all attempts, each up to its time-out, and the pauses in between."""

SERVERS: Final = {"versitygw": Versitygw, "ceph": Ceph}


@dataclass(frozen=True, slots=True)
class Base:
    """A place for a run. Workers use `board`; it is made before they are forked, and never used by their parent.

    The checker uses `direct`, without faults. On a `disk` each deletion of a file is a step, and nothing is ever
    unavailable.
    """

    name: str
    board: Blackboard
    direct: Blackboard
    disk: bool = False
    proxy: FaultProxy | None = None
    directory: Path | None = field(default=None)

    def faults(self) -> dict[str, int]:
        """How often each fault was injected."""
        return self.proxy.injected() if self.proxy is not None else {}


def on_disk(directory: Path) -> Base:
    """A directory."""
    return Base("disk", LocalBlackboard(directory), LocalBlackboard(directory), disk=True, directory=directory)


@contextmanager
def on_server(server: S3Server, folder: Path, seed: int, rates: Mapping[str, float] = RATES) -> Iterator[Base]:
    """A new bucket of a running server, behind a proxy of its own that injects faults at these rates."""
    bucket = f"chaos-{uuid4().hex}"
    direct = server.client()
    direct.create_bucket(Bucket=bucket)
    proxy = FaultProxy(folder / "proxy", server, seed)
    proxy.start()
    try:
        proxy.inject(**rates)
        client = boto3.client(
            "s3",
            endpoint_url=proxy.endpoint,
            region_name=proxy.region,
            aws_access_key_id=proxy.access_key,
            aws_secret_access_key=proxy.secret_key,
            config=Config(
                connect_timeout=CONNECT_SECONDS,
                read_timeout=ANSWER_SECONDS,
                retries={"total_max_attempts": ATTEMPTS},
            ),
        )
        board, real = (S3Blackboard(each, bucket, "base", page_size=PAGE_KEYS) for each in (client, direct))
        yield Base(server.name, board, real, proxy=proxy)
    finally:
        proxy.kill()


@contextmanager
def started(name: str, folder: Path, seed: int) -> Iterator[Base]:
    """The base of this name: `disk`, `versitygw`, `ceph`, or a directory. Raises MissingServerError."""
    if name in SERVERS:
        server = SERVERS[name](folder / "data")
        server.start()
        try:
            with on_server(server, folder, seed) as base:
                yield base
        finally:
            server.kill()
    else:
        yield on_disk((folder if name == "disk" else Path(name)) / f"chaos-{uuid4().hex}")
