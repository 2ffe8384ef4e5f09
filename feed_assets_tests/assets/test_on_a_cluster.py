"""On a cluster and in a bucket: the main job while a worker is killed, and updates whose tasks fail, hang or die."""

import json
import os
import re
import shlex
import subprocess
import sys
import time
from contextlib import suppress
from datetime import UTC, datetime
from io import BytesIO
from uuid import uuid4

import psutil
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

from feed_assets.blackboard.listing import list_all
from feed_assets.blackboard.location import open_blackboard
from feed_assets.cli.main import main
from feed_assets.file_feed import Feed, latest, open_feed, records, require_latest, verify
from feed_assets_tests.faults import faulty_tasks
from feed_assets_tests.faults.faulty_tasks import (
    FAULTS,
    LOCATION,
    LOST_EXECUTOR,
    MANY_CORES,
    ROWS,
    TASKS,
    UNFINISHED,
    WRITING,
)
from feed_assets_tests.harness import ADS, ALL, DAY, SHOP_ADS, SHOP_CLICKS, ads, click, write_sources
from feed_assets_tests.listening import family
from feed_assets_tests.servers.spark_cluster import SparkCluster
from feed_assets_tests.waiting import HANGS, until


@pytest.fixture(scope="module")
def cluster(tmp_path_factory, versitygw):
    """Two workers whose executors find the credentials of the S3 server in their environment, as tests do."""
    with pytest.MonkeyPatch.context() as patch:
        for name, value in versitygw.environment.items():
            patch.setenv(name, value)
        cluster = SparkCluster(tmp_path_factory.mktemp("cluster") / "workers")
        cluster.start()
        yield cluster
        cluster.stop()


class Driven:
    """What a driver left in a bucket of its own: see `faulty_tasks`."""

    def __init__(self, server, folder):
        self.bucket, self.folder, self.client = f"feeds-{uuid4().hex}", folder, server.client()
        self.client.create_bucket(Bucket=self.bucket)
        self.base = f"s3://{self.bucket}/base"
        self.board = open_blackboard(self.base)
        self.feed = Feed(self.board, LOCATION)

    def objects(self, prefix=""):
        return [entry.key for entry in list_all(self.board, prefix)]

    def uploads(self, partition=""):
        """The uploads in parts that have not ended, each with its key and the number of parts that are there."""
        prefix = f"base/{LOCATION}/{partition}"
        found = self.client.list_multipart_uploads(Bucket=self.bucket, Prefix=prefix).get("Uploads", [])
        places = [{"Bucket": self.bucket, "Key": each["Key"], "UploadId": each["UploadId"]} for each in found]
        return [(place["Key"], len(self.client.list_parts(**place).get("Parts", []))) for place in places]


@pytest.fixture(scope="module")
def driven(cluster, versitygw, tmp_path_factory):
    """A driver has published under each fault, and was killed in the middle of another write."""
    folder = tmp_path_factory.mktemp("attempts")
    driven = Driven(versitygw, folder)
    environment = {**os.environ, **cluster.environment, "PYSPARK_PYTHON": sys.executable}
    command = [sys.executable, "-m", faulty_tasks.__name__, driven.base, cluster.master, str(folder)]
    log = folder.with_name("driver.log")
    with log.open("wb") as output, subprocess.Popen(command, env=environment, stdout=output, stderr=output) as driver:

        def wait_for_parts(partition, *tasks):
            """Until the files of these tasks have a part; those of tasks that have ended wait for the job's commit."""
            found = driven.uploads(f"{partition}/")
            deadline = time.monotonic() + HANGS
            while not all(any(f"part-0000{task}" in key and parts for key, parts in found) for task in tasks):
                assert driver.poll() is None, log.read_text()
                assert time.monotonic() < deadline, log.read_text()
                time.sleep(0.1)
                found = driven.uploads(f"{partition}/")

        try:
            # Both executors hang in a task, and have sent a part of its file.
            wait_for_parts(LOST_EXECUTOR, TASKS - 2, TASKS - 1)
            cluster.executors()[0].kill()
            (folder / faulty_tasks.GO_ON).touch()
            wait_for_parts(WRITING, TASKS - 1)
        finally:
            # Together: Java would stop in order, and tidy up, if it saw the end of Python.
            for process in reversed(family(driver.pid)):
                with suppress(psutil.NoSuchProcess):
                    process.kill()
    until(lambda: not cluster.executors())  # else they outlive their driver
    return driven


@pytest.mark.parametrize("fault", FAULTS)
def test_an_update_has_each_row_once_and_nothing_else_whatever_befell_its_tasks(driven, fault):
    update = require_latest(driven.feed, fault, now=datetime.now(UTC))
    (record,) = records(driven.feed, fault)

    attempts = {path.name.removeprefix(f"{fault}.") for path in driven.folder.glob(f"{fault}.*")}
    assert attempts & {"2.1", "3.1"}
    assert (record.state, record.update) == ("published", update.name)
    rows = record.facts.rows
    assert (rows.read, rows.published, rows.quarantined, rows.duplicates) == (ROWS, ROWS * 9 // 10, ROWS // 10, 0)

    location = f"{LOCATION}/{fault}/{update.name}"
    there = driven.objects(f"{location}/")
    assert int(driven.board.read(f"{location}/_SUCCESS").data) == len(record.files) == TASKS
    assert there == [f"{location}/_SUCCESS", *(f"{location}/{file.path}" for file in record.files)]
    tables = [pq.read_table(BytesIO(driven.board.read(key).data)) for key in there[1:]]
    assert sorted(pa.concat_tables(tables)["id"].to_pylist()) == [number for number in range(ROWS) if number % 10]

    manifest, *files = driven.objects(f"quarantine/{location}/")
    assert int(driven.board.read(manifest).data) == len(files) == 1
    lines = [line for key in files for line in driven.board.read(key).data.splitlines()]
    assert sorted(json.loads(line)["line"] for line in lines) == list(range(0, ROWS, 10))
    assert driven.uploads(f"{fault}/") == []


def test_an_update_has_few_files_on_many_cores(driven):
    (record,) = records(driven.feed, MANY_CORES)
    assert record.facts.rows.published == ROWS * 9 // 10
    assert len(record.files) == 1
    assert len(driven.objects(f"quarantine/{LOCATION}/{MANY_CORES}/")) == 2  # a file and the manifest


def test_readers_never_see_what_a_killed_driver_left_and_retention_removes_all_of_it(driven):
    now = datetime.now(UTC)
    assert [latest(driven.feed, partition, now=now) for partition in UNFINISHED] == [None] * len(UNFINISHED)
    assert driven.uploads(f"{WRITING}/")
    assert any("__magic" in key for key in driven.objects(f"{LOCATION}/{WRITING}/"))

    for feed in (LOCATION, f"quarantine/{LOCATION}"):
        command = ["feed", "gc", f"{driven.base}/{feed}", "--yes", "--younger-than", "0s", "--longest-write", "0s"]
        result = CliRunner().invoke(main, command)
        assert result.exit_code == 0, result.output

    left = [key for key in driven.objects() if any(partition in key for partition in UNFINISHED)]
    assert [key for key in left if not re.search(r"/\.feed/changes/.*\.removed$", key)] == []
    assert driven.uploads() == []
    assert [require_latest(driven.feed, fault, now=now).partition for fault in FAULTS] == list(FAULTS)
    assert verify(driven.feed, now=now) == []


def test_a_backfill_goes_on_when_a_worker_is_killed_and_publishes_each_day_once(cluster, versitygw, tmp_path):
    bucket = f"feeds-{uuid4().hex}"
    versitygw.client().create_bucket(Bucket=bucket)
    sources = write_sources(tmp_path / "sources", SHOP_ADS, SHOP_CLICKS)
    base = f"s3://{bucket}/base"
    quick = {
        "spark.sql.shuffle.partitions": 4,  # 200 take half a minute
        "spark.starvation.timeout": f"{HANGS:.0f}s",  # on a busy machine, executors take long to start
        "spark.executor.extraJavaOptions": os.environ.get("SPARK_DAEMON_JAVA_OPTS", ""),
    }
    options = [part for name, value in quick.items() for part in ("--conf", f"{name}={value}")]
    environment = {
        **os.environ,
        **cluster.environment,
        "PYSPARK_SUBMIT_ARGS": shlex.join([*options, "pyspark-shell"]),
        "FEED_ASSETS_BASE": base,
        "FEED_ASSETS_SOURCES": str(sources),
        "FEED_ASSETS_FIRST_DAY": DAY,
        "FEED_ASSETS_AS_OF": "2019-12-01",
        "DAGSTER_HOME": "",
    }
    board = open_blackboard(base)
    for kind, rows in (("ads", ads(300)), ("clicks", [click("c1", impression="i3")])):
        content = BytesIO()
        pq.write_table(pa.Table.from_pylist([dict(row) for row in rows]), content)
        board.create(f"raw/{kind}/shop_{kind}/{DAY}/12/x.parquet", content.getvalue())

    command = [sys.executable, "-m", "feed_assets.cli", "backfill", "--from", DAY, "--to", DAY, "--json"]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, cwd=tmp_path, env=environment, stdout=pipe, stderr=pipe, text=True) as backfill:
        deadline = time.monotonic() + HANGS
        while not board.page(f"{ADS}/{DAY}/").entries:
            assert backfill.poll() is None, "it ended before it wrote"
            assert time.monotonic() < deadline
            time.sleep(0.1)
        cluster.kill_worker()
        output, errors = backfill.communicate(timeout=HANGS)

    assert backfill.returncode == 0, errors
    assert "WARN" not in errors
    assert "[Stage" not in errors
    results = json.loads(output)
    assert [result["success"] for result in results] == [True, True]
    for name in ALL:
        feed = open_feed(f"{base}/{name.replace('_', '-')}/v1.0")
        assert [record.state for record in records(feed, DAY)] == ["published"]
