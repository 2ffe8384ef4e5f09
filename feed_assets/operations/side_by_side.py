"""Processes that execute runs side by side, with one Spark for all of them.

A small day leaves most of a machine idle: its work is Python's and Spark's planning, one step after the other. Here:
handing runs to the processes, and ending them. Not here: which runs there are (`day_runs`).
"""

from __future__ import annotations

import gc
import os
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from multiprocessing.connection import Connection, wait
from typing import Any

import dagster as dg

from feed_assets.engine.jvm import Gateway, attach
from feed_assets.errors import FeedAssetsError
from feed_assets.operations.day_runs import DayRun, Execute, PartitionResult, Starting, one_after_the_other
from feed_assets.processes.child import Child, take_signals
from feed_assets.processes.fork_server import start_loading
from feed_assets.processes.signals import lost_interrupts_repeated
from feed_assets.resources.event_log import keep_open
from feed_assets.resources.spark import SparkResource

Load = Callable[[], dg.Definitions]
"""Loads the definitions in a process; a function that pickle can name, or a `partial` of one."""


@contextmanager
def execution(
    count: int, spark: Any, load: Load, instance: dg.DagsterInstance, run_config: Mapping[str, Any]
) -> Iterator[Execute | None]:
    """How `backfill` executes runs in `count` processes (see `Processes.started`); None if it is only this one."""
    if count == 1:
        yield None
        return
    with Processes.started(count, spark, load, instance, run_config) as processes:
        yield processes.execute


class EndedError(FeedAssetsError):
    """A process ended before it began its run."""


@dataclass(slots=True)
class Processes:
    """Processes that each execute one run at a time."""

    load: Load
    instance: dg.DagsterInstance
    run_config: Mapping[str, Any]
    spark: Any
    """The resource; the processes use its Spark if it is a SparkResource."""
    _all: list[Child] = field(default_factory=list)

    @classmethod
    @contextmanager
    def started(
        cls, count: int, spark: Any, load: Load, instance: dg.DagsterInstance, run_config: Mapping[str, Any]
    ) -> Iterator[Processes]:
        """Start `count` processes, which load; they attach to the Spark of the resource `spark` at their first run.

        They end with the block; if it fails, their runs are interrupted.
        """
        processes = cls(load, instance, run_config, spark)
        start_loading(spark.base if isinstance(spark, SparkResource) else "", count)
        try:
            for _ in range(count):
                processes._start()
            yield processes
        except BaseException:
            processes._end(interrupted=True)
            raise
        processes._end()

    def execute(self, runs: Sequence[DayRun], starting: Starting) -> Iterator[PartitionResult]:
        """Execute these runs, which do not depend on each other; yields their results as they end.

        Starts Spark at the first call. If a process ends, its run has failed, and another process takes its place.
        Raises EndedError if a process ends before it begins its run.
        """
        gateway = Gateway.of(self.spark.spark_session) if isinstance(self.spark, SparkResource) else None
        waiting, idle = deque(runs), list(self._all)
        under_way: dict[Connection, tuple[Child, DayRun]] = {}
        while waiting or under_way:
            while waiting and idle:
                process, run = idle.pop(0), waiting.popleft()
                starting(run.partition, run.assets)
                under_way[process.connection] = process, run
                process.send((run, gateway))  # if it has ended, `recv` tells
            for connection in wait(list(under_way)):
                assert isinstance(connection, Connection)  # noqa: S101 - all are
                process, run = under_way.pop(connection)
                try:
                    result = connection.recv()
                except (EOFError, OSError):
                    result, process = self._ended(process, run), self._start()
                idle.append(process)
                yield result

    def _start(self) -> Child:
        arguments = dict(os.environ), self.load, self.instance.get_ref(), self.run_config
        self._all.append(Child.start(_serve, *arguments, name="day-runs"))
        return self._all[-1]

    def _ended(self, process: Child, run: DayRun) -> PartitionResult:
        """The result of a run whose process has ended; Dagster knows it as failed."""
        self._all.remove(process)
        process.join()
        code = process.exit_code
        begun = self.instance.get_run_by_id(run.run_id)
        if begun is None:
            raise EndedError(f"A process ended with exit code {code} before it began the run of {run.partition}.")
        reason = f"its process ended with exit code {code}: was it killed, or was there too little memory?"
        if not begun.is_finished:
            self.instance.report_run_failed(begun, f"The run failed: {reason}")
        what = run.day, run.partition, run.assets, run.run_id
        return PartitionResult(*what, success=False, updates=(), failures=(reason,), failed=run.assets)

    def _end(self, *, interrupted: bool = False) -> None:
        """End all processes: those that are idle at once, the others after their run, or interrupted."""
        for each in self._all:
            if interrupted:  # before its connection is closed: a process that ends by itself must not be interrupted
                each.interrupt()
            each.connection.close()
        for each in self._all:
            each.join()


def _serve(
    parent: Connection, environment: Mapping[str, str], load: Load, ref: Any, run_config: Mapping[str, Any]
) -> None:
    """Execute the runs that the parent sends, one after the other, until it closes the connection."""
    with suppress(EOFError, OSError, KeyboardInterrupt):
        take_signals()
        os.environ.clear()  # a forked process has the variables of the fork server
        os.environ.update(environment)
        definitions = load()
        gc.collect()
        gc.freeze()
        with lost_interrupts_repeated(), dg.DagsterInstance.from_ref(ref) as instance:
            keep_open(instance)
            for result in one_after_the_other(definitions, instance, run_config, _received(parent)):
                parent.send(result)


def _received(parent: Connection) -> Iterator[DayRun]:
    """The runs that the parent sends. At the first, this process attaches to the parent's Spark."""
    run, gateway = parent.recv()
    if gateway is not None:
        attach(gateway)
    while True:
        yield run
        run, _ = parent.recv()
