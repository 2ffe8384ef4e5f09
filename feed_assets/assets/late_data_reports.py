"""The reports on late data as an asset: a feed that the sensor `late_reports` publishes. Dagster never makes it.

Here: its declaration, and its metadata, with numbers that Dagster plots over the days. Not here: reports (`notices`).
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from decimal import Decimal
from typing import Any

import dagster as dg
from pyspark.sql.types import StringType, StructField, StructType

from feed_assets.feed_events.declarations import feed_metadata
from feed_assets.feed_events.metadata import DATA_VERSION_TAG, MAX_ROWS, published_metadata
from feed_assets.file_feed.feed import Update
from feed_assets.notices.keeping import COLUMNS, LOCATION, line_of
from feed_assets.notices.tables import Report
from feed_assets.sources.growth import rounded_growth

NAME = "late_data_reports"
SHOWN = ("requested", "ended", "outcome", "sources", "run")
TIMES = ("requested", "ended")
REQUIRED = ("id", "day", "requested", "outcome", "sources", "report")


def late_data_reports(partitions: dg.PartitionsDefinition) -> dg.AssetSpec:
    """What came late for each day, what the day's runs changed, and whether they succeeded."""
    schema = StructType(
        [StructField(name, StringType(), name not in REQUIRED, {"comment": text}) for name, text in COLUMNS.items()]
    )
    return dg.AssetSpec(
        NAME,
        description=(
            "A row for each run that late data caused: the decision with every number, the outcome, and what changed. "
            "The sensor `late_reports` publishes them when a run has ended, and mails them. `feed-assets late` shows "
            "all days, `feed-assets explain DATE` those of a day, and `feed-assets feed diff` compares row by row."
        ),
        group_name="late_data",
        kinds={"json"},
        owners=["team:data"],
        partitions_def=partitions,
        metadata=feed_metadata(LOCATION, schema, identity=["id"]),
    )


def kept_event(update: Update, reports: Sequence[Report]) -> dg.AssetMaterialization:
    """The event of an update of the feed with these reports: a table, and numbers by outcome and of the last run."""
    results = [report.result or {} for report in reports]
    numbers: dict[str, Any] = {
        f"runs: {outcome}": sum(each["outcome"] == outcome for each in results)
        for outcome in ("success", "rejected", "failed")
    }
    growth = [each["decision"]["growth_percent"] for each in reports[-1].request["sources"]]
    numbers["growth at the last run, %"] = float(rounded_growth(max(Decimal(each or 0) for each in growth)))
    for feed in results[-1]["feeds"]:
        for name, (before, after) in (feed["figures"] or {"totals": {"rows": feed["rows"]}})["totals"].items():
            if before is not None and after is not None:
                numbers[f"change of {name}, {feed['feed']}"] = round(after - before, 6)
    lines = map(line_of, reports[-MAX_ROWS:])
    table = [dg.TableRecord({name: _cell(name, each[name]) for name in SHOWN}) for each in lines]
    return dg.AssetMaterialization(
        NAME,
        partition=update.partition,
        description="Reports on runs for late data.",
        metadata={**published_metadata(update, None, None), **numbers, "reports": dg.MetadataValue.table(table)},
        tags={DATA_VERSION_TAG: update.name},
    )


def _cell(name: str, value: str | None) -> str:
    """A value for the table, with times to the second: the UI cuts off what is too wide."""
    return f"{datetime.fromisoformat(value):%Y-%m-%d %H:%M:%S}" if value and name in TIMES else value or ""
