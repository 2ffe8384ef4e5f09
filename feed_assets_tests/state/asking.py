"""A program whose threads ask for the same days at the same time; or that dies while, or after, it asks for one.

It prints the days that it was to run. Arguments: the URL of the database, and `race`, `before` or `after`.
"""

from __future__ import annotations

import os
import sys
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from threading import Barrier

from feed_assets.blackboard.memory import MemoryBlackboard
from feed_assets.starts.requests import Need, Requests
from feed_assets.state.store import Store
from feed_assets_tests.late_data.plain_process import ADS, CLICKS, Days

NOW = datetime(2019, 12, 1, tzinfo=UTC)
GRAPH = Days(NOW)
DAYS = sorted(GRAPH.days)
THREADS = 4


def tick(url: str, day: str, barrier: Barrier | None = None) -> list[str]:
    """What a tick that finds this day due is to run."""
    requests = Requests(Store(url), MemoryBlackboard(), GRAPH, NOW, {})
    due = requests.not_yet_requested(day, {ADS: "1", CLICKS: "1"})
    if due:
        requests.add(Need(day, due, "it is due"))
    if barrier:
        barrier.wait()  # all have looked, as far as they are in this process, and nobody has asked
    return [request.need.partition for request in requests.put_on_record()]


def race(url: str) -> list[str]:
    """The days that these threads were to run."""
    barrier = Barrier(THREADS)
    with ThreadPoolExecutor(THREADS) as pool:
        ticks = [
            pool.submit(lambda: [day for each in DAYS for day in tick(url, each, barrier)]) for _ in range(THREADS)
        ]
        return [day for each in ticks for day in each.result()]


def main(url: str, what: str) -> None:
    if what == "race":
        print(*race(url))
    elif what == "before":
        with Store(url).writing() as transaction:
            transaction.append("requested", NOW, {})
            os._exit(9)
    else:
        tick(url, DAYS[0])
        os._exit(9)


if __name__ == "__main__":
    main(*sys.argv[1:])
