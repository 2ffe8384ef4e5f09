"""Dagster assets for sources of any kind: their raw partitions, and the feed that is cleaned from them.

Here: wiring, metadata, descriptions, and in `ads` the assets of the worked example. Not here: business rules, reading
and writing (`io_manager`), checks (`checks`).
"""

from feed_assets.assets.checked_hours import Hourly, checked_hours
from feed_assets.assets.cleaned import Judge, cleaned
from feed_assets.assets.external import raw_key, raw_logs

__all__ = ["Hourly", "Judge", "checked_hours", "cleaned", "raw_key", "raw_logs"]
