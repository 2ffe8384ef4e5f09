"""The run requests that several sensors make alike."""

from __future__ import annotations

from datetime import UTC, datetime

import dagster as dg
from pyspark.sql.types import StringType, StructField, StructType

from feed_assets.feed_events.declarations import feed_metadata
from feed_assets.sensors.asset_graph import AssetFeedGraph
from feed_assets.sensors.ticks import of_request, run_requests
from feed_assets.starts.requests import Need, Request
from feed_assets.starts.tables import LastRequest

DAY = "2024-01-01"
LONG = "acme_data_platform/marketing_and_sales/advertising"


def test_a_run_of_assets_with_like_names_is_found_by_the_request_of_each():
    names = ["clean/ads", "clean_ads", f"{LONG}/clean_ads", f"{LONG}/clean_clicks", "revenue"]
    schema, days = StructType([StructField("id", StringType())]), dg.DailyPartitionsDefinition(DAY)
    specs = [
        dg.AssetSpec(name.split("/"), partitions_def=days, metadata=feed_metadata(f"{name}/v1", schema))
        for name in names
    ]
    feeds = AssetFeedGraph.of(dg.Definitions(specs).get_repository_def())
    recorded = {f"{name}/v1": LastRequest("none/0", 1, datetime(2024, 1, 2, tzinfo=UTC)) for name in names}
    due = dict.fromkeys(recorded, "none/0")

    (request,) = run_requests("late_growth", feeds, [Request(Need(DAY, due, "grown"), recorded)], {})

    for feed, last in recorded.items():
        wanted = of_request(feeds, feed, DAY, last).tags
        assert wanted.items() <= request.tags.items()
    assert request.tags["feed_assets/asked_revenue"].startswith(f"revenue@{DAY}:")
    assert all(len(name.rpartition("/")[2]) <= 63 for name in request.tags)
