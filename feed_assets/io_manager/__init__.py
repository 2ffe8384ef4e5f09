"""File Feed <-> Dagster <-> Spark: assets take and return DataFrames, this room resolves, stages and records.

Here: which update or which raw files an input is, how a result becomes a staged update, what its record says.
Not here: what the data means (a project's own), and whether it is good enough to publish (see `checks`).
"""

from feed_assets.io_manager.asset_metadata import (
    BOUNDARY,
    CONTEXT,
    OPTIONAL,
    declared_feed,
    feed_metadata,
    raw_metadata,
)
from feed_assets.io_manager.manager import FileFeedIOManager

__all__ = [
    "BOUNDARY",
    "CONTEXT",
    "OPTIONAL",
    "FileFeedIOManager",
    "declared_feed",
    "feed_metadata",
    "raw_metadata",
]
