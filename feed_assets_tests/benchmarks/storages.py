"""A bucket beside what else one would do: publishing beside a bare write, and the main job on disk, S3 and a cluster.

Here: one server of S3 on this machine for all subjects. Not here: reads of many files (`reads`), landing (`landings`).
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from datetime import UTC, date, datetime
from pathlib import Path
from statistics import median
from typing import Any
from unittest.mock import patch
from uuid import uuid4

from pyspark.sql import SparkSession, functions

from feed_assets.ads.schemas import CLEAN_ADS
from feed_assets.blackboard.location import open_blackboard
from feed_assets.engine.jvm import java_machine
from feed_assets.engine.spark_schemas import declared_columns
from feed_assets.file_feed import Facts, Feed, claim, publish, stage, staged_files
from feed_assets.resources.spark import SparkResource
from feed_assets.steps.writing import write
from feed_assets_tests.benchmarks.generated import portal_sources, write_day
from feed_assets_tests.benchmarks.results import LEFT_OUT, Comparison, Report, Rounds, Row, timed
from feed_assets_tests.servers.spark_cluster import SparkCluster
from feed_assets_tests.servers.versitygw import Versitygw

DAY = date(2019, 11, 24)
SIZES = {20_000: 15, 5_000_000: 9}
"""Rows, and how often each subject has its turn. The small size shows what does not grow with the rows."""
QUICK_SIZES = {20_000: 1}
GOAL = 1.05
IMPRESSIONS = 1_000_000
JOBS = 3
OURS, BARE = "claim, write, stage, publish", "bare Spark write"
"""Each is written to the same bucket by the same session, with the same committer."""


def measure_publishing(scratch: Path, *, quick: bool = False) -> Report:
    """Seconds of a publish on S3 and of a bare Spark write of the same rows, in turns."""
    rows: list[Row] = []
    comparisons: list[Comparison] = []
    server = Versitygw(scratch / "data")
    server.start()
    try:
        with patch.dict(os.environ, server.environment):
            for size, turns in (QUICK_SIZES if quick else SIZES).items():
                rounds, label = _publish(server, scratch / f"rows-{size}", size, turns), f"{size:,} rows"
                rows += rounds.rows(label)
                pairs = zip(rounds.seconds[OURS], rounds.seconds[BARE], strict=True)
                ratio = median(ours / bare for ours, bare in pairs)
                whole = rounds.median(OURS) / rounds.median(BARE)
                goal = (f"<= {GOAL:.2f}", whole <= GOAL) if size == max(SIZES) else ()
                comparisons += [
                    Comparison(f"{label}: {OURS} / {BARE}, medians", whole, *goal),
                    Comparison(f"{label}: {OURS} / {BARE}, median of pairs", ratio),
                ]
    finally:
        server.kill()
    notes = [
        "Rows of clean ads in files of the disk, rewritten; versitygw has the same disk. A pair is two turns in a row."
    ]
    return Report("publishing", "publish in a bucket", rows, comparisons, notes)


def measure_places(scratch: Path, *, quick: bool = False) -> Report:
    """Seconds of a backfill of one day, with the start of its process, by where its data and its executors are."""
    title, rounds = "the main job for one day", Rounds()
    if quick:
        return Report("places", title, (), (), [LEFT_OUT])
    sources = portal_sources(scratch / "sources")
    day = scratch / "day"
    write_day(day, DAY, IMPRESSIONS)
    server = Versitygw(scratch / "data")
    server.start()
    try:
        with patch.dict(os.environ, server.environment):
            cluster = SparkCluster(scratch / "cluster")
            # As on one machine; 200 are for the shuffles of 25 GB.
            few = {"PYSPARK_SUBMIT_ARGS": "--conf spark.sql.shuffle.partitions=4 pyspark-shell"}
            for _ in range(JOBS):
                rounds.add("disk, local[2]", _backfill(day, str(scratch / uuid4().hex), sources, {}))
                rounds.add("S3, local[2]", _backfill(day, _bucket(server), sources, {}))
                cluster.start()
                try:
                    seconds = _backfill(day, _bucket(server), sources, {**cluster.environment, **few})
                finally:
                    cluster.stop()
                rounds.add("S3, cluster of two workers", seconds)
    finally:
        server.kill()
    notes = ["`feed-assets backfill` of all assets with audits: Python, Java and Dagster start each time. Two cores."]
    return Report("places", title, rounds.rows(f"{IMPRESSIONS:,} impressions"), (), notes)


def _publish(server: Versitygw, made: Path, size: int, turns: int) -> Rounds:
    base = _bucket(server)
    spark = SparkResource.on("local[2]", base).spark_session
    system = java_machine(spark).java.lang.System
    system.setProperty("aws.accessKeyId", server.access_key)
    system.setProperty("aws.secretAccessKey", server.secret_key)
    _rows(spark, size).write.parquet(str(made))
    feed, facts = Feed(open_blackboard(base), "clean-ads/v1.0"), Facts(schema=declared_columns(CLEAN_ADS))
    frame = spark.read.parquet(str(made))

    def ours() -> None:
        now = datetime.now(UTC)
        claimed = claim(feed, str(DAY), now=now, owner="benchmark")
        ((written),) = write(claimed, frame, facts, read=size)
        staged = stage(claimed, staged_files(claimed, written.files), written.facts, now=now)
        publish(staged, now=now)
        if staged.record.facts.rows.published != size:
            message = f"{staged.record.facts.rows.published} rows were published, of {size}."
            raise AssertionError(message)

    def bare() -> None:
        frame.write.parquet(f"{base.replace('s3://', 's3a://')}/bare/{uuid4().hex}")

    rounds = Rounds()
    subjects: Mapping[str, Callable[[], None]] = {OURS: ours, BARE: bare}
    for _ in range(2):
        for subject in subjects.values():
            subject()
    for turn in range(turns):
        for name in sorted(subjects, reverse=bool(turn % 2)):
            rounds.add(name, timed(subjects[name]))
    return rounds


def _rows(spark: SparkSession, size: int) -> Any:
    """Clean ads, made up: ids that differ, users and ads that repeat."""
    number = functions.col("id")
    millis = (functions.lit(1_574_553_600_000) + number * 86_400_000 / size).cast("bigint")
    values = {
        "event_time": functions.timestamp_millis(millis),
        "cost": (number % 1000 / 1000).cast("decimal(18,6)"),
        "user_id": functions.concat(functions.lit("u"), (number * 7919) % (size // 20 + 1)),
        "impression_id": functions.sha1(number.cast("string")),
    }
    few = {name: functions.concat(functions.lit(name[0]), number % 997) for name in CLEAN_ADS.names}
    return spark.range(0, size, 1, 4).select(*({**few, **values}[name].alias(name) for name in CLEAN_ADS.names))


def _bucket(server: Versitygw) -> str:
    name = f"bench-{uuid4().hex}"
    server.client().create_bucket(Bucket=name)
    return f"s3://{name}"


def _backfill(day: Path, base: str, sources: Path, more: Mapping[str, str]) -> float:
    """The seconds of the command over the raw files of this day, put below the base before."""
    board = open_blackboard(base)
    for path in sorted((day / "raw").rglob("*.parquet")):
        board.upload(path.relative_to(day).as_posix(), path)
    environment = {
        **os.environ,
        "FEED_ASSETS_SPARK_MASTER": "local[2]",
        **more,
        "FEED_ASSETS_BASE": base,
        "FEED_ASSETS_SOURCES": str(sources),
        "FEED_ASSETS_FIRST_DAY": str(DAY),
        "FEED_ASSETS_AS_OF": "2019-12-01",
        "DAGSTER_HOME": "",
    }
    command = [sys.executable, "-m", "feed_assets.cli", "backfill", "--from", str(DAY), "--to", str(DAY), "--json"]

    def run() -> None:
        done = subprocess.run(command, cwd=day.parent, env=environment, capture_output=True, text=True, check=False)
        if done.returncode:
            raise AssertionError(done.stdout + done.stderr)

    return timed(run)
