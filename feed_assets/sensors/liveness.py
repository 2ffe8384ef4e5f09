"""Whether the process of a run is still there, for runs that Dagster did not launch itself.

Here: the sign of life that `backfill` gives, and what follows when it stops. Not here: runs that Dagster launched; its
run monitoring watches those. The sign is a tag of the run, so every machine that sees the instance sees it.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import dagster as dg

_log = logging.getLogger("feed_assets.sensors")

ALIVE_TAG = "feed_assets/alive"
"""`<run id> <seconds since 1970>`. The id is in it because Dagster copies the tags of a run to its retries."""

MAX_RUNTIME_TAG = "dagster/max_runtime"
MAX_RUNTIME_SECONDS = 7 * 24 * 60 * 60
"""Dagster's limit on a run's time replaces the sign of life where there is none; here it would end healthy runs."""

BEAT_SECONDS = 20.0
DEAD_AFTER_SECONDS = 180.0


def first_tags(run_id: str) -> dict[str, str]:
    """The tags that a run is created with, so that it counts as alive from its first moment."""
    return {**_beat(run_id), MAX_RUNTIME_TAG: str(MAX_RUNTIME_SECONDS)}


@contextmanager
def alive(instance: dg.DagsterInstance, run_id: str) -> Iterator[None]:
    """Renew the sign of life of this run until the block ends."""
    ended = threading.Event()

    def beat() -> None:
        while not ended.wait(BEAT_SECONDS):
            try:
                instance.add_run_tags(run_id, _beat(run_id))
            except Exception as error:  # noqa: BLE001 - whatever it is, the next sign may succeed, and the run goes on
                _log.warning("Run %s could not give a sign of life: %s", run_id, error)

    thread = threading.Thread(target=beat, name=f"alive-{run_id}", daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def gives_signs(run_id: str, tags: Mapping[str, str]) -> bool:
    """Whether this very run gives signs of life."""
    return tags.get(ALIVE_TAG, "").partition(" ")[0] == run_id


def is_dead(run_id: str, tags: Mapping[str, str]) -> bool:
    """Whether this run gave signs of life and has stopped to."""
    if not gives_signs(run_id, tags):
        return False
    last = tags[ALIVE_TAG].partition(" ")[2]
    return not last.isdigit() or time.time() - int(last) > DEAD_AFTER_SECONDS


def fail_dead_runs(instance: dg.DagsterInstance) -> list[str]:
    """Report the runs whose process is gone as failed, so that nothing waits for them; their ids."""
    dead = [
        run
        for run in instance.get_runs(dg.RunsFilter(statuses=[dg.DagsterRunStatus.STARTED]))
        if is_dead(run.run_id, run.tags)
    ]
    for run in dead:
        instance.report_run_failed(run, f"Its process gave no sign of life for {DEAD_AFTER_SECONDS:.0f} s.")
    return [run.run_id for run in dead]


def _beat(run_id: str) -> dict[str, str]:
    return {ALIVE_TAG: f"{run_id} {int(time.time())}"}
