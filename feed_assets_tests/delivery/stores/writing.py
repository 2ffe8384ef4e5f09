"""Processes that write to a store: python -m feed_assets_tests.delivery.stores.writing FOLDER SPACE shuffled|growing

Here: what they write. The environment has the URL of the store, as it may have a password. Not here: who starts them.
"""

from __future__ import annotations

import os
import random
import subprocess
import sys
from itertools import count
from pathlib import Path

from feed_assets.delivery.stores.address import open_store
from feed_assets.delivery.stores.port import Change, Store
from feed_assets.delivery.versions import Version
from feed_assets_tests import ROOT

VARIABLE = "STORE_OF_TESTS"
KEYS = [f"k{number}" for number in range(60)]
EDITIONS = 40
AT_ONCE = 250
"""The keys of one call of `growing`: more than one call of Redis."""


def edition_of(version: bytes) -> int:
    return Version.unpacked(version).edition


def change(key: str, edition: int) -> Change:
    """The change of a key in an edition; every third edition of every fifth key deletes it."""
    deletes = edition % 3 == 0 and KEYS.index(key) % 5 == 0 if key in KEYS else False
    value = None if deletes else b"%d" % edition
    return Change(key, Version("2024-01-01", edition, 0).packed(), value)


def write_shuffled(store: Store, space: str, seed: int) -> None:
    """Apply all editions of all keys twice, in an order of its own, in calls of any size."""
    changes = [change(key, edition) for key in KEYS for edition in range(1, EDITIONS + 1)] * 2
    order = random.Random(seed)
    order.shuffle(changes)
    while changes:
        size = order.randint(1, 120)
        store.apply(space, changes[:size])
        del changes[:size]


def write_growing(store: Store, space: str, first: int) -> None:
    """Apply one edition after the other, for ever, and print each that is applied."""
    for edition in count(first):
        outcomes = store.apply(space, [change(f"g{number}", edition) for number in range(AT_ONCE)])
        assert set(outcomes) == {"applied"}
        print(edition, flush=True)


def started(url: str, folder: Path, space: str, what: str, number: int) -> subprocess.Popen[str]:
    """A process that writes."""
    command = [sys.executable, "-m", __spec__.name, str(folder), space, what, str(number)]
    environment = {**os.environ, VARIABLE: url}
    return subprocess.Popen(command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, text=True)


if __name__ == "__main__":
    folder, space, what, number = sys.argv[1:]
    with open_store(os.environ[VARIABLE], Path(folder)) as opened:
        {"shuffled": write_shuffled, "growing": write_growing}[what](opened, space, int(number))
