"""Partners' logs: what they look like, how they land in raw partitions, and how these change.

Here: descriptions of sources in YAML, landing, listing and reading of raw partitions, growth. Not here:
the rules by which records are cleaned (see `transforms`) and what is published (see `file_feed`).
Names that need Spark are imported from their own modules, `landing` and `expressions`.
"""

from feed_assets.sources.absence import reasons_for_nothing, why_nothing
from feed_assets.sources.errors import SourceError
from feed_assets.sources.growth import Change, Decision, decide
from feed_assets.sources.loading import load_source, load_sources, partners_directory
from feed_assets.sources.raw import RECORD_COLUMNS, evening, evening_read, raw_days, raw_frame, read_set, read_sets
from feed_assets.sources.spec import (
    CANONICAL_COLUMNS,
    REQUIRED_COLUMNS,
    Kind,
    Source,
    SpecError,
)

__all__ = [
    "CANONICAL_COLUMNS",
    "RECORD_COLUMNS",
    "REQUIRED_COLUMNS",
    "Change",
    "Decision",
    "Kind",
    "Source",
    "SourceError",
    "SpecError",
    "decide",
    "evening",
    "evening_read",
    "load_source",
    "load_sources",
    "partners_directory",
    "raw_days",
    "raw_frame",
    "read_set",
    "read_sets",
    "reasons_for_nothing",
    "why_nothing",
]
