"""Processes that write to a store:

    python -m feed_assets_tests.delivery.stores.writing FOLDER URL SPACE shuffled|growing NUMBER

Here: what they write. Not here: who starts them.
"""

from __future__ import annotations

import random
import subprocess
import sys
from itertools import count
from pathlib import Path

from feed_assets.delivery.stores.address import open_store, options_of
from feed_assets.delivery.stores.port import Change, Store
from feed_assets.delivery.versions import Version
from feed_assets_tests import ROOT

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


def opened(url: str, folder: Path) -> Store:
    """The store at a URL, with the credentials of the environment."""
    return open_store(url, folder, options=options_of("prices"))


def started(url: str, folder: Path, space: str, what: str, number: int) -> subprocess.Popen[str]:
    """A process that writes."""
    command = [sys.executable, "-m", __spec__.name, str(folder), url, space, what, str(number)]
    return subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)


if __name__ == "__main__":
    folder, url, space, what, number = sys.argv[1:]
    with opened(url, Path(folder)) as store:
        {"shuffled": write_shuffled, "growing": write_growing}[what](store, space, int(number))
