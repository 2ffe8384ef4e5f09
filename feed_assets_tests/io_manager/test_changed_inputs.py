"""Files that are replaced or removed after a step resolved them: it resolves again, and never mixes two versions."""

from __future__ import annotations

import io

import dagster as dg
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame
from pyspark.sql.types import StringType, StructField, StructType

from feed_assets.ads.schemas import KINDS
from feed_assets.assets.external import raw_logs
from feed_assets.blackboard.listing import list_all
from feed_assets.feed_events.declarations import feed_metadata
from feed_assets.file_feed import Update, history, latest, records
from feed_assets.partitions.days import daily, hourly
from feed_assets.resources.spark import SparkResource
from feed_assets.sources.loading import load_sources
from feed_assets_tests.harness import (
    DAY,
    SHOP_ADS,
    SHOP_CLICKS,
    Installation,
    ads,
    messages,
    settings_below,
    write_sources,
)

IDS, COPIES = "ids/v1.0", "copies/v1.0"
SCHEMA = StructType([StructField("id", StringType())])
RAW = f"raw/ads/shop_ads/{DAY}"


@pytest.fixture(params=["disk", "bucket"])
def place(request, spark, tmp_path, dagster_instance):
    """An installation on a disk and in a bucket of a real server."""
    del spark
    base = tmp_path / "base" if request.param == "disk" else f"{request.getfixturevalue('bucket')}/base"
    sources = write_sources(tmp_path / "sources", SHOP_ADS, SHOP_CLICKS)
    settings = settings_below(base, sources, state=f"sqlite:///{tmp_path}/state.db")
    yield Installation(settings, dagster_instance)
    _ = SparkResource.on(settings.spark_master).spark_session


@pytest.fixture
def pipeline(place):
    """Ids of the day's ads, and copies of them; `during` maps an asset to what happens once it has its inputs."""
    source = next(each for each in load_sources(place.settings.sources_directory, KINDS) if each.kind == "ads")
    raw = raw_logs(source, hourly(place.settings))
    during = {}

    def asset(name, upstream, location):
        @dg.asset(
            name=name,
            ins={"rows": dg.AssetIn(upstream, input_manager_key="file_feed")},
            partitions_def=daily(place.settings),
            io_manager_key="file_feed",
            metadata=feed_metadata(location, SCHEMA),
        )
        def compute(rows: DataFrame) -> DataFrame:
            during.pop(name, lambda: None)()
            return rows.select("id")

        return compute

    copies = asset("copies", dg.AssetKey("ids"), COPIES)
    return place.with_assets(raw, asset("ids", raw.key, IDS), copies), during


def put(board, path, rows):
    """Put a raw file there, or in the place of another."""
    content = io.BytesIO()
    pq.write_table(pa.Table.from_pylist(rows), content)
    board.delete(f"{RAW}/{path}")
    board.create(f"{RAW}/{path}", content.getvalue())


def ids(shop, location):
    update = latest(shop.feed(location), DAY, now=shop.now)
    files = [shop.board.read(update.key(file.path)).data for file in update.files]
    return sorted(row["id"] for file in files for row in pq.read_table(io.BytesIO(file)).to_pylist())


def retries(result):
    return [event.event_type_value for event in result.all_events].count("STEP_UP_FOR_RETRY")


def test_a_raw_file_replaced_during_a_run_is_read_again_and_the_record_names_the_new_one(pipeline):
    shop, during = pipeline
    for hour in ("11", "12"):
        put(shop.board, f"{hour}/x.parquet", ads(2))
    during["ids"] = lambda: put(shop.board, "12/x.parquet", ads(5, start=10))

    result = shop.run("ids")

    assert result.success, messages(result)
    assert retries(result) == 1
    assert ids(shop, IDS) == sorted(row["id"] for row in (*ads(2), *ads(5, start=10)))
    (record,) = records(shop.feed(IDS), DAY)  # nothing was staged from the first attempt
    tags = {entry.key.removeprefix(f"{RAW}/"): entry.tag for entry in list_all(shop.board, f"{RAW}/")}
    assert {file.path: file.tag for file in record.facts.inputs[0].files} == tags


def test_an_input_update_that_loses_a_file_during_a_run_is_not_read_and_the_one_before_serves(pipeline):
    shop, during = pipeline
    updates = []
    for count in (2, 3):
        put(shop.board, "12/x.parquet", ads(count))
        assert shop.run("ids").success
        updates.append(latest(shop.feed(IDS), DAY, now=shop.now))

    def lose(update: Update):
        shop.board.delete(update.key(update.files[0].path))

    during["copies"] = lambda: lose(updates[1])
    result = shop.run("copies")

    assert result.success, messages(result)
    assert retries(result) == 1
    assert ids(shop, COPIES) == sorted(row["id"] for row in ads(2))
    (record,) = records(shop.feed(COPIES), DAY)
    assert [each.update for each in record.facts.inputs] == [updates[0].name]


def test_without_another_version_the_run_fails_names_the_file_and_publishes_nothing(pipeline):
    shop, during = pipeline
    put(shop.board, "12/x.parquet", ads(2))
    assert shop.run("ids").success
    update = latest(shop.feed(IDS), DAY, now=shop.now)
    during["copies"] = lambda: shop.board.delete(update.key(update.files[0].path))

    result = shop.run("copies")

    assert not result.success
    retried = next(event for event in result.all_events if event.event_type_value == "STEP_UP_FOR_RETRY")
    assert update.files[0].path in str(retried.event_specific_data)
    assert f"{IDS} has no valid update of {DAY}" in " ".join(messages(result))
    assert [each.state for each in history(shop.feed(COPIES), DAY, now=shop.now) if each.state == "valid"] == []
