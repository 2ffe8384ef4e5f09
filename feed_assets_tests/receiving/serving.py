"""The real receiver as a process, and clients for it. Not here: any expectation."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from feed_assets_tests.harness import free_port

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
    """A receiver that runs on a base."""

    process: subprocess.Popen[bytes]
    port: int
    log: Path

    def get(self, path: str) -> Answered:
        return self._ask(urllib.request.Request(f"http://127.0.0.1:{self.port}{path}"))

    def post(self, body: bytes, source: str = "shop_ads", **headers: str) -> Answered:
        """Send a body; headers are named with `_` for `-`."""
        given = {"Content-Type": "application/x-ndjson"} | {
            name.replace("_", "-"): value for name, value in headers.items()
        }
        url = f"http://127.0.0.1:{self.port}/v1/events/{source}"
        return self._ask(urllib.request.Request(url, data=body, headers=given, method="POST"))

    def kill(self) -> None:
        """Kill it, as the kernel does when memory runs out."""
        self.process.kill()
        self.process.wait()

    def end(self) -> int:
        """Send SIGTERM; the exit code."""
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(60)

    def _ask(self, request: urllib.request.Request) -> Answered:
        try:
            with urllib.request.urlopen(request, timeout=30) as answer:
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
def serving(base: Path, *options: str, tokens: bool = False) -> Iterator[Server]:
    """A receiver of the command line, ready for requests; it is killed at the end."""
    server = start(base, *options, tokens=tokens)
    try:
        yield server
    finally:
        server.kill()


def start(base: Path, *options: str, tokens: bool = False) -> Server:
    """Start a receiver of the command line, and wait until it answers."""
    port, log = free_port(), base.parent / "receiver.log"
    base.parent.mkdir(parents=True, exist_ok=True)
    command = [sys.executable, "-m", "feed_assets.cli", "receive", "--port", str(port), *options]
    with log.open("ab") as output:
        process = subprocess.Popen(
            [*command, *([] if tokens else ["--no-tokens"])],
            env=environment(base),
            stdout=output,
            stderr=subprocess.STDOUT,
            process_group=0,
        )
    server = Server(process, port, log)
    while process.poll() is None:
        try:
            if server.get("/health").status == 200:
                return server
        except OSError:
            time.sleep(0.05)
    raise AssertionError(log.read_text(encoding="utf-8"))
