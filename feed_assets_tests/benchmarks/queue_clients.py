"""Clients of a queue of tasks, in a process of their own: each leases tasks, commits them, and begins again.

    python -m feed_assets_tests.benchmarks.queue_clients workflow|postgresql ADDRESS THREADS MOST SECONDS

ADDRESS is the base of the workflow NAME, or the URL of a database. The process says when its clients are connected,
begins with the first line that it reads, and says how many tasks it has leased and committed.

Here: the clients of a workflow, and of the usual queue in a table of PostgreSQL. Not here: what is measured
(`task_queues`).
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final

import psycopg

from feed_assets.workflow.calls import Commit, Lease
from feed_assets.workflow.places import open_board, open_workflow
from feed_assets_tests.workflow.processes import client_of

NAME: Final = "orders"
STAGE: Final = "split"

TABLE: Final = """
CREATE TABLE tasks (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    payload jsonb NOT NULL,
    deadline timestamptz NOT NULL DEFAULT '-infinity',
    lease bigint NOT NULL DEFAULT 0
)
"""
LEASE: Final = """
UPDATE tasks SET deadline = now() + interval '60 seconds', lease = lease + 1
WHERE id IN (SELECT id FROM tasks WHERE deadline < now() ORDER BY id LIMIT %s FOR UPDATE SKIP LOCKED)
RETURNING id, lease, payload
"""
COMMIT: Final = """
DELETE FROM tasks USING unnest(%s::bigint[], %s::bigint[]) AS leased (id, lease)
WHERE tasks.id = leased.id AND tasks.lease = leased.lease
"""
"""A lease that is over may belong to somebody else: then `lease` has grown."""

Turn = Callable[[int], int]
"""Leases at most so many tasks, commits them, and returns their number."""


def workflow(base: str) -> Turn:
    """A client of the workflow: its own session and its own connection."""
    client = client_of(open_workflow(open_board(base), NAME))

    def turn(most: int) -> int:
        leased = client.call(Lease, types=(STAGE,), most=most)
        configurations = {each.key: each.id for each in leased.configurations}
        client.call(Commit, consume=tuple(each.id for each in leased.tasks), configurations=configurations)
        return len(leased.tasks)

    return turn


def postgresql(url: str) -> Turn:
    """A client of the table: its own connection; a lease and a commit are a transaction each."""
    connection = psycopg.connect(url, autocommit=True)

    def turn(most: int) -> int:
        leased: list[Any] = connection.execute(LEASE, (most,)).fetchall()
        with connection.transaction():
            deleted = connection.execute(COMMIT, ([each[0] for each in leased], [each[1] for each in leased])).rowcount
            if deleted != len(leased):
                raise AssertionError(f"{len(leased) - deleted} leases were lost.")
        return deleted

    return turn


CLIENTS: Final[dict[str, Callable[[str], Turn]]] = {"workflow": workflow, "postgresql": postgresql}


def main(kind: str, address: str, threads: int, most: int, seconds: float) -> None:
    """The command."""
    turns = [CLIENTS[kind](address) for _ in range(threads)]

    def run(turn: Turn) -> int:
        end = time.monotonic() + seconds
        total = 0
        while time.monotonic() < end:
            done = turn(most)
            if not done:
                raise AssertionError("The queue is empty: insert more tasks.")
            total += done
        return total

    with ThreadPoolExecutor(threads) as pool:
        list(pool.map(lambda turn: turn(1), turns))  # all are connected
        print("ready", flush=True)
        sys.stdin.readline()
        print(sum(pool.map(run, turns)), flush=True)
    sys.stdin.readline()  # its connections stay, so that whoever looks at the server sees what they have cost


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4]), float(sys.argv[5]))
