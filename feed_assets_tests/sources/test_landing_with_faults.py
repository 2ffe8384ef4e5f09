"""Real Spark on real servers: one whose answers are late, lost, refused and cut off, and one that refuses Spark."""

from datetime import UTC, date, datetime
from pathlib import Path
from uuid import uuid4

import pytest
from click.testing import CliRunner

from feed_assets.ads.schemas import KINDS
from feed_assets.blackboard.listing import list_all
from feed_assets.blackboard.location import open_blackboard
from feed_assets.cli.main import main
from feed_assets.engine.buckets import UnfitStoreError
from feed_assets.engine.update_files import write_files
from feed_assets.resources.spark import SparkResource
from feed_assets.resources.storage import BlackboardResource
from feed_assets.sources.landing import land
from feed_assets.sources.loading import load_source
from feed_assets.sources.raw import raw_days, raw_frame
from feed_assets_tests.servers.fault_proxy import CONTRACT, FaultProxy

SOURCE = load_source(Path(__file__).parent / "partners" / "portal_ads.yaml", KINDS)
NOW = datetime(2019, 12, 1, tzinfo=UTC)
ROWS = 200


def test_a_file_lands_once_and_whole_whatever_faults_its_requests_meet(bucket, spark, versitygw, tmp_path, monkeypatch):
    log = tmp_path / "log.csv"
    rows = [f"{row},2019-11-{24 + row % 2} 05:00:00,a,c,u,1,0.1" for row in range(ROWS)]
    log.write_text("\n".join(("impression,time,ad,campaign,user,placement,cost", *rows, "x,never,a,c,u,1,0.1", "")))
    direct = open_blackboard(bucket)
    proxy = FaultProxy(tmp_path / "proxy", versitygw, seed=5)
    proxy.start()
    monkeypatch.setenv("AWS_ENDPOINT_URL_S3", proxy.endpoint)
    try:
        session = SparkResource.on("local[2]", bucket).spark_session
        proxy.inject(**dict.fromkeys(CONTRACT, 0.03))
        landing = land(session, BlackboardResource(base=bucket).blackboard, SOURCE, log, now=NOW)
        faults = proxy.injected()
        proxy.inject()
        days = raw_days(direct, [SOURCE.key], date.min, date.max)
        counted = {str(day): raw_frame(session, direct, SOURCE, raw).count() for (_, day), raw in days.items()}
    finally:
        _ = SparkResource.on("local[2]").spark_session
        proxy.kill()
    assert faults
    assert (landing.read, landing.landed) == (ROWS + 1, ROWS)
    assert counted == {"2019-11-24": ROWS // 2, "2019-11-25": ROWS // 2}
    assert [entry.key for entry in list_all(direct, "raw/.staging/")] == []
    assert len(list(list_all(direct, "quarantine/"))) == 1


def test_a_store_on_which_spark_cannot_write_is_named_in_one_sentence(
    ceph, use_environment, spark, tmp_path, monkeypatch
):
    base = f"s3://spark-{uuid4().hex}"
    ceph.client().create_bucket(Bucket=base.removeprefix("s3://"))
    use_environment(ceph.environment)
    monkeypatch.setenv("FEED_ASSETS_BASE", base)
    monkeypatch.setenv("FEED_ASSETS_SOURCES", str(Path(__file__).parent / "partners"))
    log = tmp_path / "log.csv"
    log.write_text("impression,time,ad,campaign,user,placement,cost\n1,2019-11-24 05:00:00,a,c,u,1,0.1\n")
    try:
        landing = CliRunner().invoke(main, ["land", "portal_ads", str(log)])
        with pytest.raises(UnfitStoreError) as raised:
            write_files(spark.range(1), f"{base}/rows")
    finally:
        _ = SparkResource.on("local[2]").spark_session
    assert landing.exit_code == 1, landing.output
    (*_, last) = landing.stderr.splitlines()
    for said in (last, str(raised.value)):
        assert "over HTTP, the store refuses the signed uploads of empty objects" in said
        assert "https endpoint (AWS_ENDPOINT_URL_S3)" in said
        assert len(said.splitlines()) == 1
