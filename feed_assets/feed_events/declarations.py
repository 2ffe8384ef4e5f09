"""Writes and reads the declaration of a feed in an asset's Dagster metadata.

The schema is there once, as Dagster's column schema: the UI shows it, readers apply it, and the contract check uses it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from datetime import time
from typing import Any

import dagster as dg
from pyspark.sql.types import StructType

from feed_assets.blackboard.keys import check_key
from feed_assets.blackboard.port import InvalidKeyError
from feed_assets.datasets.declaration import FeedDeclaration, Figures
from feed_assets.engine.spark_schemas import declared_columns, unreadable_fields
from feed_assets.file_feed.record import Column

FEED = "feed/location"
IDENTITY = "feed/identity"
RAW_SOURCE = "feed/raw_source"
OPTIONAL = "feed/optional"
"""On an input: a partition without a valid update is left out and does not fail the run."""
CONTEXT = "feed/context"
"""On an input: a change of its neighbouring partitions is no reason to run again."""
EVENING_BEFORE = "feed/evening_before"
"""On an input of raw data, a frame a day: hours before the first day to read too, as context."""
AUDITED = "feed/audited"
TABLE = "feed/table"
FIGURES = "feed/figures"
LOADS = "feed/loads"
"""On a table of the warehouse: the location of its feed."""
DELIVERS = "feed/delivers"
"""On a delivery: the location of its feed."""
DESTINATION = "feed/destination"
"""On a delivery: the name of its destination."""
PROFILED = "feed/profiled"
"""Whether the record of an update has the profile of its rows."""
DEADLINE = "feed/deadline"
"""The time of day, UTC, at which the asset's daily run should have ended."""
CONFIGURATION = "feed/configuration"
"""A digest of the asset's settings besides its code; a record's configuration includes it."""
BOUNDARY = "feed/boundary"
"""On an output: digests of the data that its partition shares with the partitions `before` and `after`, for its record.
Two neighbours agree if the `after` of the earlier equals the `before` of the later."""
COLUMN_SCHEMA = "dagster/column_schema"
TIME_OF_DAY = re.compile(r"([01]\d|2[0-3]):[0-5]\d", re.ASCII)
PLAIN_NAME = re.compile(r"[a-z][a-z0-9_]{0,62}", re.ASCII)


def specs_of(asset: dg.AssetsDefinition | dg.AssetSpec) -> Iterable[dg.AssetSpec]:
    """The assets of a definition, computed or only declared."""
    return asset.specs if isinstance(asset, dg.AssetsDefinition) else [asset]


def declared_feed(metadata: Mapping[str, Any]) -> FeedDeclaration | None:
    """The feed that this asset metadata declares, or None if the asset is not a feed."""
    location = plain(metadata.get(FEED))
    if location is None:
        return None
    identity = str(plain(metadata.get(IDENTITY)) or "")
    return FeedDeclaration(
        location=str(location),
        columns=tuple(
            Column(
                name=column.name,
                type=column.type,
                nullable=column.constraints.nullable,
                description=column.description or "",
            )
            for column in plain(metadata[COLUMN_SCHEMA]).columns
        ),
        identity=tuple(name for name in identity.split(", ") if name),
        audited=bool(plain(metadata.get(AUDITED))),
        table=str(plain(metadata.get(TABLE)) or ""),
        figures=_figures(plain(metadata.get(FIGURES))),
    )


def feed_metadata(
    location: str,
    schema: StructType,
    *,
    identity: Sequence[str] = (),
    audited: bool = False,
    warehouse: str = "",
    figures: Figures | None = None,
    profiled: bool = False,
    deadline: str = "",
) -> dict[str, Any]:
    """The metadata that makes an asset a feed.

    `location` is a path below the base, `<name>/<version>`. `identity` names the columns that are unique in a
    partition. An `audited` feed's updates stay staged until its checks publish them (see `checks.audit`).
    `warehouse` is a table: if FEED_ASSETS_WAREHOUSE is set, the update in force of each partition is loaded into it.
    Reports on late data compare the updates before and after by `figures`; the sensor fetches both from a bucket, so
    name figures for feeds of results, not of records. The record of each update of a `profiled` feed has its profile:
    rows, and for each column NULLs, distinct values (an estimate), the smallest and the largest number or time.
    `deadline` is a time of day in UTC, such as `06:00`, by which the run of a day should have ended: `feed-assets
    health` and a notice say two weeks before when it will not.

    Raises DagsterInvalidDefinitionError for another location, if the table is not a plain name, if the schema is no
    StructType or lacks columns of `identity` or `figures`, if a field of a STRUCT has a name with one of `<>,:` or a
    backtick, or if the deadline is no time of day.
    """
    try:
        check_key(location)
    except InvalidKeyError as error:
        raise dg.DagsterInvalidDefinitionError(
            f"A feed's location is a path below the base, such as 'clean-orders/v1.0'. {error}"
        ) from None
    if warehouse and not PLAIN_NAME.fullmatch(warehouse):
        raise dg.DagsterInvalidDefinitionError(
            f"{warehouse!r} cannot be a table of the warehouse: use a letter, then up to 62 of a to z, 0 to 9 and _."
        )
    if deadline and not TIME_OF_DAY.fullmatch(deadline):
        raise dg.DagsterInvalidDefinitionError(
            f"The deadline of {location} is {deadline!r}: write a time of day in UTC, such as '06:00'."
        )
    if not isinstance(schema, StructType):
        raise dg.DagsterInvalidDefinitionError(
            f"The schema of {location} is {schema!r}: give a StructType of Spark, such as "
            "`StructType([StructField('ad_id', StringType())])`."
        )
    if unreadable := unreadable_fields(schema):
        raise dg.DagsterInvalidDefinitionError(
            f"{location}: Spark could not read the field {unreadable[0]!r} of a STRUCT by its declared type. Give it a "
            "name of at least one character, without <, >, commas, colons and backticks."
        )
    columns = {each.casefold() for each in schema.names}
    if missing := [each for each in identity if each.casefold() not in columns]:
        message = f"{location} has no column {', '.join(missing)}, which `identity` names; it has "
        raise dg.DagsterInvalidDefinitionError(f"{message}{', '.join(schema.names)}.")
    if figures and (unknown := {figures.by, *figures.sums} - set(schema.names)):
        message = f"{location} has no column {', '.join(sorted(unknown))}, by which reports are to compare its updates."
        raise dg.DagsterInvalidDefinitionError(message)
    if figures and (unknown := {each for ratio in figures.ratios for each in ratio[1:]} - set(figures.sums)):
        message = f"{location}: `figures.ratios` names {', '.join(sorted(unknown))}, which is not in `sums`."
        raise dg.DagsterInvalidDefinitionError(message)
    return {
        FEED: location,
        IDENTITY: ", ".join(identity),
        AUDITED: audited,
        COLUMN_SCHEMA: table_schema(schema),
        **({TABLE: warehouse} if warehouse else {}),
        **({FIGURES: asdict(figures)} if figures else {}),
        **({PROFILED: profiled} if profiled else {}),
        **({DEADLINE: deadline} if deadline else {}),
    }


def declared_deadline(metadata: Mapping[str, Any]) -> time | None:
    """The deadline that this asset metadata declares, a time of day in UTC; None if it has none."""
    value = plain(metadata.get(DEADLINE))
    return None if value is None else time.fromisoformat(str(value))


def raw_metadata(source_key: str) -> dict[str, Any]:
    """The metadata of the asset of a partner's raw partitions; `source_key` is `<kind>/<source>`."""
    return {RAW_SOURCE: source_key}


def raw_source(metadata: Mapping[str, Any]) -> str | None:
    """The key of the source whose raw data the asset is, or None if it is not raw data."""
    value = plain(metadata.get(RAW_SOURCE))
    return None if value is None else str(value)


def table_schema(schema: StructType) -> dg.TableSchema:
    """A Spark schema as the Dagster UI shows it."""
    return dg.TableSchema(
        columns=[
            dg.TableColumn(
                name=column.name,
                type=column.type,
                description=column.description or None,
                constraints=dg.TableColumnConstraints(nullable=column.nullable),
            )
            for column in declared_columns(schema)
        ]
    )


def is_required(metadata: Mapping[str, Any], window: dg.TimeWindow | None, own: dg.TimeWindow | None) -> bool:
    """Whether an upstream partition must exist: it shares time with the output, and the input is not optional.

    `metadata` is the input's. An input without a time (`window` is None) is always required. For an output without a
    time, no partition of time is required.
    """
    return shares_time(window, own) and not metadata.get(OPTIONAL)


def shares_time(window: dg.TimeWindow | None, own: dg.TimeWindow | None) -> bool:
    """Whether an upstream partition and the output overlap in time. A partition without a time always does."""
    if window is None or own is None:
        return window is None
    # Python compares times of one zone by the clock on the wall, by which the hour before winter time has no length.
    (first, end), (own_first, own_end) = ((each.start.timestamp(), each.end.timestamp()) for each in (window, own))
    return own_first < end and first < own_end


def _figures(stored: Mapping[str, Any] | None) -> Figures | None:
    if stored is None:
        return None
    ratios = tuple((str(name), str(part), str(whole)) for name, part, whole in stored["ratios"])
    return Figures(str(stored["by"]), tuple(stored["sums"]), ratios)


def plain(value: Any) -> Any:
    """The value itself, unwrapped if it is a MetadataValue."""
    return value.value if isinstance(value, dg.MetadataValue) else value
