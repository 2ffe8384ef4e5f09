"""Declarations of feeds as plain values, and the names of days.

Not here: an asset's metadata with its declaration (`io_manager.asset_metadata`), and storage.
"""

from feed_assets.datasets.days import ONE_DAY, days_between, is_day, midnight
from feed_assets.datasets.declaration import FeedDeclaration, Figures, Place

__all__ = ["ONE_DAY", "FeedDeclaration", "Figures", "Place", "days_between", "is_day", "midnight"]
