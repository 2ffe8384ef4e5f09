"""The feeds among Dagster's assets."""

from __future__ import annotations

from datetime import UTC, datetime

import dagster as dg
import pytest

from feed_assets.ads import AD_CATALOG
from feed_assets.blackboard.memory import MemoryBlackboard
from feed_assets.dependencies.staleness import staleness
from feed_assets.io_manager import feed_metadata
from feed_assets.sensors.asset_graph import AssetFeedGraph


def test_two_assets_that_declare_one_feed_are_refused_by_name():
    one, other = (dg.AssetSpec(name, metadata=feed_metadata("same/v1", AD_CATALOG)) for name in ("one", "other"))

    with pytest.raises(dg.DagsterInvariantViolationError, match="one and other declare the same feed, same/v1: give"):
        AssetFeedGraph.of(dg.Definitions([one, other]).get_repository_def())


def test_a_month_says_which_days_it_waits_for_and_that_it_cannot_run_if_it_begins_before_them():
    days = dg.DailyPartitionsDefinition("2019-11-24")
    daily = dg.AssetSpec("daily", partitions_def=days, metadata=feed_metadata("daily/v1", AD_CATALOG))

    @dg.asset(
        deps=[daily],
        partitions_def=dg.MonthlyPartitionsDefinition("2019-11-01"),
        metadata=feed_metadata("monthly/v1", AD_CATALOG),
    )
    def monthly() -> None: ...

    graph = AssetFeedGraph.of(dg.Definitions([daily, monthly]).get_repository_def())
    months = ["2019-11-01", "2019-12-01"]
    now = datetime(2020, 1, 2, tzinfo=UTC)
    november, december = staleness(MemoryBlackboard(), graph, graph.feeds["monthly/v1"], months, now=now)

    assert not november.stale
    assert november.reason.startswith("cannot run: daily/v1 2019-11-01 is not a partition")
    assert not december.stale
    assert december.reason == "waits for daily/v1 2019-12-01 and 30 more"
