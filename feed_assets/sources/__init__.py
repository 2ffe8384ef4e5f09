"""Partners' logs: what they look like, how they land in raw partitions, and how these change.

Here: descriptions of sources in YAML, landing, listing and reading of raw partitions, growth. Not here:
any one kind of records, the rules by which they are cleaned (a project's own; `ads` is an example), and what is
published (see `file_feed`). Names that need Spark are imported from their own modules, `canonical`, `landing` and
`expressions`.
"""

from feed_assets.sources.absence import Absences, absences
from feed_assets.sources.errors import SourceError
from feed_assets.sources.growth import Decision, GrowthKind, decide
from feed_assets.sources.kinds import Kind, KindError
from feed_assets.sources.loading import load_source, load_sources
from feed_assets.sources.raw import (
    RECORD_COLUMNS,
    evening,
    evening_read,
    has_raw_data,
    raw_days,
    raw_frame,
    read_set,
    read_sets,
    records_by_hour,
)
from feed_assets.sources.spec import Source, SpecError

__all__ = [
    "RECORD_COLUMNS",
    "Absences",
    "Decision",
    "GrowthKind",
    "Kind",
    "KindError",
    "Source",
    "SourceError",
    "SpecError",
    "absences",
    "decide",
    "evening",
    "evening_read",
    "has_raw_data",
    "load_source",
    "load_sources",
    "raw_days",
    "raw_frame",
    "read_set",
    "read_sets",
    "records_by_hour",
]
