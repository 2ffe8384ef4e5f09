"""A real receiver for the demo: the partner pushes events to it over HTTP.

Here: its process, a request, and landing its journal. Not here: the receiver itself (`receiving`). The demo lands what
the receiver has taken with its own Spark, as the receiver's lander would do a minute later with one of its own.
"""

from __future__ import annotations

import csv
import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

import feed_assets as fa
from feed_assets.ads.demo.daemon import MODULE
from feed_assets.ads.schemas import KINDS
from feed_assets.blackboard.port import Blackboard
from feed_assets.journal.on_disk import DiskSegments
from feed_assets.receiving.landing_segments import Outcome, Place, land_segments
from feed_assets.resources.settings import Clock

STARTS_WITHIN = 60
"""Seconds."""


@dataclass(frozen=True, slots=True)
class RunningReceiver:
    """A receiver that listens on a port of this machine, with its journal and the description of its only source."""

    process: subprocess.Popen[bytes]
    port: int
    folder: Path
    described: Path

    def push(self, delivery: Path) -> dict[str, Any]:
        """Send the records of a CSV file as events; returns the receiver's answer. Raises RuntimeError if refused."""
        with delivery.open(encoding="utf-8", newline="") as file:
            body = "".join(f"{json.dumps(record)}\n" for record in csv.DictReader(file)).encode()
        self._ready()
        url = f"http://127.0.0.1:{self.port}/v1/events/{self.described.stem}"
        request = urllib.request.Request(url, body, {"Content-Type": "application/x-ndjson"})
        try:
            with urllib.request.urlopen(request, timeout=STARTS_WITHIN) as answer:  # noqa: S310 - of this machine
                return {"status": answer.status, **json.load(answer)}
        except urllib.error.HTTPError as error:
            raise RuntimeError(f"The receiver refused the events: {error.code} {error.read().decode()}") from None

    def stop(self) -> None:
        """End it as an operator does; what it has taken stays in its journal."""
        self.process.send_signal(signal.SIGTERM)
        self.process.wait()

    def land(self, spark: Callable[[], Any], board: Blackboard, clock: Clock) -> list[Outcome]:
        """Land what the stopped receiver has taken."""
        journal = DiskSegments(self.folder / "journal")
        place = Place(board, journal, [fa.load_source(self.described, KINDS)], spark, clock.now)
        return land_segments(place, journal.segments())

    def _ready(self) -> None:
        deadline = time.monotonic() + STARTS_WITHIN
        while time.monotonic() < deadline and self.process.poll() is None:
            with suppress(OSError), urllib.request.urlopen(f"http://127.0.0.1:{self.port}/health"):
                return
            time.sleep(0.1)
        raise RuntimeError(f"The receiver did not start: {(self.folder / 'log').read_text(encoding='utf-8')[-2000:]}")


@contextmanager
def receiver(folder: Path, description: Path, base: str) -> Iterator[RunningReceiver]:
    """Start a receiver for a partner's log that comes as events instead of files, and end it with the block."""
    described = yaml.safe_load(description.read_text(encoding="utf-8"))
    described["format"] = {"type": "jsonl", "columns": described["format"]["columns"]}
    sources = folder / "pushed"
    sources.mkdir()
    (sources / description.name).write_text(yaml.safe_dump(described), encoding="utf-8")
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    command = ["receive", "--no-tokens", "--port", str(port), "--journal", str(folder / "journal")]
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(  # noqa: S603 - this program
            [sys.executable, "-m", "feed_assets.cli", "--module", MODULE, *command],
            env={**os.environ, "FEED_ASSETS_BASE": base, "FEED_ASSETS_SOURCES": str(sources)},
            stdout=log,
            stderr=subprocess.STDOUT,
        )
    try:
        yield RunningReceiver(process, port, folder, sources / description.name)
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()
