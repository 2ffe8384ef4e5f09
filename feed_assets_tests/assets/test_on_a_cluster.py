"""The main job on a standalone cluster and in a bucket, by configuration alone, while a worker is killed."""

import json
import os
import subprocess
import sys
import time
from io import BytesIO
from uuid import uuid4

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from feed_assets.blackboard import open_blackboard
from feed_assets.file_feed import open_feed, records
from feed_assets_tests.harness import ADS, ALL, DAY, SHOP_ADS, SHOP_CLICKS, ads, click, write_sources
from feed_assets_tests.servers.spark_cluster import SparkCluster


@pytest.fixture
def cluster(tmp_path, versitygw, monkeypatch):
    """Two workers whose executors find the credentials of the S3 server in their environment."""
    for name, value in versitygw.environment.items():
        monkeypatch.setenv(name, value)
    cluster = SparkCluster(tmp_path / "workers")
    cluster.start()
    yield cluster
    cluster.stop()


def test_a_backfill_goes_on_when_a_worker_is_killed_and_publishes_each_day_once(cluster, versitygw, tmp_path):
    bucket = f"feeds-{uuid4().hex}"
    versitygw.client().create_bucket(Bucket=bucket)
    sources = write_sources(tmp_path / "sources", SHOP_ADS, SHOP_CLICKS)
    base = f"s3://{bucket}/base"
    environment = {
        **os.environ,
        **cluster.environment,
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
        deadline = time.monotonic() + 200
        while not board.page(f"{ADS}/{DAY}/").entries:
            assert backfill.poll() is None, "it ended before it wrote"
            assert time.monotonic() < deadline
            time.sleep(0.1)
        cluster.kill_worker()
        told, errors = backfill.communicate(timeout=300)

    assert backfill.returncode == 0, errors
    assert "WARN" not in errors
    assert "[Stage" not in errors
    results = json.loads(told)
    assert [result["success"] for result in results] == [True, True]
    for name in ALL:
        feed = open_feed(f"{base}/{name.replace('_', '-')}/v1.0")
        assert [record.state for record in records(feed, DAY)] == ["published"]
