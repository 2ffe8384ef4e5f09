"""A large delivery under faults and kills, from the update to the store; nothing may be missing.

    python -m feed_assets_tests.spark_delivery.large --rows 10000000 --kills 10

The stream throttles, cuts connections before and after it has acted, and fails single records. The driver of Spark is
killed with all its tasks, and so is the consumer, each at random moments; then it starts again. The judge's log says
what arrived, and the store is compared with the update row by row.
"""

from __future__ import annotations

import argparse
import os
import random
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from unittest.mock import patch

import pyarrow as pa

from feed_assets.blackboard.local import LocalBlackboard
from feed_assets.delivery.lookups import store_of
from feed_assets.delivery.records import details_of
from feed_assets_tests import ROOT
from feed_assets_tests.delivery.judge.faults import Rule
from feed_assets_tests.delivery.judge.running import JudgeServer, judging, throttled
from feed_assets_tests.delivery.judge.streams import REGION
from feed_assets_tests.delivery.worlds import DAY, World
from feed_assets_tests.listening import kill_family
from feed_assets_tests.spark_delivery import driver

FAULTS = (
    Rule("cut_before", rate=0.003),
    Rule("cut_after", rate=0.003),
    Rule("error_after", rate=0.002),
    throttled(rate=0.005),
    Rule("record_error_before", rate=0.0005),
    Rule("record_error_after", rate=0.0002),
    # A shard that was throttled takes nothing for a while: of 500 records in a request, one in two requests has one.
    Rule("record_error_before", rate=0.001, error="ProvisionedThroughputExceededException"),
)
PAGE = 10_000


def name_of(number: int) -> str:
    return f"product {number}"


def price_of(number: int) -> float:
    return number % 100_003 / 8


def published(world: World, rows: int) -> None:
    """An update with a price for each of so many products, in files of a million rows."""
    numbers = range(rows)
    table = pa.table(
        {
            "product": pa.array(map(name_of, numbers), pa.string(), size=rows),
            "price": pa.array(map(price_of, numbers), pa.float64(), size=rows),
        }
    )
    world.source.publish(table, DAY, files=max(1, rows // 1_000_000))


def log_of(world: World, module: str) -> Path:
    """What a program has said, in all its lives."""
    return world.folder / f"{module.rpartition('.')[2]}.log"


@contextmanager
def program(world: World, judge: JudgeServer, *command: str) -> Iterator[subprocess.Popen[str]]:
    environment = {**os.environ, **judge.environment, "PYSPARK_PYTHON": sys.executable}
    with log_of(world, command[0]).open("a") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", *command], cwd=ROOT, env=environment, stdout=log, stderr=log, text=True
        )
        try:
            yield process
        finally:
            kill_family(process.pid)


def kept_alive(world: World, judge: JudgeServer, dice: random.Random, rows: int, kills: int, *command: str) -> int:
    """Run a program until it ends by itself; kill it so many times before. Returns how often it was killed."""
    killed, longest = 0, max(45, rows / 50_000)
    while True:
        with program(world, judge, *command) as process:
            # Spark takes up to ten seconds to start, and staging a while: some kills come before the first row.
            patience = dice.uniform(5, longest) if killed < kills else None
            try:
                if process.wait(patience):
                    raise SystemExit(f"{command[0]} failed: {log_of(world, command[0]).read_text()[-3000:]}")
            except subprocess.TimeoutExpired:
                kill_family(process.pid)
                killed += 1
            else:
                return killed


def arrivals(judge: JudgeServer, stream: str, rows: int) -> tuple[int, int]:
    """How many rows are missing in the stream, and how many records repeat one."""
    seen, repeats = bytearray(rows), 0
    for record in judge.log.of(stream):
        details = details_of(record.data)
        if details is not None:
            repeats += seen[details.ordinal]
            seen[details.ordinal] = 1
    return seen.count(0), repeats


def wrong_values(world: World, rows: int) -> int:
    """How many products have another price in the store than in the update."""
    wrong = 0
    with store_of(world.to, world.folder) as store:
        for start in range(0, rows, PAGE):
            numbers = range(start, min(start + PAGE, rows))
            found = store.get_many(world.to.store_space, list(map(name_of, numbers)), now=0.0)
            for number in numbers:
                value, expected = found.get(name_of(number)), f'"price":{price_of(number)}}}'.encode()
                wrong += value is None or not value.data.endswith(expected)
    return wrong


def run(rows: int, shards: int, kills: tuple[int, int], seed: int, folder: Path) -> list[str]:
    """What is wrong after a delivery of so many rows; `kills` of the driver and of the consumer."""
    dice, started = random.Random(seed), time.monotonic()
    with judging(folder) as judge, patch.dict(os.environ, judge.environment):
        stream = judge.create("prices", shards)
        world = World(folder, LocalBlackboard(folder / "base"), {"stream": f"kinesis://{REGION}/{stream}"})
        published(world, rows)
        judge.inject(*FAULTS, seed=seed)

        def said(what: str) -> None:
            print(f"{time.monotonic() - started:6.0f} s  {what}", flush=True)

        said(f"{rows:,} rows are published.")
        sender = [driver.__name__, "local[2]", str(folder), stream, str(max(1, shards // 2))]
        killed = kept_alive(world, judge, dice, rows, kills[0], *sender)
        missing, repeats = arrivals(judge, stream, rows)
        said(f"Delivered; the driver was killed {killed} times. {missing} rows are missing, {repeats:,} repeats.")
        killed = kept_alive(world, judge, dice, rows, kills[1], __spec__.name, "consume", str(folder), stream)
        wrong, audited = wrong_values(world, rows), world.audited()
        said(f"Consumed; the consumer was killed {killed} times. {wrong} values are wrong. {audited.rows}")
        account = judge.account()
        said(f"Errors of the stream: {dict(Counter(account.errors))}.")
    problems = {"rows are missing in the stream": missing, "values of the store are wrong": wrong}
    found = [f"{count:,} {what}." for what, count in problems.items() if count]
    if set(audited.rows.values()) != {rows}:
        found.append(f"The audit says {audited.rows}.")
    return found


def consume(folder: str, stream: str) -> None:
    """Consume until nothing is left."""
    world = World(Path(folder), LocalBlackboard(Path(folder, "base")), {"stream": f"kinesis://{REGION}/{stream}"})
    world.consume()


def main() -> None:
    """The command."""
    if sys.argv[1:2] == ["consume"]:
        consume(*sys.argv[2:])
        return
    parser = argparse.ArgumentParser(prog=f"python -m {__spec__.name}")
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--shards", type=int, default=64)
    parser.add_argument("--kills", type=int, default=10, help="of the driver")
    parser.add_argument("--consumer-kills", type=int, default=10)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    chosen = parser.parse_args()
    print(f"seed {chosen.seed}", flush=True)
    with tempfile.TemporaryDirectory(prefix="large-") as folder:
        problems = run(chosen.rows, chosen.shards, (chosen.kills, chosen.consumer_kills), chosen.seed, Path(folder))
    print(*(problems or ["Every row arrived, and the store has them all."]), sep="\n")
    sys.exit(bool(problems))


if __name__ == "__main__":
    main()
