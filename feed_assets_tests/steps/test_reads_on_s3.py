"""What it costs to read many files in a bucket: requests at the wire, on the driver and for each file."""

from __future__ import annotations

import io
import logging
from collections import Counter

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from feed_assets.ads.schemas import KINDS
from feed_assets.blackboard.location import open_blackboard
from feed_assets.datasets.declaration import FeedDeclaration
from feed_assets.engine.session import new_session
from feed_assets.file_feed import Column
from feed_assets.resources.spark import SparkResource
from feed_assets.sources.loading import load_sources
from feed_assets.steps.run import Output, Run
from feed_assets.steps.step import Step
from feed_assets_tests.harness import AS_OF, DAY, SHOP_ADS, ads, write_sources
from feed_assets_tests.servers.counting import counting
from feed_assets_tests.servers.fault_proxy import FaultProxy

FILES = 200
NUMBERS = FeedDeclaration("numbers/v1.0", (Column("id", "bigint"),))
SUMS = FeedDeclaration("sums/v1.0", (Column("id", "bigint"),))


def parquet(**columns):
    content = io.BytesIO()
    pq.write_table(pa.table(columns), content)
    return content.getvalue()


@pytest.fixture
def wire(versitygw, spark, monkeypatch):
    """A run with its base in a new bucket behind a counting proxy, and the requests so far."""
    del spark
    for variable, value in versitygw.environment.items():
        monkeypatch.setenv(variable, value)
    with counting(versitygw.port) as (endpoint, sent):
        monkeypatch.setenv("AWS_ENDPOINT_URL_S3", endpoint)
        base = f"s3://reads-{versitygw.port}"
        session = SparkResource.on("local[2]", base).spark_session
        yield (
            Run("run", "run", open_blackboard(base), lambda: session, lambda: AS_OF, logging.getLogger(__name__)),
            sent,
        )
        _ = SparkResource.on("local[2]").spark_session


def requests(sent):
    taken = Counter(sent)
    sent.clear()
    return taken


def test_the_driver_lists_a_page_of_files_at_a_time_and_executors_send_four_requests_a_file(
    wire, versitygw, bucket, tmp_path
):
    del bucket  # Java's credentials
    run, sent = wire
    update = f"numbers/v1.0/{DAY}/20191130.000000"
    rows = ads(1)[0]
    day = {f"raw/ads/shop_ads/{DAY}/12/{n:03}.parquet": parquet(**{k: [v] for k, v in rows.items()}) for n in range(20)}
    files = {f"{update}/part-{number:03}.parquet": parquet(id=[number]) for number in range(FILES)}
    versitygw.place(f"reads-{versitygw.port}", {**files, **day, f"{update}/_SUCCESS": str(FILES).encode()})
    (source,) = load_sources(write_sources(tmp_path / "sources", SHOP_ADS), KINDS)
    step = Step.begin(run, [Output(SUMS, DAY)])
    sent.clear()

    frame = step.read_feed(NUMBERS, [DAY]).frame()
    resolved = requests(sent)
    total = frame.groupBy().sum("id").toDF("id")
    assert total.first().id == sum(range(FILES))
    computed = requests(sent)
    records = step.read_raw(source, [f"{DAY}-12:00"]).frame()
    listed = requests(sent)
    assert records.select("id").count() == 20
    requests(sent)
    step.require_unchanged()
    checked = requests(sent)

    assert resolved == {"LIST": 1}
    # The length of the footer, the footer, the columns.
    assert computed == {"HEAD": FILES, "GET": 3 * FILES}
    # The files, the landings, and those of the same content; Spark counts from the footers.
    assert listed == {"LIST": listed["LIST"], "HEAD": 20, "GET": 40}
    assert listed["LIST"] <= 3
    assert checked == {"LIST": 2}


def test_answers_that_are_cut_short_are_asked_for_again(bucket, versitygw, tmp_path, monkeypatch):
    """A single machine tries a task once, so a run would fail."""
    board = open_blackboard(bucket)
    for number in range(40):
        board.create(f"numbers/part-{number:03}.parquet", parquet(id=[number], name=["x"]))
    proxy = FaultProxy(tmp_path / "proxy", versitygw, seed=1)
    proxy.start()
    monkeypatch.setenv("AWS_ENDPOINT_URL_S3", proxy.endpoint)
    try:
        session = new_session(SparkResource.on("local[2]", bucket).spark_session, {})
        with proxy.injecting(truncated_body=0.2):
            numbers = session.read.schema("id bigint, name string").parquet(f"{bucket.replace('s3:', 's3a:')}/numbers")
            read = numbers.selectExpr("sum(id)", "count(DISTINCT name)").first()
            cut = proxy.injected()["truncated_body"]
    finally:
        _ = SparkResource.on("local[2]").spark_session
        proxy.kill()

    assert tuple(read) == (sum(range(40)), 1)
    assert cut
