"""Signs of life of runs that Dagster did not launch: `feed-assets backfill` renews a tag of the run.

Every machine with access to the instance sees the tag. Dagster's run monitoring watches the runs that it launched.
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
"""`<run id> <seconds since 1970>`. It has the id because Dagster copies the tags of a run to its retries."""

MAX_RUNTIME_TAG = "dagster/max_runtime"
MAX_RUNTIME_SECONDS = 7 * 24 * 60 * 60
"""Replaces the instance's limit, which is for runs without signs of life and would end healthy backfills."""

BEAT_SECONDS = 20.0
DEAD_AFTER_SECONDS = 180.0


def first_tags(run_id: str) -> dict[str, str]:
    """The tags to create a run with, so that it counts as alive from the start."""
    return {**_beat(run_id), MAX_RUNTIME_TAG: str(MAX_RUNTIME_SECONDS)}


@contextmanager
def alive(instance: dg.DagsterInstance, run_id: str) -> Iterator[None]:
    """Renew the sign of life of this run until the block ends."""
    ended = threading.Event()

    def beat() -> None:
        while not ended.wait(BEAT_SECONDS):
            try:
                instance.add_run_tags(run_id, _beat(run_id))
            except Exception as error:  # noqa: BLE001 - the run goes on, and the next sign may succeed
                _log.warning("Run %s could not give a sign of life: %s", run_id, error)

    thread = threading.Thread(target=beat, name=f"alive-{run_id}", daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def gives_signs(run_id: str, tags: Mapping[str, str]) -> bool:
    """Whether this run gives signs of life; the tags of its retries have another run id."""
    return tags.get(ALIVE_TAG, "").partition(" ")[0] == run_id


def is_dead(run_id: str, tags: Mapping[str, str]) -> bool:
    """Whether this run gave signs of life and has stopped."""
    if not gives_signs(run_id, tags):
        return False
    last = tags[ALIVE_TAG].partition(" ")[2]
    return not last.isdigit() or time.time() - int(last) > DEAD_AFTER_SECONDS


def fail_dead_runs(instance: dg.DagsterInstance) -> list[str]:
    """Report the runs whose process is gone as failed, so that nothing waits for them; returns their ids."""
    started = instance.get_runs(dg.RunsFilter(statuses=[dg.DagsterRunStatus.STARTED]))
    dead = [run for run in started if is_dead(run.run_id, run.tags)]
    for run in dead:
        instance.report_run_failed(run, f"Its process gave no sign of life for {DEAD_AFTER_SECONDS:.0f} s.")
    return [run.run_id for run in dead]


def _beat(run_id: str) -> dict[str, str]:
    return {ALIVE_TAG: f"{run_id} {int(time.time())}"}
