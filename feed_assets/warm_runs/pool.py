"""The pool of workers: starts them, hands runs to them, and replaces those that end.

Here: one loop without threads, so that nothing is decided twice. Not here: executing runs (`worker`).
"""

from __future__ import annotations

import gc
import logging
import signal
import socket
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from multiprocessing import forkserver
from multiprocessing.connection import Connection
from typing import Any

from feed_assets.processes.child import WARM_WORKER, Child, first_ready
from feed_assets.warm_runs.requests import answer

READY, BEGUN, DONE = "ready", "begun", "done"
"""The messages of a worker: it waits for a run; it may be interrupted; it has executed the run."""
MAKE_WAY = ""
"""The message to an idle worker that another has a run, which may wait for the cores of its Spark. Others are runs."""
PRELOADED = ["dagster", "dagster_pyspark", "pyspark.sql", "boto3", "duckdb", "dagster._grpc.impl"]
"""What every worker imports, loaded once; none of it is the user's code."""
GRACE = 15.0
"""Seconds that a worker has to end its run before SIGKILL."""
IDLE = 600.0
"""Seconds after which all idle workers but one end. A Spark application on a cluster ends as well."""
REPORT_AGAIN_AFTER = 5.0
"""Seconds until the end of a run is reported again, if the database did not take it."""
MOST_STARTS = 3
"""Workers that a run is given to, if they end before they begin it."""
MOST_RELOADS = 2
"""Workers in a row that load the code anew because it changed meanwhile."""

_log = logging.getLogger("feed_assets.warm_runs")


@dataclass(slots=True, eq=False)
class _Worker:
    child: Child
    run: str = ""
    """The id of the run that it holds; empty if it is idle."""
    begun: bool = False
    ready: bool = False
    in_the_way: bool = True
    """Whether its Spark may hold cores of a cluster: it was not told to make way since its last run."""
    kill_at: float | None = None
    """When it is killed: its run is to end. On the clock of `time.monotonic`, as `since`."""
    since: float = field(default_factory=time.monotonic)
    """When it started, or finished a run."""


@dataclass(slots=True)
class Pool:
    """Workers for the runs of one module, at least one of them idle."""

    module: str
    idle: float = IDLE
    _workers: list[_Worker] = field(default_factory=list)
    """The worker that was used last is the last."""
    _starts: dict[str, int] = field(default_factory=dict)
    _in_vain: int = 0
    """How many workers in a row have ended before they were ready."""
    _unreported: list[_Worker] = field(default_factory=list)
    """Workers that have ended with a run whose end is not stored yet."""
    _report_at: float = 0
    """When the database is asked again. On the clock of `time.monotonic`."""
    _stopping: bool = False

    def serve(self, server: socket.socket) -> None:
        """Listen and answer requests until SIGTERM or SIGINT; then end all workers, each after its run."""
        for each in (signal.SIGTERM, signal.SIGINT):
            signal.signal(each, self._stop)
        forkserver.set_forkserver_preload(PRELOADED)
        self._start()  # the first takes seconds, in which nothing could be answered
        server.listen()
        while not self._stopping:
            self._turn([server])
            self._make_way()
            self._end_surplus()
        server.close()  # from now on, runs go to processes of their own
        while self._workers:
            for worker in self._workers:
                if not worker.run:
                    worker.child.terminate()
            self._turn([])

    def _stop(self, *_: object) -> None:
        self._stopping = True

    def _turn(self, servers: list[socket.socket]) -> None:
        for server in first_ready([each.child for each in self._workers], beside=servers, seconds=1.0):
            answer(server.accept()[0], self._decide)
        for worker in list(self._workers):
            self._listen(worker)
            if not worker.child.is_alive:
                self._ended(worker)
            elif worker.kill_at is not None and time.monotonic() > worker.kill_at:
                worker.child.process.kill()
        self._report_ended()

    def _decide(self, request: Mapping[str, Any]) -> Mapping[str, Any]:
        if "launch" in request:
            if request.get("module") != self.module:
                return {"launched": False}
            self._hand_over(str(request["launch"]))
            return {"launched": True}
        run_id = request.get("holds") or request.get("terminate")
        worker = next((each for each in self._workers if run_id and each.run == run_id), None)
        if "terminate" in request and worker is not None:
            if worker.begun:
                worker.child.interrupt()
            worker.kill_at = time.monotonic() + (GRACE if worker.begun else 0)
            return {"terminated": True}
        return {"holds": worker is not None, "module": self.module, "workers": len(self._workers)}

    def _hand_over(self, run_id: str) -> None:
        idle = [each for each in self._workers if not each.run]
        worker = next((each for each in reversed(idle) if each.ready), None) or (idle[-1] if idle else self._start())
        self._workers.remove(worker)
        self._workers.append(worker)
        worker.run, worker.begun, worker.in_the_way = run_id, False, True
        worker.child.send(run_id)  # if it has ended, its run goes to the next

    def _start(self) -> _Worker:
        # A project that writes files of its own whenever it is loaded never settles.
        as_it_is = self._in_vain >= MOST_RELOADS
        worker = _Worker(Child.start(_work, self.module, self.idle, as_it_is, name=WARM_WORKER))
        self._workers.append(worker)
        return worker

    def _listen(self, worker: _Worker) -> None:
        for message in worker.child.received():
            if message == READY:
                worker.ready, self._in_vain = True, 0
            elif message == BEGUN:
                worker.begun = True
            elif message == DONE:
                self._starts.pop(worker.run, None)
                worker.run, worker.begun, worker.kill_at, worker.since = "", False, None, time.monotonic()

    def _make_way(self) -> None:
        """While a run is under way, let no idle worker hold the cores that the run may wait for."""
        if any(each.run for each in self._workers):
            for worker in self._workers:
                if worker.ready and worker.in_the_way and not worker.run:
                    worker.in_the_way = False
                    worker.child.send(MAKE_WAY)

    def _end_surplus(self) -> None:
        """End the workers that have been idle for long; one idle worker always stays."""
        idle = [each for each in self._workers if each.ready and not each.run]
        for worker in idle[:-1]:
            if time.monotonic() - worker.since > self.idle:
                worker.child.terminate()

    def _ended(self, worker: _Worker) -> None:
        """Look after the run of a worker that has ended, and start another."""
        self._workers.remove(worker)
        worker.child.join()
        self._in_vain += not worker.ready
        again = not worker.begun and worker.kill_at is None
        if worker.run and again and self._starts.setdefault(worker.run, 0) < MOST_STARTS:
            self._starts[worker.run] += 1
            self._hand_over(worker.run)
        elif worker.run:
            self._starts.pop(worker.run, None)
            self._unreported.append(worker)
        if not self._stopping and all(each.run for each in self._workers):
            if not worker.ready:
                time.sleep(1)  # whatever ended it may end the next one as well
            self._start()

    def _report_ended(self) -> None:
        """Report the runs whose workers have ended; if the database does not take that, again a little later."""
        if not self._unreported or time.monotonic() < self._report_at:
            return
        try:
            while self._unreported:
                self._report(self._unreported[0])
                self._unreported.pop(0)
        except Exception:  # noqa: BLE001 - a database that does not answer must not end the other runs
            _log.exception("The end of run %s could not be stored, and is stored later", self._unreported[0].run)
            self._report_at = time.monotonic() + REPORT_AGAIN_AFTER

    def _report(self, worker: _Worker) -> None:
        """Report the run as failed if its worker has not finished it, as Dagster's code server does."""
        import dagster as dg  # noqa: PLC0415 - takes a second, and few runs need it

        with dg.DagsterInstance.get() as instance:
            run = instance.get_run_by_id(worker.run)
            if run is None or run.is_finished:
                return
            if run.status == dg.DagsterRunStatus.CANCELING:
                instance.report_run_canceled(run)
            else:
                instance.report_run_failed(run, f"Its worker ended with exit code {worker.child.exit_code}.")


def _work(pool: Connection, module: str, idle: float, as_it_is: bool) -> None:  # noqa: FBT001 - of `Process`
    started = time.time_ns()  # before it loads the first file
    gc.freeze()  # else the first collection touches, and so copies, all memory that the workers share
    from feed_assets.warm_runs.worker import work  # noqa: PLC0415 - loads Dagster, which the pool does without

    work(pool, module, idle, started, as_it_is=as_it_is)
