"""Signs of life of runs that Dagster did not launch: `feed-assets backfill` renews a tag of the run.

Every machine with access to the instance sees the tag. Dagster's run monitoring watches the runs that it launched.
Clocks of two machines are never compared. On the machine of a run, the age of its sign counts. On another machine, the
time counts for which a process has seen the same sign; a process that was started again looks for as long again.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import dagster as dg

from feed_assets.file_feed.bounded_cache import BoundedCache
from feed_assets.processes.identity import this_boot

_log = logging.getLogger("feed_assets.sensors")

ALIVE_TAG = "feed_assets/alive"
"""`<run id> <boot of its machine> <seconds since that>`. It has the id as Dagster copies tags to a run's retries."""

MAX_RUNTIME_TAG = "dagster/max_runtime"
MAX_RUNTIME_SECONDS = 7 * 24 * 60 * 60
"""Replaces the instance's limit, which is for runs without signs of life and would end healthy backfills."""

BEAT_SECONDS = 20.0
DEAD_AFTER_SECONDS = 180.0

REMEMBERED = 10_000
_SEEN: BoundedCache[tuple[str, str], float] = BoundedCache(REMEMBERED)
"""When this process first saw a sign, by run and sign."""


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
    _, _, sign = tags[ALIVE_TAG].partition(" ")
    boot, _, seconds = sign.partition(" ")
    if boot == this_boot() and seconds.isdigit():
        return time.monotonic() - int(seconds) > DEAD_AFTER_SECONDS
    return seconds_seen(run_id, sign) > DEAD_AFTER_SECONDS


def seconds_seen(run_id: str, sign: str) -> float:
    """The time for which this process has seen a run with this sign."""
    now, key = time.monotonic(), (run_id, sign)
    first = _SEEN.get(key)
    if first is None:
        _SEEN[key] = first = now
    return now - first


def fail_dead_runs(instance: dg.DagsterInstance) -> list[str]:
    """Report the runs whose process is gone as failed, so that nothing waits for them; returns their ids."""
    started = instance.get_runs(dg.RunsFilter(statuses=[dg.DagsterRunStatus.STARTED]))
    dead = [run for run in started if is_dead(run.run_id, run.tags)]
    for run in dead:
        instance.report_run_failed(run, f"Its process gave no sign of life for {DEAD_AFTER_SECONDS:.0f} s.")
    return [run.run_id for run in dead]


def _beat(run_id: str) -> dict[str, str]:
    return {ALIVE_TAG: f"{run_id} {this_boot()} {int(time.monotonic())}"}
