"""Starting the judge in a process of its own, and what a test says to it and asks it.

Here: `JudgeServer` and `judging`. Not here: the server's process (see `server`).
"""

from __future__ import annotations

import http.client
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import boto3
import msgspec
from botocore.config import Config

from feed_assets_tests import ROOT
from feed_assets_tests.delivery.judge.account import Account
from feed_assets_tests.delivery.judge.faults import Fault, Rule
from feed_assets_tests.delivery.judge.log import Log
from feed_assets_tests.delivery.judge.signatures import ACCESS_KEY, SECRET_KEY
from feed_assets_tests.delivery.judge.streams import REGION
from feed_assets_tests.servers.server import AwsServer


class JudgeServer(AwsServer):
    """A judge in a process of its own. Its log is a file in `data`, and stays when the process ends."""

    name = "judge"
    service = "KINESIS"
    region = REGION
    access_key = ACCESS_KEY
    secret_key = SECRET_KEY

    def __init__(self, data: Path, port: int = 0) -> None:
        super().__init__(data, port)
        self._session: boto3.Session | None = None

    @property
    def environment(self) -> dict[str, str]:
        """See `LocalServer.environment`."""
        return {**super().environment, "AWS_EC2_METADATA_DISABLED": "true"}

    @property
    def log(self) -> Log:
        """All stored records."""
        return Log(self.data / "log")

    def start(self) -> None:
        """See `LocalServer.start`."""
        module = "feed_assets_tests.delivery.judge"
        command = [sys.executable, "-m", module, str(self.port), self.data / "log"]
        self._run(command, {"PYTHONPATH": str(ROOT), "PYTHONUNBUFFERED": "1"})
        self._wait(self._answers)

    def client(self, **more: Any) -> Any:
        """boto3's client of the judge. It does not retry, unless `config` says so."""
        self._session = self._session or boto3.Session()  # keeps the API's model, which takes long to load
        return self._session.client(
            "kinesis", **(self.settings | {"config": Config(retries={"max_attempts": 0})} | more)
        )

    def create(self, stream: str, shards: int = 1) -> str:
        """Make a stream. Returns its name."""
        self.client(config=Config(retries={"max_attempts": 10})).create_stream(StreamName=stream, ShardCount=shards)
        return stream

    def inject(self, *rules: Rule, seed: int = 0) -> None:
        """Replace all faults by these."""
        self._control("POST", "faults", {"rules": rules, "seed": seed})

    @contextmanager
    def injecting(self, *rules: Rule, seed: int = 0) -> Iterator[None]:
        """Inject these faults for a while."""
        self.inject(*rules, seed=seed)
        try:
            yield
        finally:
            self.inject()

    def set(self, **settings: float | bool) -> None:
        """Change fields of `limits.Settings`."""
        self._control("POST", "settings", settings)

    def know(
        self,
        access_key: str = ACCESS_KEY,
        secret_key: str = SECRET_KEY,
        session_token: str | None = None,
        expires_in: float | None = None,
    ) -> None:
        """Know these credentials, instead of others with the same access key."""
        given = {"access_key": access_key, "secret_key": secret_key}
        more = {"session_token": session_token, "expires_in": expires_in}
        self._control("POST", "credentials", given | more)

    def when(
        self,
        stream: str,
        operation: str,
        *,
        after_records: int | None = None,
        after_seconds: float | None = None,
        **parameters: Any,
    ) -> None:
        """Run an operation of the API on the stream when it has stored so many records, or after a time."""
        event = {"stream": stream, "operation": operation, "parameters": {"StreamName": stream, **parameters}}
        given = {"after_records": after_records, "after_seconds": after_seconds}
        self._control("POST", "event", event | {name: value for name, value in given.items() if value is not None})

    def trim(self, stream: str, keep: int = 0) -> int:
        """Trim all but the last records of each shard, as if too old. Returns how many are gone."""
        return int(self._control("POST", "trim", {"stream": stream, "keep": keep}))

    def advance(self, seconds: float) -> None:
        """Move the judge's clock forward."""
        self._control("POST", "advance", {"seconds": seconds})

    def stop_clock(self) -> None:
        """From now on only `advance` moves the judge's clock: limits do not depend on how fast the machine is."""
        self._control("POST", "stop_clock", None)

    def outage(self, seconds: float) -> None:
        """Cut all connections, and refuse new ones for a time."""
        self._control("POST", "outage", {"seconds": seconds})

    def account(self) -> Account:
        """All counts since the judge started."""
        return msgspec.convert(self._control("GET", "account", None), Account, strict=False)

    def _control(self, method: str, path: str, content: Any) -> Any:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        try:
            connection.request(method, f"/judge/{path}", msgspec.json.encode(content))
            response = connection.getresponse()
            answer = msgspec.json.decode(response.read())
        finally:
            connection.close()
        if response.status != 200:
            raise ValueError(answer["message"])
        return answer


def throttled(**where: Any) -> Rule:
    """Whole requests are throttled, and not done."""
    return Rule("error_before", error="ProvisionedThroughputExceededException", status=400, **where)


def refused(error: str, **where: Any) -> Rule:
    """Whole requests get an error of the client's kind, such as AccessDeniedException, and are not done."""
    return Rule("error_before", error=error, status=400, **where)


@contextmanager
def judging(folder: Path | None = None) -> Iterator[JudgeServer]:
    """A judge that runs for a while. Without a folder, its log goes when it ends."""
    with tempfile.TemporaryDirectory(prefix="judge-") as temporary:
        server = JudgeServer((folder or Path(temporary)) / "judge")
        server.start()
        try:
            yield server
        finally:
            server.kill()


__all__ = ["ACCESS_KEY", "SECRET_KEY", "Fault", "JudgeServer", "judging", "refused", "throttled"]
