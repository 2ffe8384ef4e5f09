"""How many events a second a receiver takes, each durable on the disk before its answer.

Here: the real server as a process, and clients that wait for each answer before they send the next request. Server and
clients share the machine. Not here: landing, except for the memory of many events.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from statistics import quantiles
from time import perf_counter

import psutil

from feed_assets_tests.benchmarks.results import Comparison, Report, Row, under_way
from feed_assets_tests.receiving.serving import Server, serving

BATCH = 1_000
CLIENTS = (1, 8)
REQUESTS = 5
"""So many different requests a client sends in turn."""
SECONDS, QUICK_SECONDS = 10.0, 0.5
MANY_EVENTS = 10_000_000
BATCHES_GOAL, SINGLE_GOAL, FLAT_GOAL = 50_000, 2_000, 1.5
NO_LANDING = ("--roll-seconds", "86400", "--roll-bytes", str(2**40))


def measure(scratch: Path, *, quick: bool = False) -> Report:
    """Events and requests a second, the median and the 99th percentile of a request, and the memory of the server."""
    seconds = QUICK_SECONDS if quick else SECONDS
    cases = [(size, clients) for size in (BATCH, 1) for clients in (CLIENTS if quick else (*CLIENTS, 32))]
    with serving(scratch / "base", *NO_LANDING) as server:
        rows, rates = [], {}
        for size, clients in cases:
            subject = f"batches of {size:,}" if size > 1 else "single events"
            under_way(f"{clients} clients, {subject}")
            before = server.metric("feed_assets_receive_commit_seconds_count")
            load = asyncio.run(_load(server, clients, size, seconds))
            appends = server.metric("feed_assets_receive_commit_seconds_count") - before
            rates[size, clients] = len(load.latencies) / load.seconds
            percentiles = quantiles(load.latencies, n=100)
            values = {
                "events_a_second": round(size * rates[size, clients]),
                "requests_a_second": round(rates[size, clients]),
                "p50_ms": 1000 * percentiles[49],
                "p99_ms": 1000 * percentiles[98],
                "requests_an_append": len(load.latencies) / appends,
            }
            rows.append(Row(f"{clients} clients", subject, values))
    comparisons = [
        _at_least("events a second, 8 clients, in batches", BATCH * rates[BATCH, 8], BATCHES_GOAL),
        _at_least("requests a second, 8 clients, single events", rates[1, 8], SINGLE_GOAL),
    ]
    if not quick:
        comparisons.append(_memory(scratch / "memory" / "base"))
    notes = [
        "An event has 160 bytes. Each append waits for the disk (fdatasync). Clients run in one process of their own.",
        "The memory is that of the server, not of the lander and its Spark.",
    ]
    return Report("receiver", "events that partners push, durable when answered", rows, comparisons, notes)


def event(number: int) -> bytes:
    """An event of the shop."""
    place = {"campaign": f"c{number % 50}", "user": f"user-{number % 100_000:06}", "place": "top", "cost": "0.0125"}
    time = f"2019-11-24 12:{number // 60 % 60:02}:{number % 60:02}"
    return json.dumps({"id": f"impression-{number:012}", "time": time, "ad": f"ad-{number % 997:04}", **place}).encode()


@dataclass(slots=True)
class _Load:
    seconds: float = 0.0
    latencies: list[float] = field(default_factory=list)


class _Client(asyncio.Protocol):
    """Sends the requests again and again, each after the answer to the one before."""

    def __init__(self, requests: Sequence[bytes], until: float, done: asyncio.Future[None], load: _Load) -> None:
        self._requests, self._until, self._done, self._load = requests, until, done, load
        self._sent, self._started, self._answer = 0, 0.0, b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport
        self._send()

    def data_received(self, data: bytes) -> None:
        self._answer += data
        head, _, body = self._answer.partition(b"\r\n\r\n")
        length = re.search(rb"content-length: (\d+)", head)
        if length is None or len(body) < int(length[1]):
            return
        if not head.startswith(b"HTTP/1.1 202"):
            self._done.set_exception(AssertionError(self._answer.decode()))
            return
        now, self._answer = perf_counter(), b""
        self._load.latencies.append(now - self._started)
        if now < self._until:
            self._send()
        elif not self._done.done():
            self._done.set_result(None)

    def _send(self) -> None:
        self._started = perf_counter()
        self._transport.write(self._requests[self._sent % len(self._requests)])
        self._sent += 1


async def _load(server: Server, clients: int, size: int, seconds: float) -> _Load:
    load, loop = _Load(), asyncio.get_running_loop()
    starts = [range(client * 10**6, client * 10**6 + REQUESTS * size, size) for client in range(clients)]
    requests = [[_request(server.port, size, start) for start in each] for each in starts]
    waiting: list[asyncio.Future[None]] = [loop.create_future() for _ in requests]
    begun = perf_counter()
    for mine, done in zip(requests, waiting, strict=True):
        client = partial(_Client, mine, begun + seconds, done, load)
        await loop.create_connection(client, "127.0.0.1", server.port)
    await asyncio.gather(*waiting)
    load.seconds = perf_counter() - begun
    return load


def _request(port: int, size: int, start: int) -> bytes:
    body = b"\n".join(event(number) for number in range(start, start + size))
    head = f"POST /v1/events/shop_ads HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nContent-Type: application/x-ndjson\r\n"
    return f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body


def _memory(base: Path) -> Comparison:
    """The memory of the server after 10 million events, as a multiple of its memory after a tenth of them."""
    with serving(base) as server:
        process, sizes = psutil.Process(server.process.pid), []
        for part in range(10):
            under_way(f"{MANY_EVENTS * (part + 1) // 10:,} of {MANY_EVENTS:,} events, which land meanwhile")
            sent = 0
            while sent < MANY_EVENTS // 10:
                sent += BATCH * len(asyncio.run(_load(server, 8, BATCH, 1.0)).latencies)
            sizes.append(process.memory_info().rss)
    name = f"memory after {MANY_EVENTS:,} events ({sizes[-1] / 2**20:.0f} MiB), as a multiple of that after a tenth"
    return Comparison.at_most(name, sizes[-1] / sizes[0], FLAT_GOAL)


def _at_least(name: str, value: float, goal: float) -> Comparison:
    return Comparison(name, value, f">= {goal:,}", value >= goal)
