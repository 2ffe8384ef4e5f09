"""Kills and stops processes of a consumer at any step while deliveries come and the stream is resharded, and judges.

One process forks three consumers, which share the shards of a stream in a file; a round kills one, at any time or at
one of its steps, or stops one for longer than its leases last, or ends one by SIGTERM. After each life of some rounds
everything is consumed, and the store is compared with a model. With state and store on SQLite, and on PostgreSQL and
Redis. Run `python -m feed_assets_tests.delivery.consuming.kills --rounds N [--broken RULE]` for many; exits with 1 if
something is wrong.
"""

from __future__ import annotations

import argparse
import gc
import logging
import os
import random
import signal
import sys
import threading
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any, Final
from unittest.mock import patch

from feed_assets.blackboard.location import open_blackboard
from feed_assets.delivery.audit import account
from feed_assets.delivery.consuming import consumer, reading, settling
from feed_assets.delivery.consuming.reading import Pace
from feed_assets.delivery.consuming.starting import consumer_of
from feed_assets.delivery.ledger import PartWriter
from feed_assets.delivery.stores.port import Change, Outcome
from feed_assets.delivery.stores.redis import RedisStore
from feed_assets.delivery.stores.sqlite import SqliteStore
from feed_assets.delivery.streams import local
from feed_assets.delivery.streams.local import LocalStream
from feed_assets.delivery.tables import Checkpoint, checkpoints
from feed_assets.leases.in_database import DatabaseLeases
from feed_assets.leases.port import Lease
from feed_assets.state.store import Store
from feed_assets_tests.delivery.worlds import DAY, NEXT_DAY, World
from feed_assets_tests.faults.memory import folder_in_memory
from feed_assets_tests.servers.redis import RedisServer
from feed_assets_tests.state.server import new_database, postgresql

CONSUMERS: Final = 3
LIFE: Final = 12
"""Rounds of one stream, before it is judged."""
LEASE: Final = 0.6
PACE: Final = Pace(timedelta(seconds=LEASE), 0.05, 0.03, 6, 0.2, 0.01)
RECORDS_A_READ: Final = 3
"""So few that a delivery takes several reads and checkpoints of a shard."""
PATIENCE: Final = 60.0
BROKEN_PATIENCE: Final = 3.0
PRODUCTS: Final = tuple(f"product-{number}" for number in range(40))
DAYS: Final = (DAY, NEXT_DAY)
ACTS: Final = ("kill", "kill at a step", "stop", "end", "deliver", "deliver", "reshard")
STEPS: Final[Mapping[str, tuple[Any, str]]] = {
    "read": (LocalStream, "_open"),
    "apply to SQLite": (SqliteStore, "apply"),
    "apply to Redis": (RedisStore, "apply"),
    "write a part": (PartWriter, "write"),
    "move a checkpoint": (reading, "move"),
    "take a lease": (DatabaseLeases, "take"),
    "renew a lease": (DatabaseLeases, "renew"),
    "release a lease": (DatabaseLeases, "release"),
}
_MOST_STEPS: Final = 25


@dataclass(slots=True)
class Life:
    """One stream, its consumers, and what was published."""

    folder: Path
    dice: random.Random
    state_url: str
    store: str
    space: str
    broken: str = ""
    running: list[int] = field(default_factory=list)
    acts: Counter[str] = field(default_factory=Counter)
    problems: list[str] = field(default_factory=list)
    deliveries: int = 0
    had: dict[str, set[str]] = field(default_factory=lambda: {day: set() for day in DAYS})
    latest: dict[str, dict[str, float]] = field(default_factory=lambda: {day: {} for day in DAYS})

    def world(self) -> World:
        """The world, at a time after all deliveries up to now. For one process."""
        options = {"stream": "local://prices?shards=4", "store": self.store, "space": self.space}
        found = World(self.folder, open_blackboard(str(self.folder / "base")), options, self.state_url)
        found.source.time += timedelta(hours=self.deliveries)
        return found

    def begin(self) -> None:
        """Deliver something, and start the consumers."""
        self.deliver()
        self.running = [self.consumer() for _ in range(CONSUMERS)]

    def round(self) -> None:
        """One act, then some time."""
        act = self.dice.choice(ACTS)
        self.acts[act] += 1
        time.sleep(self.dice.uniform(0.0, 0.2))
        match act:
            case "kill":
                self._end(signal.SIGKILL)
            case "kill at a step":
                self.running.append(self.consumer(self.dice.choice(list(STEPS)), self.dice.randint(1, _MOST_STEPS)))
                self._end(signal.SIGKILL)
            case "stop":
                os.kill(self.running[0], signal.SIGSTOP)
                self.deliver()
                time.sleep(self.dice.uniform(0.5, 2.5) * LEASE)
                os.kill(self.running[0], signal.SIGCONT)
                self.running.append(self.running.pop(0))
            case "end":
                if (code := self._end(signal.SIGTERM)) not in {0, -signal.SIGKILL}:  # it may kill itself before
                    self.problems.append(f"a consumer ended by SIGTERM with {code}")
            case "deliver":
                self.deliver()
            case "reshard":
                seed = self.dice.random()
                self.deliver(lambda stream: reshard(stream, random.Random(seed)))
        self._replace_the_dead()

    def end(self) -> list[str]:
        """Let everything be consumed, and judge it."""
        until = time.monotonic() + (BROKEN_PATIENCE if self.broken else PATIENCE)
        while time.monotonic() < until and not self._done(self._is_settled):
            self._replace_the_dead()
            time.sleep(0.1)
        while self.running:
            self._end(signal.SIGKILL)
        found = self.folder / "found"
        if not self._done(lambda: found.write_text("\n".join(self._judged())) >= 0):
            self.problems.append("the judge has failed")
        return [*self.problems, *(found.read_text().splitlines() if found.exists() else ())]

    def deliver(self, then: Callable[[LocalStream], object] = lambda _: None) -> None:
        """Publish some prices of a day, and deliver them; then do something while they are consumed."""
        self.deliveries += 1
        day = self.dice.choice(DAYS)
        chosen = self.dice.sample(PRODUCTS, self.dice.randint(1, len(PRODUCTS)))
        prices = {each: float(self.deliveries) for each in chosen}

        def act() -> bool:
            world = self.world()
            world.publish(prices, day)
            done = world.deliver(day) is not None
            then(world.stream)
            return done

        if not self._done(act):
            raise AssertionError("nothing was delivered")
        self.had[day] |= prices.keys()
        self.latest[day] = prices

    def consumer(self, step: str = "", number: int = 0) -> int:
        """A new consumer, which kills itself at a step."""
        after = self.dice.random() < 0.5

        def act() -> bool:
            stop = threading.Event()
            signal.signal(signal.SIGTERM, lambda *_: stop.set())
            with ExitStack() as stack:
                if step:
                    stack.enter_context(killed_at(step, number, after=after))
                if self.broken:
                    stack.enter_context(BROKEN[self.broken]())
                world = self.world()
                stack.enter_context(patch.object(local, "RECORDS_A_READ", RECORDS_A_READ))
                stack.enter_context(watching_order(world.stream, self.folder / "order"))
                with consumer_of(world.deliverer, world.state, pace=PACE) as made:
                    made.run(stop)
            return True

        return _forked(act)

    # --- judging ----------------------------------------------------------------------------------------------------

    def _is_settled(self) -> bool:
        world = self.world()
        ledger = world.deliverer.ledger
        editions = [each for day in DAYS for each in ledger.of(day)]
        return all(account(ledger, world.to, each, now=world.now()).state == "settled" for each in editions)

    def _judged(self) -> Iterator[str]:
        world = self.world()
        ledger = world.deliverer.ledger
        expected = {}
        for product in PRODUCTS:
            days = [day for day in DAYS if product in self.had[day]]
            if days and product in self.latest[max(days)]:
                expected[product] = self.latest[max(days)][product]
        if (found := world.values(*PRODUCTS)) != expected:
            wrong = sorted(each for each in PRODUCTS if found.get(each) != expected.get(each))
            yield f"the store has {[(each, found.get(each)) for each in wrong[:5]]} instead of " + str(
                [(each, expected.get(each)) for each in wrong[:5]]
            )
        for each in [each for day in DAYS for each in ledger.of(day)]:
            audited = account(ledger, world.to, each, now=world.now())
            if audited.state != "settled" or audited.losses:
                yield f"edition {each.number} {each.partition}: {audited.state}, {audited.rows}, {audited.losses}"
            if audited.repeats["received"] or audited.unexplained:
                yield f"edition {each.number} {each.partition}: {audited.repeats} repeats, and none was sent"
        if (self.folder / "order").exists():
            yield from (self.folder / "order").read_text().splitlines()

    # --- processes --------------------------------------------------------------------------------------------------

    def _end(self, how: signal.Signals) -> int:
        """End the oldest consumer; returns its exit code, negative for a signal."""
        process = self.running.pop(0)
        with suppress(ProcessLookupError):
            os.kill(process, how)
        return os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])

    def _replace_the_dead(self) -> None:
        for each in list(self.running):
            ended, status = os.waitpid(each, os.WNOHANG)
            if ended:
                self.running.remove(each)
                code = os.waitstatus_to_exitcode(status)
                if code != -signal.SIGKILL and not self.broken:
                    self.problems.append(f"a consumer has ended with {code}")
        while len(self.running) < CONSUMERS:
            self.running.append(self.consumer())

    def _done(self, act: Callable[[], bool]) -> bool:
        return os.waitstatus_to_exitcode(os.waitpid(_forked(act), 0)[1]) == 0


@contextmanager
def watching_order(stream: LocalStream, found: Path) -> Iterator[None]:
    """Note when the checkpoint of a shard moves while a parent has not ended."""
    move = reading.move

    def watched(
        state: Store, lease: Lease, length: timedelta, name: str, shard: str, *rest: Any, **options: Any
    ) -> Any:
        answer = move(state, lease, length, name, shard, *rest, **options)
        over = {each for each, at in checkpoints(state, name).items() if at.is_over}
        parents = next(each.parents for each in stream.all_shards() if each.name == shard)
        if early := [each for each in parents if each not in over]:
            with found.open("a", encoding="utf-8") as file:
                file.write(f"{shard} was read before {early} had ended\n")
        return answer

    with patch.object(reading, "move", watched):
        yield


def reshard(stream: LocalStream, dice: random.Random) -> None:
    """Split a shard, or merge two neighbours."""
    shards = sorted(stream.shards(), key=lambda each: each.low)
    place = dice.randrange(len(shards))
    if len(shards) > 6 or (place + 1 < len(shards) > 2 and dice.random() < 0.5):
        place = min(place, len(shards) - 2)
        stream.merge(shards[place].name, shards[place + 1].name)
    else:
        stream.split(shards[place].name)


@contextmanager
def killed_at(step: str, number: int, *, after: bool) -> Iterator[None]:
    """Kill this process before or after a step that it does for the nth time."""
    owner, name = STEPS[step]
    whole, counted, lock = getattr(owner, name), [0], threading.Lock()

    def stepping(*arguments: Any, **options: Any) -> Any:
        with lock:
            counted[0] += 1
            is_now = counted[0] == number
        if is_now and not after:
            os.kill(os.getpid(), signal.SIGKILL)
        answer = whole(*arguments, **options)
        if is_now:
            os.kill(os.getpid(), signal.SIGKILL)
        return answer

    with patch.object(owner, name, stepping):
        yield


# --- rules that are switched off --------------------------------------------------------------------------------------


@contextmanager
def _no_condition() -> Iterator[None]:
    """Whatever comes last stays."""

    def pretend(apply: Callable[..., Sequence[Outcome]]) -> Callable[..., Sequence[Outcome]]:
        def applied(of: Any, space: str, changes: Sequence[Change]) -> Sequence[Outcome]:
            newest = time.time_ns().to_bytes(16, "big")
            return apply(of, space, [replace_version(each, newest) for each in changes])

        return applied

    def replace_version(change: Change, version: bytes) -> Change:
        return change._replace(version=b"~" + version)

    with (
        patch.object(SqliteStore, "apply", pretend(SqliteStore.apply)),
        patch.object(RedisStore, "apply", pretend(RedisStore.apply)),
    ):
        yield


@contextmanager
def _checkpoint_first() -> Iterator[None]:
    """The checkpoint moves before a batch takes effect."""
    settle = reading.Reading._settle

    def early(of: reading.Reading, batch: Any, began: Any) -> None:
        if batch.records:
            last = batch.records[-1]
            of.at = Checkpoint(last.sequence, is_over=False, until=of.at.until)
            of._move_once()
            time.sleep(0.05)
        settle(of, batch, began)

    with patch.object(reading.Reading, "_settle", early):
        yield


@contextmanager
def _parts_overwritten() -> Iterator[None]:
    """A part is overwritten by what this process has seen, and what was written before is not read."""

    def overwrite(of: PartWriter, *arguments: Any, **options: Any) -> None:
        of.is_alone = True
        of._tag = None
        write(of, *arguments, **options)

    write = PartWriter.write
    with (
        patch.object(settling._Seen, "join", lambda _: False),
        patch.object(PartWriter, "write", overwrite),
    ):
        yield


@contextmanager
def _children_at_once() -> Iterator[None]:
    """A child does not wait for its parents."""

    def all_of_them(shards: Mapping[str, Any], known: Mapping[str, Checkpoint]) -> list[str]:
        return sorted(name for name in shards if name not in known or not known[name].is_over)

    with patch.object(consumer, "readable", all_of_them):
        yield


BROKEN: Final = {
    "no condition": _no_condition,
    "checkpoint first": _checkpoint_first,
    "parts overwritten": _parts_overwritten,
    "children at once": _children_at_once,
}


def _forked(act: Callable[[], bool]) -> int:
    """The id of a new process that does this; it exits with 0 if that is true."""
    process = os.fork()
    if process:
        return process
    gc.freeze()
    code = 1
    try:
        code = not act()
    except BaseException:  # noqa: BLE001 - of a process that ends here
        if logging.getLogger().isEnabledFor(logging.ERROR):
            traceback.print_exc()
    finally:
        sys.stdout.flush()
        os._exit(code)


@contextmanager
def _places(kind: str, folder: Path) -> Iterator[tuple[Callable[[Path], str], str]]:
    """Gives the URL of the state database for a folder; and that of the store."""
    if kind == "sqlite":
        yield (lambda _: ""), "sqlite"
        return
    redis = RedisServer(folder / "redis")
    redis.start()
    try:
        with postgresql() as server, patch.dict(os.environ, redis.environment):
            yield (lambda _: new_database(server)), redis.url
    finally:
        redis.kill()


def run(kind: str, rounds: int, seed: int, broken: str = "") -> tuple[list[str], Counter[str]]:
    """What is wrong after so many rounds, and what was done. A broken rule ends it when it is found."""
    dice, problems, done, lives = random.Random(seed), list[str](), Counter[str](), 0
    with folder_in_memory() as folder, _places(kind, folder) as (state_of, store):
        while rounds > 0 and not problems:
            lives += 1
            place = folder / f"life-{lives}"
            place.mkdir()
            life = Life(place, dice, state_of(place), store, f"prices-{lives}", broken)
            life.begin()
            for _ in range(min(rounds, LIFE)):
                life.round()
            rounds -= LIFE
            problems += life.end()
            done += life.acts
    return problems, done


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(prog="python -m feed_assets_tests.delivery.consuming.kills")
    parser.add_argument("--rounds", type=int, default=500, help="with each kind of state and store")
    parser.add_argument("--kind", nargs="+", choices=["sqlite", "servers"], default=["sqlite", "servers"])
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("--broken", choices=BROKEN, default="")
    parser.add_argument("--log", default="CRITICAL", help="level of what the processes log")
    chosen = parser.parse_args()
    logging.basicConfig(level=chosen.log, format="%(asctime)s %(process)d %(message)s")
    if chosen.log == "CRITICAL":
        logging.disable(logging.CRITICAL)
    wrong = False
    for kind in chosen.kind:
        problems, done = run(kind, chosen.rounds, chosen.seed, chosen.broken)
        print(f"{kind}, seed {chosen.seed}: {dict(done)}")
        print(
            *(problems[:20] or ["The stores have what is in force, and every row was settled."]), sep="\n", flush=True
        )
        wrong = wrong or bool(problems)
    sys.exit(wrong)


if __name__ == "__main__":
    main()
