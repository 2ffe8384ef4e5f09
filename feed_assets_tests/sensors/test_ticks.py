"""The run requests that several sensors make alike."""

from __future__ import annotations

from datetime import UTC, datetime

import dagster as dg
from pyspark.sql.types import StringType, StructField, StructType

from feed_assets.feed_events.declarations import feed_metadata
from feed_assets.sensors.asset_graph import AssetFeedGraph
from feed_assets.sensors.ticks import of_attempt, run_requests
from feed_assets.starts.attempt import Attempt
from feed_assets.starts.attempts import Attempts, Wanted
from feed_assets.starts.requests import Need, Request
from feed_assets.state.address import sqlite_url
from feed_assets.state.store import Store
from feed_assets_tests.starts.requesting import requested

DAY = "2024-01-01"
LONG = "acme_data_platform/marketing_and_sales/advertising"


def test_a_run_of_assets_with_like_names_is_found_by_the_attempt_at_each(tmp_path):
    names = ["clean/ads", "clean_ads", f"{LONG}/clean_ads", f"{LONG}/clean_clicks", "revenue"]
    schema, days = StructType([StructField("id", StringType())]), dg.DailyPartitionsDefinition(DAY)
    specs = [
        dg.AssetSpec(name.split("/"), partitions_def=days, metadata=feed_metadata(f"{name}/v1", schema))
        for name in names
    ]
    feeds = AssetFeedGraph.of(dg.Definitions(specs).get_repository_def())
    due = {f"{name}/v1": "none/0" for name in names}
    attempts = Attempts(
        Store(sqlite_url(tmp_path / "state.db")), "file:///base", lambda: datetime(2024, 1, 2, tzinfo=UTC)
    )
    asked = requested(attempts, *(Wanted(feed, DAY, state) for feed, state in due.items()))
    recorded = {each.flow: each for each in asked if isinstance(each, Attempt)}

    (request,) = run_requests("late_growth", feeds, [Request(Need(DAY, due, "grown"), recorded)], {})

    for feed, attempt in recorded.items():
        assert of_attempt(feed, attempt.key).tags.items() <= request.tags.items()
    assert len(request.tags) == len(names) + 1  # each has its own, beside the reason
    assert all(len(name.rpartition("/")[2]) <= 63 for name in request.tags)
