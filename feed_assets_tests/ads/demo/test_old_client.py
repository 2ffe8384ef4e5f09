"""The old client, as a control: if it loses nothing in a Spark task, the test of the new one proves nothing.

How the loss shows depends on the process of Python in which a task runs. PySpark forks one for a task. By default it
serves further tasks (`spark.python.worker.reuse`), so the client's threads live on, and may send what is left: until
the process ends, because the application does, because it was idle for a minute, or because it was killed. Without
reuse it ends with its task. The tests show both: a task that succeeds although the stream has none of its rows, and
rows that are gone for ever once no process is left that could send them.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import psutil
import pytest

from feed_assets.ads.demo.old_client import OldClient
from feed_assets_tests.delivery.judge.faults import Rule
from feed_assets_tests.delivery.judge.running import JudgeServer
from feed_assets_tests.spark_processes import reuse_of_processes
from feed_assets_tests.waiting import until

TASKS = 2


def sender(settings: dict[str, Any], folder: Path) -> Callable[[Iterable[Any]], None]:
    """What the text runs for each partition. It also notes the process that it runs in."""

    def send(rows: Iterable[Any]) -> None:
        client = OldClient("rows", **settings)
        for row in rows:
            client.put(str(row.id), b"%d" % row.id)
        (folder / str(os.getpid())).touch()

    return send


def arrived(judge: JudgeServer) -> set[int]:
    return {int(stored.data) for stored in judge.log.of("rows")}


@pytest.fixture
def processes(tmp_path: Path) -> Path:
    folder = tmp_path / "processes"
    folder.mkdir()
    return folder


def test_in_a_spark_task_it_loses_rows_and_the_task_succeeds(spark, judge, processes):
    rows = 40_000  # it needs 10 s to send them
    judge.create("rows", shards=4)
    with reuse_of_processes(spark, wanted=False):
        spark.range(rows, numPartitions=TASKS).foreachPartition(sender(judge.settings, processes))
    ran = [int(path.name) for path in processes.iterdir()]
    assert len(ran) == TASKS
    until(lambda: not any(psutil.pid_exists(process) for process in ran))
    lost = rows - len(arrived(judge))
    print(f"{100 * lost / rows:.0f} % of the rows are lost")
    assert lost > 0


def test_in_a_process_that_is_used_again_the_task_succeeds_before_the_rows_arrive(spark, judge, processes):
    rows = 2000
    judge.create("rows", shards=4)
    judge.inject(Rule("record_error_before"))
    with reuse_of_processes(spark, wanted=True):
        spark.range(rows, numPartitions=TASKS).foreachPartition(sender(judge.settings, processes))
    assert arrived(judge) == set()
    judge.inject()
    until(lambda: arrived(judge) == set(range(rows)))


def test_in_a_service_that_lives_on_it_loses_nothing(judge):
    judge.create("rows", shards=2)
    judge.inject(Rule("record_error_before", rate=0.2))
    client = OldClient("rows", **judge.settings)
    for number in range(3000):
        client.put(str(number), b"%d" % number)
    until(lambda: arrived(judge) == set(range(3000)))
