"""A reader of a warehouse, as a process of its own: it queries until its input ends, and prints what it saw as JSON."""

from __future__ import annotations

import json
import select
import sys
from collections.abc import Callable

from feed_assets.warehouse.address import open_warehouse
from feed_assets.warehouse.port import Warehouse

QUERY = "SELECT _update, count(*), sum(shown) FROM effect WHERE _partition = '2019-11-24' GROUP BY _update"


def read_until(over: Callable[[], bool], warehouse: Warehouse) -> tuple[int, list[list[list[object]]]]:
    """The number of queries, and the different answers."""
    answers: dict[str, list[list[object]]] = {}
    queries = 0
    with warehouse.open(writes=False) as connection:
        while not over():
            answer = [[update, rows, int(total)] for update, rows, total in warehouse.execute(connection, QUERY)]
            answers[json.dumps(answer)] = answer
            queries += 1
            if queries == 1:
                sys.stdout.write("reading\n")
                sys.stdout.flush()
    return queries, list(answers.values())


if __name__ == "__main__":
    seen = read_until(lambda: bool(select.select([sys.stdin], [], [], 0)[0]), open_warehouse(sys.argv[1]))
    sys.stdout.write(json.dumps(seen))
