"""Loaders that are killed: one process that forks a loader for each kill, and a checker of what readers may see.

Here: the kills, and a loader with a mistake that the checker must find. Not here: expectations of single loads. Run
`python -m feed_assets_tests.warehouse.killing DIRECTORY URL KILLS [--broken]`; it prints what it found as JSON.
"""

from __future__ import annotations

import gc
import json
import os
import random
import signal
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from feed_assets.blackboard.location import open_blackboard
from feed_assets.warehouse.address import open_warehouse
from feed_assets.warehouse.port import Warehouse
from feed_assets_tests.warehouse.feeds import DAY, Source, counts

ROWS = (200, 300)
"""Updates have these numbers of rows in turn, so that a mixture has another number."""


def stop_at(warehouse: Warehouse, act: Callable[[int], None]) -> Warehouse:
    """Call `act` with the number of each statement, ahead of it; those that insert through a driver count, too."""
    execute, insert, number = warehouse.execute, warehouse.insert, iter(range(1_000_000))

    def executed(connection: Any, statement: str, parameters: Any = ()) -> Any:
        act(next(number))
        return execute(connection, statement, parameters)

    def inserted(*arguments: Any) -> int:
        act(next(number))
        return insert(*arguments)

    warehouse.execute, warehouse.insert = executed, inserted  # type: ignore[method-assign]
    return warehouse


def without_a_transaction(warehouse: Warehouse) -> Warehouse:
    """A loader with a mistake: each statement commits by itself."""
    execute = warehouse.execute

    def executed(connection: Any, statement: str, parameters: Any = ()) -> Any:
        return [] if statement in {"BEGIN", "COMMIT", "ROLLBACK"} else execute(connection, statement, parameters)

    warehouse.execute = executed  # type: ignore[method-assign]
    return warehouse


def kills(source: Source, url: str, count: int, seed: int, *, broken: bool) -> Iterator[str]:
    """Kill loaders: at each statement in turn, and between them at any time. Yields what readers may not see."""
    open_warehouse(url)  # loads the driver, which each process would do again
    chosen, old = random.Random(seed), source.publish(ROWS[0])
    in_a_process(lambda: source.load(open_warehouse(url))[1])
    began, new = time.monotonic(), source.publish(ROWS[1])
    total = in_a_process(lambda: statements(source, url))
    seconds = time.monotonic() - began
    for kill in range(count):
        old, new = new, source.publish(ROWS[kill % 2])
        place = kill % (2 * (total + 1))
        pid = os.fork()
        if not pid:
            load_and_die(source, url, place if place <= total else None, broken=broken)
        if place > total:
            time.sleep(chosen.random() * seconds)
            os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        before, after = {old: ROWS[(kill + 1) % 2]}, {new: ROWS[kill % 2]}
        seen, left = in_a_process(lambda: seen_and_left(source, url))
        if seen not in [before, after]:
            yield f"kill {kill} at statement {place}: readers see {seen}, and neither {before} nor {after}"
        if left != after:
            yield f"kill {kill} at statement {place}: the next load leaves {left}, and not {after}"


def statements(source: Source, url: str) -> int:
    """How many statements a load has that replaces an update."""
    numbers: list[int] = []
    source.load(stop_at(open_warehouse(url), numbers.append))
    return len(numbers)


def seen_and_left(source: Source, url: str) -> list[Mapping[str, int]]:
    """What readers see, and what they see after the next load."""
    warehouse = open_warehouse(url)
    seen = counts(warehouse, [DAY])
    source.load(warehouse)
    return [seen, counts(warehouse, [DAY])]


def load_and_die(source: Source, url: str, place: int | None, *, broken: bool) -> None:
    """Load, and be killed at this statement, or at the end."""
    warehouse = open_warehouse(url)
    if broken:
        without_a_transaction(warehouse)
    if place is not None:
        stop_at(warehouse, lambda number: os.kill(os.getpid(), signal.SIGKILL) if number == place else None)
    with suppress(BaseException):
        source.load(warehouse)
    os.kill(os.getpid(), signal.SIGKILL)


def in_a_process(act: Callable[[], Any]) -> Any:
    """The result of a call in a process of its own: DuckDB keeps threads, and a process with threads must not fork."""
    receiving, sending = os.pipe()
    pid = os.fork()
    if not pid:
        gc.freeze()  # else a collection touches, and so copies, all memory of this process
        try:
            os.write(sending, json.dumps(act()).encode())
        finally:
            os._exit(0)
    os.close(sending)
    with os.fdopen(receiving) as answer:
        result = json.loads(answer.read())
    os.waitpid(pid, 0)
    return result


if __name__ == "__main__":
    folder, address, number = sys.argv[1:4]
    board = open_blackboard(str(Path(folder)))
    found = list(kills(Source(board=board), address, int(number), 7, broken="--broken" in sys.argv))
    sys.stdout.write(json.dumps({"kills": int(number), "faults": found}) + "\n")
    if found and "--broken" not in sys.argv:
        sys.exit(1)
