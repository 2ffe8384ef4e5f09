"""The reports on late data as an asset: a feed that the sensor `late_reports` publishes. Dagster never makes it.

Here: its declaration, and its metadata, with numbers that Dagster plots over the days. Not here: reports (`notices`).
"""

from __future__ import annotations

from collections import Counter
from typing import Any

import dagster as dg
from pyspark.sql.types import StringType, StructField, StructType

from feed_assets.file_feed import Update
from feed_assets.io_manager import feed_metadata
from feed_assets.io_manager.metadata import DATA_VERSION_TAG, MAX_ROWS, published_metadata
from feed_assets.notices.keeping import COLUMNS, LOCATION

NAME = "late_data_reports"
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


def kept_event(update: Update, rows: list[dict[str, Any]]) -> dg.AssetMaterialization:
    """The event of an update of the feed with these rows (`notices.keeping.kept`): a table, and numbers by outcome."""
    outcomes = Counter(each["outcome"] for each in rows)
    newest = rows[-1]["report"]
    decisions = [each["decision"] for each in newest["request"]["sources"]]
    numbers: dict[str, Any] = {
        f"runs: {outcome}": outcomes.get(outcome, 0) for outcome in ("success", "rejected", "failed")
    }
    growth = [float(each["growth_percent"]) for each in decisions if each["growth_percent"] is not None]
    if growth:
        numbers["growth at the last run, %"] = round(max(growth), 2)
    for feed in newest["result"].get("feeds", ()):
        for name, (before, after) in ((feed["figures"] or {}).get("totals") or {"rows": feed["rows"]}).items():
            if before is not None and after is not None:
                numbers[f"change of {name}, {feed['feed']}"] = round(after - before, 6)
    table = [
        dg.TableRecord({name: each[name] or "" for name in ("requested", "ended", "outcome", "sources", "run")})
        for each in rows[-MAX_ROWS:]
    ]
    return dg.AssetMaterialization(
        NAME,
        partition=update.partition,
        description="Reports on runs for late data.",
        metadata={**published_metadata(update, None, None), **numbers, "reports": dg.MetadataValue.table(table)},
        tags={DATA_VERSION_TAG: update.name},
    )
