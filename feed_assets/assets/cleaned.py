"""The factory of cleaned assets: one feed for each kind, judged day by day from the records of all its sources.

Here: the inputs that these assets share. Not here: any single kind and its rules.
"""

from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from datetime import date
from functools import reduce
from typing import Any

import dagster as dg
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - as everyone writes Spark

from feed_assets.assets.checked_hours import IO_MANAGER, Hourly
from feed_assets.assets.column_lineage import clean_lineage
from feed_assets.assets.external import raw_key
from feed_assets.datasets.days import ONE_DAY
from feed_assets.feed_events.declarations import CONFIGURATION, EVENING_BEFORE
from feed_assets.partitions.days import are_utc_days
from feed_assets.sources.canonical import VERSION, canonical
from feed_assets.sources.kinds import SOURCE, Kind
from feed_assets.sources.spec import Source
from feed_assets.steps.day_records import DayRecords

EVENING_HOURS = 1
"""Hours before midnight in which an event may be delivered again after midnight: partners retry within minutes."""

Judge = Callable[[dg.AssetExecutionContext, DataFrame, date, DataFrame | None], DataFrame]
"""Judges the records of a day in canonical columns: context, records, day, records of the evening before, if any."""


def cleaned(
    name: str,
    kind: Kind,
    sources: Sequence[Source],
    partitions: dg.PartitionsDefinition,
    judge: Judge,
    *,
    hourly: Hourly | None = None,
    metadata: Mapping[str, Any],
    description: str,
    group_name: str | None = None,
    owners: Sequence[str] = (),
    required_resource_keys: AbstractSet[str] = frozenset(),
) -> dg.AssetsDefinition:
    """One asset over all sources of a kind, which are converted to the canonical columns and judged together.

    `metadata` declares the feed (`feed_metadata`). Sources of other kinds are left out. `required_resource_keys` are
    the resources that `judge` takes from its context. With `hourly`, a day is assembled from the hours that were
    checked before (see `checked_hours`) and have not changed since; `judge` gets records that `hourly.check` returned.
    Raises DagsterInvalidDefinitionError for `partitions` that are not UTC days, as those of raw data are. Without a
    source of this kind, the asset is defined and its runs fail.
    """
    if not are_utc_days(partitions):
        raise dg.DagsterInvalidDefinitionError(
            f"{name}: records are cleaned day by day, and the days of raw data are UTC days. So `partitions` must be "
            "days from midnight to midnight UTC, named as 2019-11-24, such as `project.days`. For other partitions, "
            "write an asset that reads this feed."
        )
    mine = [source for source in sources if source.kind == kind.name]

    @dg.asset(
        name=name,
        ins={_input(source): _records(source, hourly) for source in mine},
        partitions_def=partitions,
        io_manager_key=IO_MANAGER,
        kinds={"pyspark", "parquet"},
        metadata={**metadata, CONFIGURATION: ", ".join(f"{source.name} {source.digest}" for source in mine)},
        required_resource_keys=set(required_resource_keys),
        code_version=VERSION,
        description=description,
        group_name=group_name,
        owners=list(owners),
    )
    def clean(context: dg.AssetExecutionContext, **records: dict[str, DataFrame | DayRecords]) -> DataFrame:
        if not mine:
            # Not when it is defined: the rest of a project works on after the last source of a kind has gone.
            what = f"There is nothing to compute: no source of the kind {kind.name} is described."
            raise dg.Failure(f"{what} Put a YAML file for one into the directory of sources.", allow_retries=False)
        day = date.fromisoformat(context.partition_key)
        context.add_output_metadata(clean_lineage(mine))
        today, before = (_events(mine, records, of, hourly) for of in (day, day - ONE_DAY))
        return judge(context, _union(today), day, _union(before) if before else None)

    return clean


def _events(
    sources: Sequence[Source],
    records: Mapping[str, Mapping[str, DataFrame | DayRecords]],
    day: date,
    hourly: Hourly | None,
) -> Sequence[DataFrame]:
    """The records of this day in the canonical columns, a frame for each partner that sent some; `hourly` checked."""
    found: list[DataFrame] = []
    for source in sources:
        match records[_input(source)].get(str(day)):
            case DayRecords(raw, checked) if hourly:
                found += [hourly.records(raw, source, day)] if raw is not None else []
                # What is read from files may be NULL, also the source: the result's files would say so.
                found += [checked.withColumn(SOURCE, F.lit(source.name))] if checked is not None else []
            case DataFrame() as raw:
                found.append(canonical(raw, source))
    return found


def _union(frames: Sequence[DataFrame]) -> DataFrame:
    return reduce(DataFrame.unionByName, frames)


def _input(source: Source) -> str:
    """The name of the input: a source may have a name that Python or Dagster keeps for itself, such as `meta`."""
    return f"records_{source.name}"


def _records(source: Source, hourly: Hourly | None) -> dg.AssetIn:
    """A partner's records, by day: the day itself, and the evening before if it has records."""
    metadata = {EVENING_BEFORE: EVENING_HOURS, **(hourly.metadata(source) if hourly else {})}
    return dg.AssetIn(raw_key(source), input_manager_key=IO_MANAGER, dagster_type=dict, metadata=metadata)
