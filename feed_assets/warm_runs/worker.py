"""A worker: a process that loads the definitions, starts Spark, and then executes runs one after the other.

Here: what stays between two runs, and what does not. Not here: which worker takes which run (`pool`).
"""

from __future__ import annotations

import logging
import os
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from multiprocessing.connection import Connection
from pathlib import Path
from typing import TYPE_CHECKING

import dagster as dg
from dagster._grpc.impl import core_execute_run
from dagster._utils.hosted_user_process import recon_job_from_origin
from dagster._utils.interrupts import capture_interrupts

from feed_assets.processes.child import leave_signals
from feed_assets.processes.signals import lost_interrupts_repeated
from feed_assets.resources.event_log import keep_open
from feed_assets.warm_runs.pool import BEGUN, DONE, MAKE_WAY, READY

if TYPE_CHECKING:
    from feed_assets.warm_runs.warm import Warm

MOST_RUNS = 200
"""Runs after which a worker ends, so that what they leave behind does not add up."""
LOOK_EVERY = 1.0
"""Seconds between two looks at the files of the code, while no run is under way."""

_log = logging.getLogger("feed_assets.warm_runs")

SET_BY_DAGSTER = "SF_PARTNER"
"""The variable that each run sets for Snowflake's connector."""

UNBEGUN = {dg.DagsterRunStatus.NOT_STARTED, dg.DagsterRunStatus.STARTING, dg.DagsterRunStatus.CANCELING}
"""A run of another status has another process, or needs none."""
FIT = {None, dg.DagsterRunStatus.SUCCESS, dg.DagsterRunStatus.FAILURE}
"""A run that was interrupted may leave jobs, and a call to Java whose answer nobody has read. If its end could not be
stored, the pool reports it."""


def work(pool: Connection, module: str, idle: float, started: int, *, as_it_is: bool) -> None:
    """Execute the runs whose ids come from the pool. Ends with the pool, with Spark, and when the code has changed.

    It also ends after a run that was interrupted, or that changed its surroundings: the next run finds a new process.
    If the code changes after `started` (in ns), while it is loaded, it ends at once, unless it takes the code
    `as_it_is`: then it executes one run. After `idle` seconds without a run, it ends its application on a cluster.
    """
    sys.path.insert(0, str(Path.cwd()))
    leave_signals(signal.SIGINT)
    from feed_assets.warm_runs.warm import Warm  # noqa: PLC0415 - the forkserver must not load the project's code

    with suppress(EOFError, BrokenPipeError):
        warm = Warm.of(module, started, awaited=pool.poll)
        if not (warm.settled or as_it_is):
            return
        pool.send(READY)
        surroundings = _surroundings()
        for _ in range(MOST_RUNS):
            # Dagster leaves SIGTERM with what it finds for SIGINT.
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
            if (run_id := _next_run(pool, warm, idle)) is None:
                return
            # From BEGUN to DONE the pool may send SIGINT; Dagster raises it where a step can be interrupted.
            with capture_interrupts(), lost_interrupts_repeated(), _restored():
                pool.send(BEGUN)
                status = _execute(run_id)
            if status not in FIT or not warm.renew():
                return
            if changed := {name for name, _ in surroundings.items() ^ _surroundings().items()}:
                names = ", ".join(sorted(changed))
                _log.warning("Run %s changed %s. So its worker ends: the next run starts another Spark.", run_id, names)
                return
            pool.send(DONE)


def _next_run(pool: Connection, warm: Warm, idle: float) -> str | None:
    """Wait for the next run. None if the code has changed, or Spark has lost its master."""
    run_id, since = MAKE_WAY, time.monotonic()
    while run_id == MAKE_WAY:
        if pool.poll(LOOK_EVERY):
            run_id = pool.recv()
            if run_id == MAKE_WAY:
                warm.make_way()
        elif time.monotonic() - since > idle:
            warm.give_back()
        if warm.outdated():
            return None
    return run_id


@contextmanager
def _restored() -> Iterator[None]:
    """Restore at the end what a run may change: the mask of new files, and the level and handlers of all logging."""
    root, mask = logging.getLogger(), os.umask(0o077)
    os.umask(mask)
    level, handlers = root.level, list(root.handlers)
    try:
        yield
    finally:
        os.umask(mask)
        root.setLevel(level)
        root.handlers[:] = handlers


def _surroundings() -> dict[str, object]:
    """The surroundings that a run can change for later runs: the environment and the working directory."""
    directory = Path().stat()
    variables = {name: value for name, value in os.environ.items() if name != SET_BY_DAGSTER}
    return {**variables, "the working directory": (directory.st_dev, directory.st_ino)}


def _execute(run_id: str) -> dg.DagsterRunStatus | None:
    """Execute a run as Dagster's own processes for runs do. Returns its status at the end."""
    with dg.DagsterInstance.get() as instance:
        keep_open(instance)
        run = instance.get_run_by_id(run_id)
        if run is None or run.job_code_origin is None or run.status not in UNBEGUN:
            return None
        instance.report_engine_event(f"A worker takes the run (pid: {os.getpid()}).", run)
        # Dagster logs an error and reports the run as failed before it raises the error.
        with suppress(Exception):
            for _ in core_execute_run(recon_job_from_origin(run.job_code_origin), run, instance, inject_env_vars=False):
                pass
        ended = instance.get_run_by_id(run_id)
        return ended.status if ended else None
