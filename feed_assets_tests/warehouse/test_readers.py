"""Readers who query all the while see a day as one update or the next: never none, never both, never a part."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

from feed_assets.warehouse.address import open_warehouse
from feed_assets.warehouse.port import Warehouse
from feed_assets_tests.state.server import new_database
from feed_assets_tests.warehouse.feeds import Source
from feed_assets_tests.warehouse.killing import without_a_transaction
from feed_assets_tests.warehouse.reading import read_until

READERS, LOADS = 3, 12


def expected(updates: dict[str, int]) -> list[list[list[object]]]:
    return [[[update, rows, rows * (rows - 1) // 2]] for update, rows in updates.items()]


def load_again_and_again(warehouse: Warehouse, source: Source, updates: dict[str, int]) -> None:
    for number in range(LOADS):
        updates[source.publish(2_000 + number)] = 2_000 + number
        source.load(warehouse)


def in_threads(warehouse: Warehouse, loader: Warehouse) -> tuple[list[list[list[object]]], dict[str, int]]:
    """All answers that threads of this process got during the loads, and the updates that were loaded."""
    source, over = Source(), threading.Event()
    updates = {source.publish(1_000): 1_000}
    source.load(warehouse)
    with ThreadPoolExecutor(READERS) as threads:
        readers = [threads.submit(read_until, over.is_set, warehouse) for _ in range(READERS)]
        try:
            load_again_and_again(loader, source, updates)
        finally:
            over.set()
    assert all(reader.result()[0] > 1 for reader in readers)
    return [answer for reader in readers for answer in reader.result()[1]], updates


def test_in_one_process_with_duckdb(duckdb: Warehouse) -> None:
    answers, updates = in_threads(duckdb, duckdb)

    assert all(answer in expected(updates) for answer in answers)
    assert len({str(answer) for answer in answers}) > 2


def test_a_loader_without_a_transaction_is_seen_by_them(server: str) -> None:
    url = new_database(server)
    answers, updates = in_threads(open_warehouse(url), without_a_transaction(open_warehouse(url)))

    assert not all(answer in expected(updates) for answer in answers)


def test_in_several_processes_with_postgresql(server: str) -> None:
    url = new_database(server)
    warehouse, source = open_warehouse(url), Source()
    updates = {source.publish(1_000): 1_000}
    source.load(warehouse)
    command = [sys.executable, "-m", "feed_assets_tests.warehouse.reading", url]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    readers = [subprocess.Popen(command, **pipes) for _ in range(READERS)]
    assert [reader.stdout.readline() for reader in readers] == ["reading\n"] * READERS

    load_again_and_again(warehouse, source, updates)
    seen = [json.loads(reader.communicate("")[0]) for reader in readers]

    assert all(queries > 1 for queries, _ in seen)
    assert all(answer in expected(updates) for _, answers in seen for answer in answers)
    assert len({str(answer) for _, answers in seen for answer in answers}) > 2
