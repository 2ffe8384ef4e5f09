"""Which days of raw data a partition is made of, whatever its definition."""

from __future__ import annotations

import dagster as dg
import pytest

from feed_assets.io_manager.time_windows import days_of

DAYS = dg.DailyPartitionsDefinition("2019-11-20")
REGIONS = dg.StaticPartitionsDefinition(["eu", "us"])


@pytest.mark.parametrize(
    ("definition", "partition", "days"),
    [
        (DAYS, "2019-11-24", ["2019-11-24"]),
        (dg.HourlyPartitionsDefinition("2019-11-20-00:00"), "2019-11-24-23:00", ["2019-11-24"]),
        (dg.WeeklyPartitionsDefinition("2019-11-24"), "2019-11-24", [f"2019-11-{day}" for day in range(24, 31)]),
        (dg.MultiPartitionsDefinition({"day": DAYS, "where": REGIONS}), "2019-11-24|eu", ["2019-11-24"]),
        (REGIONS, "eu", []),
        (None, None, []),
    ],
    ids=["day", "hour", "week", "day and region", "region", "none"],
)
def test_a_partition_touches_the_days_of_its_time(definition, partition, days):
    assert days_of(definition, partition) == days
