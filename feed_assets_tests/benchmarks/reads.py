"""Reading an update of many small files in a bucket: requests, seconds and the driver's memory.

Here: a real server on this machine, and a step that resolves the update, computes over all files, and looks at them
again. Not here: large files, where bandwidth counts.
"""

from __future__ import annotations

import io
import logging
import os
from datetime import UTC, datetime
from pathlib import Path
from resource import RUSAGE_SELF, getrusage
from typing import Any
from unittest.mock import patch

import pyarrow as pa
import pyarrow.parquet as pq

from feed_assets.blackboard.location import open_blackboard
from feed_assets.datasets.declaration import FeedDeclaration
from feed_assets.engine.jvm import java_machine
from feed_assets.file_feed import Column
from feed_assets.resources.spark import SparkResource
from feed_assets.steps.run import Run
from feed_assets.steps.step import Step
from feed_assets_tests.benchmarks.results import Report, Row, timed
from feed_assets_tests.blackboard.recording import RecordingBlackboard
from feed_assets_tests.servers.counting import counting
from feed_assets_tests.servers.versitygw import Versitygw

SIZES = (1_000, 10_000, 50_000)
QUICK_SIZES = (20,)
COUNTED = 1_000
"""Up to how many files a second pass counts the requests of executors: the proxy that counts is slow."""
NOW = datetime(2019, 12, 1, tzinfo=UTC)
DAY = "2019-11-24"
NUMBERS = FeedDeclaration("numbers/v1.0", (Column("id", "bigint"), Column("name", "string")))
MB = 2**20


def measure(scratch: Path, *, quick: bool = False) -> Report:
    """Seconds, memory and the driver's requests; for small sizes all requests at the wire."""
    server = Versitygw(scratch / "data")
    server.start()
    rows = []
    try:
        for size in QUICK_SIZES if quick else SIZES:
            requests: dict[str, int] = {}
            if size <= COUNTED:
                with counting(server.port) as (endpoint, sent):
                    _read(server, f"counted-{size}", size, endpoint)
                    requests = dict(sorted(sent.items()))
            values = _read(server, f"timed-{size}", size, server.endpoint)
            rows.append(Row(f"{size:,} files", "resolve, compute, look again", {**values, **requests}))
    finally:
        server.kill()
    notes = [
        "Each file has 10 rows. Of the driver's requests, half look again at the end. HEAD and GET are the executors'.",
        "Heap is what is used after a collection, with the frame; of it, `before` without. 2 cores, versitygw.",
    ]
    return Report("reads", "one read of many small files in a bucket", rows, (), notes)


def _read(server: Versitygw, bucket: str, size: int, endpoint: str) -> dict[str, Any]:
    """The listings, seconds and megabytes of one step."""
    content = io.BytesIO()
    pq.write_table(pa.table({"id": list(range(10)), "name": [f"name {n}" for n in range(10)]}), content)
    update = f"{NUMBERS.location}/{DAY}/20191130.000000"
    files = {f"{update}/part-{number:06}.parquet": content.getvalue() for number in range(size)}
    server.place(bucket, {**files, f"{update}/_SUCCESS": str(size).encode()})
    with patch.dict(os.environ, {**server.environment, "AWS_ENDPOINT_URL_S3": endpoint}):
        resource = SparkResource.on("local[2]", f"s3://{bucket}")
        spark = resource.spark_session
        system = java_machine(spark).java.lang.System
        system.setProperty("aws.accessKeyId", server.access_key)
        system.setProperty("aws.secretAccessKey", server.secret_key)
        board = RecordingBlackboard(open_blackboard(f"s3://{bucket}"))
        run = Run("run", "run", board, lambda: spark, lambda: NOW, logging.getLogger())
        before = _heap(spark)
        step = Step.begin(run, [])
        frames: list[Any] = []
        resolving = timed(lambda: frames.append(step.read_feed(NUMBERS, [DAY]).frame()))
        computing = timed(lambda: frames.append(frames[0].groupBy().sum("id").first()[0]))
        if frames[1] != size * 45:
            message = f"The sum is {frames[1]}, and {size} files have {size * 45}."
            raise AssertionError(message)
        checking = timed(step.require_unchanged)
        return {
            "requests_of_the_driver": len(board.requests),
            "resolve_seconds": resolving,
            "compute_seconds": computing,
            "look_again_seconds": checking,
            "heap_before_MB": before,
            "heap_MB": _heap(spark),
            "python_peak_MB": getrusage(RUSAGE_SELF).ru_maxrss // 1024,
        }


def _heap(spark: Any) -> int:
    """Megabytes in use on the driver's heap, in local mode with the executor's, after a collection."""
    java = java_machine(spark).java.lang
    java.System.gc()
    runtime = java.Runtime.getRuntime()
    return int(runtime.totalMemory() - runtime.freeMemory()) // MB
