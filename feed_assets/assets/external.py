"""The raw partitions of sources as external assets: Dagster never makes them."""

import dagster as dg

from feed_assets.feed_events.declarations import COLUMN_SCHEMA, raw_metadata
from feed_assets.sources.spec import Source


def raw_logs(source: Source, partitions: dg.PartitionsDefinition) -> dg.AssetSpec:
    """The hourly raw partitions of one partner, as `feed-assets land` leaves them."""
    if source.problems:
        return dg.AssetSpec(
            raw_key(source),
            description=(
                f"Stopped: the description of {source.name} cannot be used. Its files do not land, and no day of "
                f"{source.kind} is computed, until it is corrected and this code location is reloaded.\n\n"
                f"{source.problems}"
            ),
            group_name="raw",
            owners=["team:partners"],
            tags={"feed_assets/stopped": ""},
            partitions_def=partitions,
            metadata=raw_metadata(source.key),
        )
    own = f"{source.description.strip().rstrip('.')}. " if source.description.strip() else ""
    return dg.AssetSpec(
        raw_key(source),
        description=(
            f"{own}The records that {source.name} sent in any order and at any age, by the hour of the event. "
            f"`feed-assets land {source.key} FILE...` lands them. Growth of {_threshold(source)} "
            f"or more within {source.lookback_days} days makes a day run again. In a clone of the project, "
            "`feed-assets` is `.venv/bin/feed-assets`."
        ),
        group_name="raw",
        kinds={"parquet"},
        owners=["team:partners"],
        partitions_def=partitions,
        metadata={**raw_metadata(source.key), **_columns(source)},
    )


def _threshold(source: Source) -> str:
    costs = source.growth_threshold
    return f"{source.growth_threshold_percent} %" if costs is None else "what a run costs"


def _columns(source: Source) -> dict[str, dg.TableSchema]:
    """The partner's columns, if the source declares them."""
    columns = [dg.TableColumn(name, type_) for name, type_ in source.format.declared.items()]
    return {COLUMN_SCHEMA: dg.TableSchema(columns)} if columns else {}


def raw_key(source: Source) -> dg.AssetKey:
    """The asset key of a source's raw partitions."""
    return dg.AssetKey(["raw", source.kind, source.name])
