"""A driver of Spark whose tasks fail, hang or lose their executor while it publishes; a program of its own.

Here: publishing each partition of `FAULTS` with that fault in its tasks, then waiting for its own end in the middle of
the partitions of `UNFINISHED`. Not here: killing, which the test does when it sees how far the tasks are
(`assets/test_on_a_cluster`). The tasks note in a folder each attempt at them.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from itertools import count, takewhile
from pathlib import Path
from typing import Final

from pyspark.sql import DataFrame, SparkSession

from feed_assets.blackboard.location import open_blackboard
from feed_assets.file_feed import Column, Facts, Feed, Staged, claim, publish_both, stage, staged_files
from feed_assets.resources.spark import SparkResource
from feed_assets.steps.quarantining import Unstaged
from feed_assets.steps.writing import write

LOCATION: Final = "numbers/v1.0"
FAILED_TASK, SLOW_TASK, LOST_EXECUTOR = FAULTS = ("failed-task", "slow-task", "lost-executor")
STAGED, COMMITTED, WRITING = UNFINISHED = ("driver-killed-staged", "driver-killed-committed", "driver-killed-writing")
MANY_CORES: Final = "many-cores"
TASKS: Final = 4
CORES: Final = 40
ROWS: Final = 8_000
GO_ON: Final = "go-on"
"""The file that ends the waiting of the tasks of `LOST_EXECUTOR`."""

SETTINGS: Final = {
    "spark.speculation": "true",
    # Another attempt at a task starts when all but one have ended.
    "spark.speculation.quantile": "0.75",
    "spark.speculation.multiplier": "1.1",
    # As on a cluster of as many cores.
    "spark.default.parallelism": str(CORES),
    "spark.sql.shuffle.partitions": str(CORES),
    "spark.ui.enabled": "false",
}
# A task sends the first part of its file long before the end.
SMALL_PARTS: Final = {"fs.s3a.multipart.size": "5M", "parquet.block.size": str(2**20)}


def rows(spark: SparkSession, fault: str, folder: Path) -> DataFrame:
    """Numbered rows, judged, with a `payload` of 8 MB in each of the last two tasks, which suffer after their rows."""
    notes = str(folder)
    last = TASKS - 1

    # In the workers of the executors: nothing of this package is there.
    def attempt(numbers: Iterable[int]) -> Iterator[tuple[int, bytes]]:
        from random import Random  # noqa: PLC0415
        from time import sleep  # noqa: PLC0415

        from pyspark import TaskContext  # noqa: PLC0415

        context = TaskContext.get()
        assert context is not None
        task, number = context.partitionId(), context.attemptNumber()
        Path(notes, f"{fault}.{task}.{number}").touch()
        size = 4096 if task >= last - 1 else 16
        for each in numbers:
            yield each, Random(each).randbytes(size)
        if (fault, task, number) == ("failed-task", last, 0):
            raise RuntimeError("the first attempt fails")
        while (
            ((fault, task, number) == ("slow-task", last, 0))
            or (fault == "lost-executor" and task >= last - 1 and number == 0 and not Path(notes, "go-on").exists())
            or (fault == "driver-killed-writing" and task == last)
        ):
            sleep(0.05)

    numbers = spark.sparkContext.range(0, ROWS, 1, TASKS).mapPartitions(attempt)
    return judged(spark.createDataFrame(numbers, "id bigint, payload binary", verifySchema=False))


def judged(frame: DataFrame) -> DataFrame:
    """The rows with their verdicts: of each ten, the first is quarantined."""
    verdict = "if(id % 10 = 0, 'quarantined', 'published')"
    refused = "if(id % 10 = 0, 'a multiple of ten', NULL)"
    return frame.selectExpr(
        "*",
        f"{verdict} AS _verdict",
        f"{refused} AS _reason",
        f"{refused} AS _refused",
        "'numbers' AS _file",
        "id AS _line",
        "string(id) AS _record",
    )


def written(feed: Feed, partition: str, frame: DataFrame) -> list[Unstaged]:
    """Write a partition, after its quarantine."""
    claimed = claim(feed, partition, now=datetime.now(UTC), owner="faulty tasks")
    facts = Facts(schema=(Column("id", "bigint"), Column("payload", "binary")))
    return write(claimed, frame, facts, read=ROWS)


def running(spark: SparkSession) -> int:
    """How many attempts at tasks run now."""
    tracker = spark.sparkContext.statusTracker()
    stages = takewhile(bool, map(tracker.getStageInfo, count()))
    return sum(stage.numActiveTasks for stage in stages if stage)


def staged(unstaged: list[Unstaged]) -> Staged:
    """Stage what was written; returns the update."""
    now = datetime.now(UTC)
    return [stage(each.claim, staged_files(each.claim, each.files), each.facts, now=now) for each in unstaged][-1]


def main(base: str, master: str, folder: Path) -> None:
    """Publish the partitions of `FAULTS`, and leave those of `UNFINISHED` unfinished; never returns."""
    executors = {"spark.executor.extraJavaOptions": os.environ.get("SPARK_DAEMON_JAVA_OPTS", "")}
    spark = SparkResource.on(master, base, **SETTINGS, **executors).spark_session
    for name, value in SMALL_PARTS.items():
        spark.conf.set(name, value)
    feed = Feed(open_blackboard(base), LOCATION)
    for fault in FAULTS:
        publish_both(staged(written(feed, fault, rows(spark, fault, folder))), now=datetime.now(UTC))
        assert not running(spark), f"attempts outlive the write of {fault}"
    many = judged(spark.range(0, ROWS, 1, CORES).selectExpr("id", "binary(string(id)) AS payload"))
    publish_both(staged(written(feed, MANY_CORES, many.dropDuplicates(["payload"]))), now=datetime.now(UTC))
    staged(written(feed, STAGED, rows(spark, STAGED, folder)))
    for unfinished in (COMMITTED, WRITING):
        written(feed, unfinished, rows(spark, unfinished, folder))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], Path(sys.argv[3]))
