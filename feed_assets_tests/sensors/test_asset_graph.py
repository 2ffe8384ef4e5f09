"""The feeds among Dagster's assets."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import dagster as dg
import pytest

from feed_assets.ads.schemas import AD_CATALOG
from feed_assets.blackboard.memory import MemoryBlackboard
from feed_assets.feed_events.declarations import feed_metadata
from feed_assets.file_feed import Feed, publish_files
from feed_assets.late_data.staleness import staleness
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


def test_an_hour_waits_for_the_day_that_it_reads_and_runs_when_the_day_is_there():
    days, hours = dg.DailyPartitionsDefinition("2019-11-24"), dg.HourlyPartitionsDefinition("2019-11-24-00:00")
    daily = dg.AssetSpec("daily", partitions_def=days, metadata=feed_metadata("daily/v1", AD_CATALOG))

    @dg.asset(deps=[daily], partitions_def=hours, metadata=feed_metadata("hourly/v1", AD_CATALOG))
    def of_hours() -> None: ...

    graph = AssetFeedGraph.of(dg.Definitions([daily, of_hours]).get_repository_def())
    board, now = MemoryBlackboard(), datetime(2020, 1, 2, tzinfo=UTC)
    publish_files(Feed(board, "daily/v1"), "2019-11-24", [], now=now, owner="me")

    noons = ["2019-11-24-12:00", "2019-11-25-12:00"]
    there, missing = staleness(board, graph, graph.feeds["hourly/v1"], noons, now=now)

    assert (there.stale, there.reason) == (True, "its inputs are there, and it was never computed")
    assert (missing.stale, missing.reason) == (False, "waits for daily/v1 2019-11-25")


def neighbouring_days() -> dg.RepositoryDefinition:
    """A feed of days, and another whose days read these and the days before and after, if there are any."""
    days = dg.DailyPartitionsDefinition("2019-11-24")
    daily = dg.AssetSpec("daily", partitions_def=days, metadata=feed_metadata("daily/v1", AD_CATALOG))
    around = dg.TimeWindowPartitionMapping(start_offset=-1, end_offset=1, allow_nonexistent_upstream_partitions=True)

    @dg.asset(
        deps=[dg.AssetDep(daily, partition_mapping=around)],
        partitions_def=days,
        metadata=feed_metadata("smooth/v1", AD_CATALOG),
    )
    def smooth() -> None: ...

    return dg.Definitions([daily, smooth]).get_repository_def()


@pytest.fixture
def asked(monkeypatch):
    """How often Dagster maps partitions to their inputs."""
    calls = []
    real = dg.TimeWindowPartitionMapping.get_upstream_mapped_partitions_result_for_partitions

    def counting(self, *arguments, **more):
        calls.append(arguments)
        return real(self, *arguments, **more)

    monkeypatch.setattr(dg.TimeWindowPartitionMapping, "get_upstream_mapped_partitions_result_for_partitions", counting)
    return calls


def test_dagster_is_asked_once_for_the_inputs_of_a_partition_until_partitions_come_or_go(asked):
    repository = neighbouring_days()
    days = [f"2019-11-{day}" for day in range(24, 29)]
    noon = datetime(2019, 11, 26, 12, tzinfo=UTC)

    def answers(repository, moment):
        with dg.partition_loading_context(moment):
            graph = AssetFeedGraph.of(repository)
        return [
            (graph.has("smooth/v1", day), graph.parents("smooth/v1", day), graph.neighbours("smooth/v1", day))
            for day in days
            if graph.has("smooth/v1", day)
        ]

    for hours in (0, 0, 6, 12, 18, 36, 0):
        moment = noon + timedelta(hours=hours)
        assert answers(repository, moment) == answers(neighbouring_days(), moment)
    asked.clear()
    assert len(answers(repository, noon + timedelta(hours=2))) == 2
    assert asked == []


def test_the_hour_that_comes_twice_when_summer_time_ends_is_two_partitions():
    hours = dg.HourlyPartitionsDefinition("2024-10-27-00:00", timezone="Europe/Berlin", end_date="2024-10-27-05:00")
    hourly = dg.AssetSpec("hourly", partitions_def=hours, metadata=feed_metadata("hourly/v1", AD_CATALOG))
    graph = AssetFeedGraph.of(dg.Definitions([hourly]).get_repository_def())
    names = hours.get_partition_keys()

    assert names[2:4] == ["2024-10-27-02:00", "2024-10-27-02:00+0100"]
    assert all(graph.can_have("hourly/v1", name) for name in names)
    assert not graph.can_have("hourly/v1", "2024-10-27-02:00+0200")
    for before, here, after in zip(names, names[1:], names[2:], strict=False):
        assert graph.neighbours("hourly/v1", here) == {"before": before, "after": after}


def test_each_of_the_two_hours_when_summer_time_ends_waits_for_its_input_and_runs():
    hours = dg.HourlyPartitionsDefinition("2024-10-27-00:00", timezone="Europe/Berlin", end_date="2024-10-27-05:00")
    hourly = dg.AssetSpec("hourly", partitions_def=hours, metadata=feed_metadata("hourly/v1", AD_CATALOG))

    @dg.asset(deps=[hourly], partitions_def=hours, metadata=feed_metadata("checked/v1", AD_CATALOG))
    def checked() -> None: ...

    graph = AssetFeedGraph.of(dg.Definitions([hourly, checked]).get_repository_def())
    board, now = MemoryBlackboard(), datetime(2024, 10, 28, tzinfo=UTC)
    names = ["2024-10-27-02:00", "2024-10-27-02:00+0100"]

    def answers():
        return [each.reason for each in staleness(board, graph, graph.feeds["checked/v1"], names, now=now)]

    assert answers() == [f"waits for hourly/v1 {name}" for name in names]
    for name in names:
        publish_files(Feed(board, "hourly/v1"), name, [], now=now, owner="me")
    assert answers() == ["its inputs are there, and it was never computed"] * 2
