"""The main job on a standalone cluster and in a bucket, by configuration alone, while a worker is killed."""

import csv
import json
import os
import subprocess
import sys
import time
from uuid import uuid4

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
    for name, rows in (("ads", ads(300)), ("clicks", [click("c1", impression="i3")])):
        with (tmp_path / f"{name}.csv").open("w", newline="") as file:
            writer = csv.DictWriter(file, list(rows[0]))
            writer.writeheader()
            writer.writerows(rows)

    def command(*arguments):
        program = [sys.executable, "-m", "feed_assets.cli", *arguments]
        return subprocess.Popen(program, cwd=tmp_path, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE)

    def finished(process):
        out, err = process.communicate(timeout=300)
        assert process.returncode == 0, err.decode()
        return out

    for name in ("ads", "clicks"):
        finished(command("land", f"shop_{name}", f"{name}.csv"))
    backfill = command("backfill", "--from", DAY, "--to", DAY, "--json")
    started = time.monotonic()
    while not open_blackboard(base).page(f"{ADS}/{DAY}/").entries:
        assert backfill.poll() is None, "it ended before it wrote"
        assert time.monotonic() < started + 200
        time.sleep(0.1)
    cluster.kill_worker()

    results = json.loads(finished(backfill))
    assert [result["success"] for result in results] == [True, True]
    for name in ALL:
        feed = open_feed(f"{base}/{name.replace('_', '-')}/v1.0")
        assert [record.state for record in records(feed, DAY)] == ["published"]
