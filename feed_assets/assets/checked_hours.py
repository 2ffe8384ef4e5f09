"""Hours of a source, checked as they are complete, so that a day is assembled from them and not read anew.

Here: the asset, and its feed. Not here: which hours run (`sensors.complete_hours`), and how a day uses them
(`steps.day_records`).

The place of the feed changes with everything that decides its rows: the source's description, the columns, and the
version of the check. So no day uses hours that were checked differently.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import date
from typing import Any

import dagster as dg
from pyspark.sql import DataFrame
from pyspark.sql.types import LongType, StringType, StructField, StructType

from feed_assets.assets.external import raw_key
from feed_assets.feed_events.declarations import feed_metadata
from feed_assets.file_feed.digest import short_digest
from feed_assets.quality.judging import with_source
from feed_assets.sources.canonical import VERSION, canonical
from feed_assets.sources.spec import Source

FOLDER = "checked"
IO_MANAGER = "file_feed"
_BOOKKEEPING = (
    StructField("_file", StringType(), metadata={"comment": "The base name of the partner's file."}),
    StructField("_line", LongType(), metadata={"comment": "The line or record in that file, from 1."}),
    StructField("_refused", StringType(), metadata={"comment": "Why the record cannot be used; NULL if it can."}),
    StructField("_record", StringType(), metadata={"comment": "A record that cannot be used, as it was sent."}),
)


@dataclass(frozen=True, slots=True)
class Hourly:
    """Checking hour by hour: `check` checks some records of a day (as `fa.check`); `schema` has its columns.

    Change `version` whenever the result of the check changes.
    """

    check: Callable[[DataFrame, date], DataFrame]
    schema: StructType
    version: str = "1"

    def metadata(self, source: Source) -> dict[str, Any]:
        """The metadata that declares the feed of a source's checked hours."""
        own = (StructField(f.name, f.dataType, metadata=f.metadata) for f in with_source(self.schema))
        columns = StructType([*own, *_BOOKKEEPING])
        decisive = f"{source.digest}\n{columns.json()}\n{self.version}\n{VERSION}"
        return feed_metadata(f"{FOLDER}/{source.key}/{short_digest(decisive)}", columns)

    def records(self, raw: DataFrame, source: Source, day: date) -> DataFrame:
        """Raw records of a day in the columns of the feed."""
        return self.check(canonical(raw, source), day)


def checked_hours(source: Source, partitions: dg.HourlyPartitionsDefinition, hourly: Hourly) -> dg.AssetsDefinition:
    """The checked records of each hour of a source."""

    @dg.asset(
        key=checked_key(source),
        ins={"records": dg.AssetIn(raw_key(source), input_manager_key=IO_MANAGER)},
        partitions_def=partitions,
        io_manager_key=IO_MANAGER,
        kinds={"pyspark", "parquet"},
        group_name=FOLDER,
        code_version=hourly.version,
        metadata=hourly.metadata(source),
        description=(
            f"The records of {source.name} by the hour of the event, in the canonical columns, each checked by itself: "
            "`_refused` says why one cannot be used. A day is assembled from the hours that were checked, and compares "
            "their records. An hour that came later, or has changed since, is checked with its day."
        ),
    )
    def checked(records: dict[str, DataFrame]) -> dict[str, DataFrame]:
        return {hour: hourly.records(frame, source, date.fromisoformat(hour[:10])) for hour, frame in records.items()}

    return checked


def checked_key(source: Source) -> dg.AssetKey:
    """The asset key of a source's checked hours."""
    return dg.AssetKey([FOLDER, source.kind, source.name])
