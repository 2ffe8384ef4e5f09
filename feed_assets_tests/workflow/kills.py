"""Kills and stops masters and workers of a workflow under load, and judges what is left.

One process forks two masters, two workers and a producer; a round kills one of them, or stops one until others have
taken its work over. After each life of some rounds all work is drained and judged (`judged`). On a disk, and on S3
behind a proxy that injects faults.
Run `python -m feed_assets_tests.workflow.kills --rounds N [--broken RULE]` for many;
exits with 1 if something is wrong. Not here: the processes (`processes`).
"""

from __future__ import annotations

import argparse
import gc
import json
import logging
import os
import random
import signal
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final
from unittest.mock import patch
from uuid import uuid4

import uvicorn.lifespan.on
import uvicorn.protocols.http.h11_impl  # noqa: F401 - so that a fork need not

from feed_assets.blackboard.location import open_blackboard
from feed_assets.workflow.calls import Configure, Insert
from feed_assets.workflow.epochs import newest_epoch
from feed_assets.workflow.errors import WorkflowError
from feed_assets.workflow.tasks import NewTask
from feed_assets_tests.chaos.bases import RATES
from feed_assets_tests.faults.memory import folder_in_memory
from feed_assets_tests.servers.fault_proxy import FaultProxy
from feed_assets_tests.servers.versitygw import Versitygw
from feed_assets_tests.workflow.judged import account_of, faults
from feed_assets_tests.workflow.processes import (
    BROKEN,
    Stopping,
    client_of,
    flow_of,
    place_at,
    quickly,
    serve,
    worker_of,
)

LIFE: Final = 10
"""Rounds of one workflow, before it is judged."""
HEARTBEAT, FAILOVER_AFTER, LEASE = 0.05, 0.3, 0.5
LOAD_SECONDS: Final = 0.2
PATIENCE, BROKEN_PATIENCE = 60.0, 5.0
"""Seconds until all work must be done; a broken rule may leave work that never ends."""
ACTS: Final = ("kill a master", "stop a master", "kill a worker", "stop a worker", "kill a producer")
TELLING_ACTS: Final = {
    "no lease check": ("stop a worker",),
    "refusal taken for a loss": ("stop a master",),
    "repeat executed": ("kill a master",),
}
"""A rule that is switched off -> the acts against which it protects."""
_MOST_WRITES: Final = 12


@dataclass(slots=True)
class Life:
    """One workflow, its processes, and what its producers were told."""

    base: str
    folder: Path
    dice: random.Random
    direct: Mapping[str, str]
    """The environment in which the judge sees the storage without faults."""
    broken: str = ""
    name: str = field(default_factory=lambda: f"life-{uuid4().hex[:8]}")
    masters: list[int] = field(default_factory=list)
    workers: list[int] = field(default_factory=list)
    producers: list[int] = field(default_factory=list)
    acts: Counter[str] = field(default_factory=Counter)
    orders: int = 0

    @property
    def told(self) -> Path:
        """The file of acknowledged orders, a line each."""
        return self.folder / f"{self.name}.told"

    def begin(self) -> None:
        """Start the processes, and bring the configuration into force."""
        self.masters = [self.master() for _ in range(2)]
        while not self._done(self._configure):
            pass  # a fault has hit the first look at the storage
        self.workers = [self.worker() for _ in range(2)]
        self.producers = [self.producer()]

    def round(self) -> None:
        """One act, then some time under load."""
        act = self.dice.choice(TELLING_ACTS.get(self.broken, ACTS))
        self.acts[act] += 1
        time.sleep(self.dice.uniform(0.0, LOAD_SECONDS))
        match act:
            case "kill a master":
                self._end(self.masters, 0)
                self.masters.append(self.master(self._stopping("kill")))
            case "stop a master":
                self._stop_a_master()
            case "kill a worker":
                self._end(self.workers, 0)
                self.workers.append(self.worker())
            case "stop a worker":
                os.kill(self.workers[0], signal.SIGSTOP)
                time.sleep(self.dice.uniform(0.5, 2.5) * LEASE)
                os.kill(self.workers[0], signal.SIGCONT)
                self.workers.append(self.workers.pop(0))
            case "kill a producer":
                self._end(self.producers, 0)
                self.producers.append(self.producer())
        self._replace_the_dead()

    def end(self) -> list[str]:
        """End the load, let all work be done, and judge it."""
        self._end(self.producers, 0)
        self._replace_the_dead(producers=False)
        until = time.monotonic() + (BROKEN_PATIENCE if self.broken else PATIENCE)
        idle = False
        while not idle and time.monotonic() < until:
            time.sleep(0.1)
            idle = self._done(self._is_idle)
            self._replace_the_dead(producers=False)
        for each in (self.masters, self.workers):
            while each:
                self._end(each, 0)
        found = self.folder / f"{self.name}.found"
        self._done(lambda: self._judge(found))
        problems: list[str] = json.loads(found.read_text()) if found.exists() else ["the judge has failed"]
        return problems

    # --- processes ------------------------------------------------------------------------------------------------

    def master(self, stopping: Stopping | None = None) -> int:
        """A new candidate, which becomes the master when there is none."""

        def run() -> bool:
            if self.broken:
                BROKEN[self.broken]()
            place = place_at(self.base, self.name, stopping)
            serve(place, failover_after=FAILOVER_AFTER, ready=lambda *_: None)
            return True

        return _forked(run)

    def worker(self) -> int:
        """A new worker."""

        def run() -> bool:
            sys.stdout = Path(os.devnull).open("w", encoding="utf-8")  # noqa: SIM115 - until the process ends
            worker_of(place_at(self.base, self.name), board=open_blackboard(self.base), seconds=LEASE, pause=0.02).run(
                lambda: False
            )
            return True

        return _forked(run)

    def producer(self) -> int:
        """A new producer of orders that nobody had before."""
        self.orders += 1_000_000
        first = self.orders

        def run() -> bool:
            client = client_of(place_at(self.base, self.name))
            with self.told.open("a", encoding="utf-8", buffering=1) as told:
                for order in range(first, first + 1_000_000):
                    client.call(Insert, tasks=(NewTask("split", {"order": order}),))
                    told.write(f"{order}\n")
                    time.sleep(0.03)
            return True

        return _forked(run)

    def _configure(self) -> bool:
        client = client_of(place_at(self.base, self.name))
        for each in flow_of(self.name).stages.values():
            client.call(Configure, type=each.name, payload={**each.configuration, "attempts": 1000})
        return True

    def _is_idle(self) -> bool:
        client = client_of(place_at(self.base, self.name), patience=BROKEN_PATIENCE if self.broken else PATIENCE)
        return not client.read("tasks")["tasks"]

    def _judge(self, found: Path) -> bool:
        os.environ.update(self.direct)
        place = place_at(self.base, self.name)
        told = [int(each) for each in self.told.read_text().split()] if self.told.exists() else []
        try:
            problems = [f"{self.name}: {each}" for each in faults(place, told, is_over=not self.broken)]
        except WorkflowError as error:
            found.write_text(json.dumps([f"{self.name}: {error}"]))
            return True
        account = account_of(place)
        counted = {"orders": len(told), "leases": account.leases, "epochs": newest_epoch(place)}
        found.with_suffix(".counted").write_text(json.dumps(counted))
        found.write_text(json.dumps(problems))
        return True

    def _stop_a_master(self) -> None:
        """Stop the master for longer than a candidate waits, anywhere or right before a write; then let it go on."""
        old = self.masters[0]
        os.kill(old, signal.SIGSTOP)
        time.sleep(self.dice.uniform(0.5, 2.5) * FAILOVER_AFTER)
        os.kill(old, signal.SIGCONT)
        self.masters.append(self.masters.pop(0))

    def _stopping(self, what: str) -> Stopping | None:
        if self.dice.random() < 0.5:
            return None
        return Stopping(what, self.dice.choice(("before", "after")), self.dice.randint(1, _MOST_WRITES))

    def _replace_the_dead(self, *, producers: bool = True) -> None:
        """Start anew what has ended: a master that was superseded, or was killed at a write."""
        kinds = [(self.masters, self.master), (self.workers, self.worker)]
        if producers:
            kinds.append((self.producers, self.producer))
        for running, new in kinds:
            for each in list(running):
                if os.waitpid(each, os.WNOHANG)[0]:
                    running.remove(each)
                    running.append(new())

    def _end(self, running: list[int], place: int) -> None:
        process = running.pop(place)
        with suppress(ProcessLookupError):
            os.kill(process, signal.SIGKILL)
        os.waitpid(process, 0)

    def _done(self, act: Callable[[], bool]) -> bool:
        """What this says in a process of its own; False if that fails."""
        return os.waitstatus_to_exitcode(os.waitpid(_forked(act), 0)[1]) == 0


def _forked(act: Callable[[], bool]) -> int:
    """The id of a new process that does this; it exits with 0 if that is true."""
    process = os.fork()
    if process:
        return process
    gc.freeze()  # else a collection touches, and so copies, all memory of this process
    code = 1
    try:
        code = not act()
    except BaseException:
        logging.getLogger(__name__).debug("A process has failed", exc_info=True)
    finally:
        os._exit(code)


@contextmanager
def _base(name: str, folder: Path, seed: int) -> Iterator[tuple[str, Mapping[str, str]]]:
    """The URI of a new base, and what the environment is without faults; that of this process is the one with them."""
    if name == "disk":
        yield str(folder / "base"), {}
        return
    server = Versitygw(folder / "data")
    server.start()
    server.client().create_bucket(Bucket="workflow")
    proxy = FaultProxy(folder / "proxy", server, seed)
    proxy.start()
    proxy.inject(**RATES)
    try:
        with patch.dict(os.environ, proxy.environment):
            yield "s3://workflow/base", server.environment
    finally:
        proxy.kill()
        server.kill()


def run(name: str, rounds: int, seed: int, broken: str = "") -> tuple[list[str], Counter[str]]:
    """What is wrong after so many rounds on a base, and what was done. A broken rule ends it when it is found."""
    dice, problems, done = random.Random(seed), list[str](), Counter[str]()
    with folder_in_memory() as folder, _base(name, folder, seed) as (base, direct):
        while rounds > 0 and not problems:
            life = Life(base, folder, dice, direct, broken)
            life.begin()
            for _ in range(min(rounds, LIFE)):
                life.round()
            rounds -= LIFE
            problems += life.end()
            done += life.acts
            counted = folder / f"{life.name}.counted"
            done += Counter(json.loads(counted.read_text()) if counted.exists() else {})
    return problems, done


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(prog="python -m feed_assets_tests.workflow.kills")
    parser.add_argument("--rounds", type=int, default=1000, help="on each base")
    parser.add_argument("--base", nargs="+", choices=["disk", "versitygw"], default=["disk", "versitygw"])
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("--broken", choices=BROKEN, default="")
    parser.add_argument("--log", default="CRITICAL", help="level of what the processes log")
    chosen = parser.parse_args()
    logging.basicConfig(level=chosen.log, format="%(asctime)s %(process)d %(message)s")
    if chosen.log == "CRITICAL":
        logging.disable(logging.CRITICAL)
    quickly(HEARTBEAT, LEASE / 2)
    wrong = False
    for name in chosen.base:
        problems, done = run(name, chosen.rounds, chosen.seed, chosen.broken)
        print(f"{name}, seed {chosen.seed}: {dict(done)}")
        print(*(problems[:20] or ["Each unit was committed once, and nothing was lost."]), sep="\n", flush=True)
        wrong = wrong or bool(problems)
    sys.exit(wrong)


if __name__ == "__main__":
    main()
