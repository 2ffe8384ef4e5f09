"""ferrokinesis: a server of Kinesis's protocol, in memory, by others than those who wrote the judge and moto.

Here: where its program comes from, and how it is started. `python -m feed_assets_tests.servers.ferrokinesis` builds it,
which takes minutes; so nothing else does.
"""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path
from typing import Any, Final

import boto3

from feed_assets_tests import ROOT
from feed_assets_tests.servers import own_network
from feed_assets_tests.servers.server import AwsServer, MissingServerError, cache, done, kept

VERSION: Final = "0.7.0"
_NAME = f"ferrokinesis-{VERSION}"
_CARGO = Path.home() / ".cargo/bin/cargo"
# Its own profile optimizes across all 426 packages: half an hour or more.
_QUICK_BUILD = {
    "CARGO_PROFILE_RELEASE_LTO": "off",
    "CARGO_PROFILE_RELEASE_CODEGEN_UNITS": "16",
    "CARGO_PROFILE_RELEASE_OPT_LEVEL": "1",
}


def program() -> Path:
    """The program, if it was built. Raises MissingServerError."""
    built = cache() / _NAME / "ferrokinesis"
    if not built.exists():
        raise MissingServerError("it is not built; `make ferrokinesis` does that, once, in some minutes")
    return built


def build() -> Path:
    """Build the program, unless it was built. Raises MissingServerError."""
    with kept(_NAME) as place:
        built = place / "ferrokinesis"
        if not built.exists():
            cargo = shutil.which("cargo") or str(_CARGO)
            if not os.access(cargo, os.X_OK):
                raise MissingServerError("there is no cargo to build ferrokinesis: install Rust 1.87 or newer")
            # First beside its place: a build that is interrupted leaves no program.
            building = place / "building"
            command = [cargo, "install", "--locked", "ferrokinesis", "--version", VERSION, "--root", building]
            done([*command, "--quiet", "--force"], env={**os.environ, **_QUICK_BUILD})
            (building / "bin/ferrokinesis").rename(built)
            shutil.rmtree(building)
        return built


class Ferrokinesis(AwsServer):
    """A server of one process, with AWS's limits of writing; its streams are gone when it ends.

    It takes any credentials, and any signature that has the form of one.
    """

    name = "ferrokinesis"
    service = "KINESIS"
    is_optional = True

    def __init__(self, data: Path, port: int = 0, *, iterator_seconds: int = 300) -> None:
        self._program = program()
        done([sys.executable, "-m", own_network.MODULE, "0", "true"], cwd=ROOT)
        super().__init__(data, port)
        self._iterator_seconds = iterator_seconds

    def client(self, **more: Any) -> Any:
        """boto3's client of the server."""
        return boto3.client("kinesis", **self.settings, **more)

    def start(self) -> None:
        """See `LocalServer.start`. Streams and shards change within milliseconds."""
        options = {
            "port": self.port,
            "region": self.region,
            "enforce-limits": "true",
            "shard-limit": 20_000,
            "iterator-ttl-seconds": self._iterator_seconds,
            "create-stream-ms": 1,
            "update-stream-ms": 1,
            "delete-stream-ms": 1,
            "max-request-body-mb": 16,  # 10 MiB in base64
            "log-level": "warn",
        }
        # Of requests that overlap, records with lower sequence numbers may come later, and a reader at the tip misses
        # them. With one thread, requests of less than some 60 records do not overlap.
        environment = {"PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT), "TOKIO_WORKER_THREADS": "1"}
        # It listens on all addresses.
        own = [sys.executable, "-m", own_network.MODULE, str(self.port)]
        given = [f"--{name}={value}" for name, value in options.items()]
        self._run([*own, self._program, *given], environment)
        self._wait(self._answers)


if __name__ == "__main__":
    try:
        print(build())
    except MissingServerError as reason:
        sys.exit(f"Error: no ferrokinesis: {reason}.")
