"""dynalite: a server of DynamoDB's protocol, in memory, by others than those who wrote moto.

Here: where its packages come from, and how it is started. npm fetches them once, and runs none of their scripts.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from feed_assets_tests.servers.server import LocalServer, MissingServerError, done, kept

VERSION = "4.0.0"
_FETCH = ("--ignore-scripts", "--engine-strict", "--no-audit", "--no-fund", "--no-package-lock", "--loglevel=error")


def program() -> Path:
    """The program that Node.js runs. Raises MissingServerError."""
    if missing := [name for name in ("node", "npm") if shutil.which(name) is None]:
        raise MissingServerError(f"dynalite needs {missing[0]}, which is not on the PATH: install Node.js 20 or newer")
    with kept(f"dynalite-{VERSION}") as place:
        packages = place / "packages"
        if not packages.exists():
            # First beside its place: a fetch that is interrupted leaves nothing.
            fetching = place / "fetching"
            shutil.rmtree(fetching, ignore_errors=True)
            done(["npm", "install", f"--prefix={fetching}", *_FETCH, f"dynalite@{VERSION}"], cwd=place)
            fetching.rename(packages)
        return packages / "node_modules" / "dynalite" / "cli.js"


class Dynalite(LocalServer):
    """A server of one process; its tables are gone when it ends."""

    name = "dynalite"

    def __init__(self, data: Path, port: int = 0) -> None:
        self._program = program()
        super().__init__(data, port)

    @property
    def environment(self) -> dict[str, str]:
        """See `LocalServer.environment`. The server takes any credentials and any region."""
        return {"AWS_ENDPOINT_URL_DYNAMODB": f"http://127.0.0.1:{self.port}"}

    def start(self) -> None:
        """See `LocalServer.start`. A new table is there at once: boto3 would look again after 20 s only."""
        # Without a host, it listens on all addresses.
        options = ["--host", "127.0.0.1", "--port", str(self.port), "--createTableMs", "0", "--deleteTableMs", "0"]
        self._run(["node", self._program, *options], os.environ)
        self._wait(self._answers)
