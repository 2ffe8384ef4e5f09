"""Partners' logs: their descriptions, how they land in raw partitions, and how raw partitions change.

Here: sources described in YAML; raw partitions: landing, listing, reading, growth. Not here: the kinds and cleaning
rules of a project (`ads` is an example), and publishing (`file_feed`). Import names that need Spark from their own
modules: `canonical`, `landing`, `expressions`.
"""

from feed_assets.sources.absence import absences
from feed_assets.sources.growth import Decision, GrowthKind, decide
from feed_assets.sources.kinds import Kind, KindError
from feed_assets.sources.loading import load_source, load_sources
from feed_assets.sources.raw import (
    each_day,
    evening,
    evening_read,
    has_raw_data,
    latest_days,
    raw_days,
    raw_frame,
    read_set,
    read_sets,
    record_count,
    records_by_hour,
)
from feed_assets.sources.source_errors import SourceError
from feed_assets.sources.spec import Source, SpecError

__all__ = [
    "Decision",
    "GrowthKind",
    "Kind",
    "KindError",
    "Source",
    "SourceError",
    "SpecError",
    "absences",
    "decide",
    "each_day",
    "evening",
    "evening_read",
    "has_raw_data",
    "latest_days",
    "load_source",
    "load_sources",
    "raw_days",
    "raw_frame",
    "read_set",
    "read_sets",
    "record_count",
    "records_by_hour",
]
