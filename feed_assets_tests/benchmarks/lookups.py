"""Key-value stores of deliveries: changes that they apply in a second, and how long a lookup takes.

Here: both stores on this machine, with one client, quiet and while another process writes. Not here: streams.
"""

from __future__ import annotations

import os
import random
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from statistics import quantiles
from time import perf_counter, process_time
from unittest.mock import patch

from feed_assets.delivery.stores.port import Change, Store
from feed_assets.delivery.versions import Version
from feed_assets_tests.benchmarks.results import Comparison, Report, Row, Value
from feed_assets_tests.delivery.stores import writing
from feed_assets_tests.servers.redis import RedisServer

KEYS, FEW = 200_000, 2_000
LOOKUPS, SOME = 20_000, 1_000
AT_ONCE = 100
VALUE = b"v" * 200
GOAL_MS = 2.0
SPACE = "prices"


def measure(scratch: Path, *, quick: bool = False) -> Report:
    """Changes a second, and milliseconds of lookups, of each store."""
    keys, lookups = (FEW, SOME) if quick else (KEYS, LOOKUPS)
    server = RedisServer(scratch / "redis")
    server.start()
    rows, p99 = [], {}
    size = f"{keys:,} keys"
    try:
        with server.client() as client, patch.dict(os.environ, server.environment):
            for name, url in (("SQLite", "sqlite"), ("Redis", server.url)):
                with writing.opened(url, scratch) as store:
                    for edition, subject in ((1, "new keys"), (2, "newer values"), (1, "repeats")):
                        rows.append(Row(size, f"{name}: {subject}", _applied(store, keys, edition)))
                    calls = {f"{name}: a lookup": _looking(store)}
                    if name == "Redis":
                        calls["Redis: a PING"] = lambda _: client.ping()
                    quiet = _looked(calls, keys, lookups)
                    rows += (Row(size, subject, values) for subject, values in quiet.items())
                    p99[name] = quiet[f"{name}: a lookup"]["p99_ms"]
                    with writing.started(url, scratch, "others", "growing", 1) as writer:
                        if writer.stdout is None or not writer.stdout.readline():
                            raise AssertionError(writer)
                        busy = _looked(calls, keys, lookups)
                        writer.kill()
                    rows += (Row(size, f"{subject} during writes", values) for subject, values in busy.items())
    finally:
        server.kill()
    notes = [
        f"{AT_ONCE} changes of {len(VALUE)} bytes a call; SQLite waits for the disk in each. One client in Python.",
        "Lookups and PINGs take turns: a PING shows what the driver and a busy machine take of a lookup.",
    ]
    goals = [Comparison.at_most(f"p99 of a lookup in {name}, ms", each, GOAL_MS) for name, each in p99.items()]
    return Report("lookups", "key-value stores of deliveries", rows, goals, notes)


def _applied(store: Store, keys: int, edition: int) -> dict[str, Value]:
    numbers = list(range(keys))
    random.Random(edition).shuffle(numbers)
    start, cpu = perf_counter(), process_time()
    for first in range(0, keys, AT_ONCE):
        store.apply(
            SPACE,
            [
                Change(f"p{number}", Version("2024-01-01", edition, number).packed(), VALUE)
                for number in numbers[first : first + AT_ONCE]
            ],
        )
    seconds, cpu = perf_counter() - start, process_time() - cpu
    return {"changes_a_second": round(keys / seconds), "client_us_of_processor": cpu / keys * 1e6}


def _looking(store: Store) -> Callable[[int], object]:
    return lambda number: store.get_many(SPACE, [f"p{number}"], now=time.time())


def _looked(calls: Mapping[str, Callable[[int], object]], keys: int, turns: int) -> dict[str, dict[str, float]]:
    choice = random.Random(7)
    seconds: dict[str, list[float]] = {subject: [] for subject in calls}
    for _ in range(turns):
        number = choice.randrange(keys)
        for subject, call in calls.items():
            start = perf_counter()
            call(number)
            seconds[subject].append(perf_counter() - start)
    hundredths = {subject: quantiles(each, n=100) for subject, each in seconds.items()}
    return {subject: {"p50_ms": each[49] * 1e3, "p99_ms": each[98] * 1e3} for subject, each in hundredths.items()}
