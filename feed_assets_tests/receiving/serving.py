"""The real receiver as a process, and clients for it. Not here: any expectation."""

from __future__ import annotations

import json
import os
import ssl
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from feed_assets_tests.listening import free_port
from feed_assets_tests.waiting import until

EVENTS = """\
name: shop_ads
kind: ads
format: {type: jsonl, columns: [id, time, ad, campaign, user, place, cost]}
null_tokens: ["", "null"]
columns:
  impression_id: id
  event_time: to_timestamp(time)
  ad_id: ad
  campaign_id: campaign
  user_id: user
  placement_id: place
  cost: try_cast(cost AS DECIMAL(18, 6))
identity: [id]
growth_threshold_percent: 5
buffer_hours: 0
lookback_days: 7
"""
SOURCE = "ads/shop_ads"


@dataclass(frozen=True, slots=True)
class Answered:
    """What a server answered."""

    status: int
    body: Any
    headers: Mapping[str, str]


@dataclass(slots=True)
class Server:
    """A receiver that runs on a port. `tls` has its certificate and key."""

    process: Any
    port: int
    log: Path
    tls: tuple[str, str] | None = None

    def get(self, path: str) -> Answered:
        return self.ask(path)

    def ask(self, path: str, **headers: str) -> Answered:
        """Send a GET with these headers."""
        return self._ask(urllib.request.Request(f"{self.url}{path}", headers=headers))

    def post(self, body: bytes, source: str = "shop_ads", **headers: str) -> Answered:
        """Send a body; headers are named with `_` for `-`."""
        given = {"Content-Type": "application/x-ndjson"}
        given |= {name.replace("_", "-"): value for name, value in headers.items()}
        return self._ask(urllib.request.Request(f"{self.url}/v1/events/{source}", data=body, headers=given))

    @property
    def url(self) -> str:
        return f"http{'s' if self.tls else ''}://127.0.0.1:{self.port}"

    def metric(self, name: str) -> float:
        """A figure of `/metrics`, by its name and labels."""
        (line,) = [line for line in str(self.get("/metrics").body).splitlines() if line.startswith(f"{name} ")]
        return float(line.split()[1])

    def wait(self, path: str = "/health", wanted: str = "") -> None:
        """Wait until it answers with 200, with this text if any."""

        def is_so() -> bool:
            with suppress(OSError):
                answer = self.get(path)
                if answer.status == 200 and wanted in json.dumps(answer.body):
                    return True
            ended = self.process.poll() if hasattr(self.process, "poll") else self.process.exitcode
            if ended is not None:
                raise AssertionError(self.log.read_text(encoding="utf-8"))
            return False

        until(is_so, every=0.02)

    def _ask(self, request: urllib.request.Request) -> Answered:
        context = ssl.create_default_context(cafile=self.tls[0]) if self.tls else None
        try:
            with urllib.request.urlopen(request, timeout=30, context=context) as answer:
                return _answered(answer.status, answer.read(), answer.headers)
        except urllib.error.HTTPError as error:
            with error:
                return _answered(error.code, error.read(), error.headers)


def _answered(status: int, body: bytes, headers: Mapping[str, str]) -> Answered:
    is_json = headers.get("content-type", "").startswith("application/json")
    return Answered(status, json.loads(body) if is_json else body.decode(), dict(headers))


def environment(base: Path) -> dict[str, str]:
    """The variables of an installation at this base whose one source takes events."""
    sources = base.parent / "sources"
    sources.mkdir(parents=True, exist_ok=True)
    (sources / "shop_ads.yaml").write_text(EVENTS, encoding="utf-8")
    return {**os.environ, "FEED_ASSETS_BASE": str(base), "FEED_ASSETS_SOURCES": str(sources)}


@contextmanager
def serving(base: Path, *options: str) -> Iterator[Server]:
    """A receiver of the command line without tokens, ready for requests; it is killed at the end."""
    port, log = free_port(), base.parent / "receiver.log"
    command = [sys.executable, "-m", "feed_assets.cli", "receive", "--no-tokens", "--port", str(port), *options]
    variables = environment(base)
    with log.open("ab") as output:
        process = subprocess.Popen(command, env=variables, stdout=output, stderr=subprocess.STDOUT, process_group=0)
    server = Server(process, port, log)
    try:
        server.wait()
        yield server
    finally:
        process.kill()
        process.wait()
