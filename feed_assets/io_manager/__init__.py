"""The IO manager: assets take and return DataFrames, it reads feeds and raw data and stages updates.

Here: File Feed, Dagster and Spark together. Not here: business rules (a project's own), and the audit (`checks`).
"""

from feed_assets.feed_events.declarations import (
    BOUNDARY,
    CONTEXT,
    OPTIONAL,
    declared_feed,
    feed_metadata,
    raw_metadata,
)
from feed_assets.io_manager.manager import file_feed_io_manager
from feed_assets.io_manager.observed import Observed

__all__ = [
    "BOUNDARY",
    "CONTEXT",
    "OPTIONAL",
    "Observed",
    "declared_feed",
    "feed_metadata",
    "file_feed_io_manager",
    "raw_metadata",
]
