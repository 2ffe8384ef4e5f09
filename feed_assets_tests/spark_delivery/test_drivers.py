"""Tasks on a cluster that fail, hang or run twice: the next attempt sends the rest. Drivers die in `test_large`."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec
import pytest

from feed_assets.delivery.ledger import Ended
from feed_assets_tests.delivery.judge.running import JudgeServer, refused
from feed_assets_tests.listening import kill_family
from feed_assets_tests.servers.spark_cluster import SparkCluster
from feed_assets_tests.spark_delivery import driver
from feed_assets_tests.spark_delivery.worlds import SparkWorld
from feed_assets_tests.waiting import HANGS, until

pytestmark = pytest.mark.slow

ROWS = 8_000


@contextmanager
def driving(world: SparkWorld, *arguments: str, **environment: str) -> Iterator[subprocess.Popen[str]]:
    """A driver that delivers; what it has started ends with the block. Its output is how the delivery ended."""
    command = [sys.executable, "-m", driver.__name__, *arguments]
    given = {**os.environ, **world.judge.environment, "PYSPARK_PYTHON": sys.executable, **environment}
    log = world.folder / "driver.log"
    with (
        log.open("w") as errors,
        subprocess.Popen(command, env=given, stdout=subprocess.PIPE, stderr=errors, text=True) as process,
    ):
        try:
            yield process
        finally:
            kill_family(process.pid)


def ended(process: subprocess.Popen[str]) -> Ended:
    """How the driver's delivery ended."""
    output, _ = process.communicate(timeout=HANGS)
    assert process.returncode == 0
    return msgspec.json.decode(output.splitlines()[-1], type=Ended)


@pytest.fixture(scope="module")
def cluster(slow_start: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkCluster]:
    """Two workers of one core."""
    started = SparkCluster(tmp_path_factory.mktemp("cluster") / "workers")
    started.start()
    yield started
    started.stop()


def test_k16_a_task_that_fails_is_tried_again_and_sends_the_rest(
    judge: JudgeServer, cluster: SparkCluster, tmp_path: Path
) -> None:
    world = SparkWorld.below(tmp_path, judge)
    world.publish_rows(ROWS)
    judge.inject(refused("AccessDeniedException", requests=[20]))

    with driving(world, cluster.master, str(tmp_path), world.in_judge, "1", **cluster.environment) as process:
        end = ended(process)

    assert judge.account().errors["AccessDeniedException"] == 1
    assert len(world.senders(world.open_edition())) == 3
    assert end.acked == ROWS
    assert set(world.arrived()) == set(range(ROWS))
    assert end.repeats == 0


def test_k16_a_task_that_hangs_is_overtaken_by_another_attempt(
    judge: JudgeServer, cluster: SparkCluster, tmp_path: Path
) -> None:
    world = SparkWorld.below(tmp_path, judge)
    world.publish_rows(ROWS)
    speculation = {
        "spark.speculation": "true",
        "spark.speculation.quantile": "0.5",
        "spark.speculation.multiplier": "1.1",
        "spark.speculation.minTaskRuntime": "1s",
    }
    options = [f"{name}={value}" for name, value in speculation.items()]
    with driving(world, cluster.master, str(tmp_path), world.in_judge, "1", *options, **cluster.environment) as process:
        until(lambda: len(world.arrived()) > ROWS // 10 or process.poll() is not None)
        first, _ = cluster.executors()
        hanging = until(lambda: (found := first.children(recursive=True))[1:] and found)  # a daemon, and its worker
        for each in hanging:
            each.suspend()
        end = ended(process)

    assert end.acked == ROWS
    assert set(world.arrived()) == set(range(ROWS))
    until(lambda: not any(each.is_running() for each in hanging))  # Spark has killed the slow attempt
