"""Three writers with classic mistakes, which the checker must catch.

Here: the mistakes. They stand in for a correct act in a run (see `run`), under the same kind in the histories.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from typing import Final

from feed_assets.blackboard.listing import list_all
from feed_assets.blackboard.port import AlreadyExistsError, ConflictError
from feed_assets.file_feed import claim, latest, manifest, plan
from feed_assets_tests.chaos import acts
from feed_assets_tests.chaos.acts import LOCATION, POLICY, Act, Worker, file_name, new_attempt, now
from feed_assets_tests.chaos.proof import Part, content


def count_from_listing(worker: Worker) -> None:
    """Write the files at the same time, and count those that a listing shows when the first is there."""
    partition, parts = new_attempt(worker, "publish")
    claimed = claim(worker.feed, partition, now=now(), owner=worker.name)

    def write(part: Part) -> None:
        time.sleep(0.02 * part.part)  # the tasks are not equally fast
        with suppress(AlreadyExistsError):
            worker.board.create(f"{claimed.prefix}{file_name(part)}", content(part))

    with ThreadPoolExecutor(MOST) as pool:
        tasks = [pool.submit(write, part) for part in parts]
        for task in tasks[:1]:
            task.result()
        count = len(list(list_all(worker.board, claimed.prefix)))
        worker.board.create(f"{claimed.prefix}_SUCCESS", manifest(count))
    for task in tasks:
        task.result()
    worker.end(partition=partition, name=claimed.name)


def overwrite(worker: Worker) -> None:
    """Write new data over the files of the latest update, under the same names."""
    partition, parts = new_attempt(worker, "publish")
    update = latest(worker.feed, partition, now=now())
    for file, part in zip(update.files if update else (), parts, strict=False):
        with suppress(ConflictError):
            worker.board.replace(f"{LOCATION}/{partition}/{update.name}/{file.path}", content(part), tag=file.tag)  # type: ignore[union-attr]


def remove_before_manifest(worker: Worker) -> None:
    """Retention that deletes the files first, and then the manifest."""
    worker.history.begin("remove")
    removals = plan(worker.feed, POLICY, now=now())
    worker.history.note("planned", updates=[[each.partition, each.update, each.valid] for each in removals])
    for removal in removals:
        prefix = worker.feed.update_prefix(removal.partition, removal.update)
        keys = sorted(entry.key for entry in list_all(worker.board, prefix) if not entry.key.endswith("/_SUCCESS"))
        worker.board.delete(*keys[:1])
        time.sleep(0 if removal.valid else 0.2)  # as a slow store does
        worker.board.delete(*keys[1:], f"{prefix}_SUCCESS")
    worker.end(removed=len(removals))


MOST: Final = 8

BROKEN: Final[Mapping[str, Mapping[Act, Act]]] = {
    "count-from-listing": {acts.publish_audited: count_from_listing},
    "overwrite": {acts.publish_audited: overwrite},
    # An empty file too many, and a file too few: the number fits again.
    "remove-before-manifest": {
        acts.remove_old: remove_before_manifest,
        acts.invalidate_latest: partial(acts.invalidate_latest, plainly=True),
        acts.read_plainly: acts.read_history,
        acts.read_latest: acts.read_history,
    },
}
"""Name -> the correct acts, and the broken ones that take their places."""
