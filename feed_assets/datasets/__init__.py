"""What a feed declares: where it is, its columns, what identifies a row, and how its days are named.

Here: declarations as plain values. Not here: how an asset states them (`io_manager.asset_metadata`), and storage.
"""

from feed_assets.datasets.days import ONE_DAY, days_between, is_day
from feed_assets.datasets.declaration import FeedDeclaration

__all__ = ["ONE_DAY", "FeedDeclaration", "days_between", "is_day"]
