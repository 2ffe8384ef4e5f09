"""Threads and processes that use one store at once, and processes that are killed while they write."""

from __future__ import annotations

import random
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier

import pytest

from feed_assets.delivery.errors import SpaceTakenError
from feed_assets.delivery.stores.port import Store
from feed_assets_tests.delivery.stores import writing
from feed_assets_tests.delivery.stores.writing import EDITIONS, KEYS

pytestmark = pytest.mark.slow


def test_threads_and_processes_that_write_the_same_keys_leave_the_newest_and_readers_see_none_go_back(
    url: str, store: Store, space: str, tmp_path: Path
):
    processes = [writing.started(url, tmp_path, space, "shuffled", seed) for seed in (1, 2)]
    seen = dict.fromkeys(KEYS, 0)
    with ThreadPoolExecutor(2) as threads:
        written = [threads.submit(writing.write_shuffled, store, space, seed) for seed in (3, 4)]
        looks = 0
        while not all(future.done() for future in written) or any(process.poll() is None for process in processes):
            for key, value in store.get_many(space, KEYS, now=time.time()).items():
                edition = writing.edition_of(value.version)
                assert value.data == b"%d" % edition
                assert edition >= seen[key]
                seen[key] = edition
            looks += 1
        for future in written:
            future.result()
    assert [process.wait() for process in processes] == [0, 0]
    assert looks > 0
    found = store.get_many(space, KEYS, now=time.time())
    expected = {key: writing.change(key, EDITIONS) for key in KEYS}
    assert {key: (value.data, value.version) for key, value in found.items()} == {
        key: (last.value, last.version) for key, last in expected.items() if last.value is not None
    }


def test_of_owners_that_claim_a_space_at_once_one_gets_it(url: str, space: str, tmp_path: Path):
    owners = ["prices", "stock", "ratings", "offers"]

    def claim(owner: str, barrier: Barrier) -> list[str]:
        with writing.opened(url, tmp_path) as store:
            barrier.wait()
            taken = []
            for number in range(25):
                try:
                    store.claim(f"{space}.{number}", owner)
                except SpaceTakenError:
                    continue
                store.claim(f"{space}.{number}", owner)  # again, as after a restart
                taken.append(f"{space}.{number}")
            return taken

    barrier = Barrier(len(owners))
    with ThreadPoolExecutor(len(owners)) as threads:
        taken = [space for spaces in threads.map(lambda owner: claim(owner, barrier), owners) for space in spaces]
    assert sorted(taken) == sorted(f"{space}.{number}" for number in range(25))


def test_a_writer_that_is_killed_leaves_what_it_acknowledged_and_no_part_of_a_transaction(
    url: str, store: Store, space: str, tmp_path: Path
):
    keys = [f"g{number}" for number in range(writing.AT_ONCE)]
    wait, last = random.Random(7), 0
    for _ in range(6):
        with writing.started(url, tmp_path, space, "growing", last + 1) as writer:
            assert writer.stdout is not None
            acknowledged = int(writer.stdout.readline())
            time.sleep(wait.uniform(0, 0.15))
            writer.kill()
            acknowledged = max([acknowledged, *map(int, writer.stdout.read().split())])
        found = store.get_many(space, keys, now=time.time())
        editions = [writing.edition_of(found[key].version) for key in keys]
        assert [found[key].data for key in keys] == [b"%d" % edition for edition in editions]
        # One call of Redis is 100 keys; one of SQLite takes all.
        at_once = 100 if "redis" in url else len(keys)
        for start in range(0, len(keys), at_once):
            assert len(set(editions[start : start + at_once])) == 1
        assert set(editions) <= {acknowledged, acknowledged + 1}
        last = max(editions)
