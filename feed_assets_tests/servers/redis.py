"""Redis with a password, whose data survives its process.

Here: where its program comes from, and how it is started. Debian's packages are unpacked into the user's cache; nothing
is installed.
"""

from __future__ import annotations

import json
import os
import secrets
import shutil
from pathlib import Path

import pytest
from redis import Redis
from redis.exceptions import ConnectionError as NoConnectionError

from feed_assets.delivery.stores.address import options_variable
from feed_assets_tests.servers.debian import libraries, unpacked
from feed_assets_tests.servers.server import LocalServer

PACKAGES = ("redis-server",)


class RedisServer(LocalServer):
    """A server of one process. It has written each change to its log when it answers, as with `appendonly yes`."""

    name = "redis"

    def __init__(self, data: Path, port: int = 0) -> None:
        self._root = None if shutil.which("redis-server") else unpacked("redis", PACKAGES)
        super().__init__(data, port)
        self.password = secrets.token_urlsafe()

    @property
    def url(self) -> str:
        """The URL for clients."""
        return f"redis://127.0.0.1:{self.port}/0"

    @property
    def environment(self) -> dict[str, str]:
        """See `LocalServer.environment`: the password, for the destination `prices`."""
        return {options_variable("prices"): json.dumps({"password": self.password})}

    def given(self, monkeypatch: pytest.MonkeyPatch) -> str:
        """The URL; the environment of the test has the password."""
        for name, value in self.environment.items():
            monkeypatch.setenv(name, value)
        return self.url

    def client(self) -> Redis:
        """A client of redis-py."""
        return Redis.from_url(self.url, password=self.password, retry=None)

    def start(self) -> None:
        """See `LocalServer.start`."""
        settings = {
            "bind": "127.0.0.1",
            "port": str(self.port),
            "requirepass": self.password,
            "dir": str(self.data),
            "save": '""',
            "appendonly": "yes",
        }
        # In a file: the command line would show the password to all users.
        configuration = self.data / "redis.conf"
        configuration.touch(mode=0o600)
        configuration.write_text("".join(f"{name} {value}\n" for name, value in settings.items()), encoding="utf-8")
        environment, program = dict(os.environ), Path("redis-server")
        if self._root is not None:
            environment["LD_LIBRARY_PATH"] = ":".join(map(str, libraries(self._root)))
            program = self._root / "usr/bin/redis-server"
        self._run([program, configuration], environment)
        self._wait(self._answers)

    def _answers(self) -> bool:
        with self.client() as client:
            try:
                return bool(client.ping())
            except NoConnectionError:  # also while it loads its data
                return False
