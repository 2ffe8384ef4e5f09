"""A Dagster project whose assets are feeds: its settings, sources and days, and its definitions.

Here: what every such project has in common, the worked example included. Not here: the assets of any one project.
"""

from feed_assets.partitions import NEIGHBOURING_DAYS, NEXT_DAY
from feed_assets.project.assembly import Project

__all__ = ["NEIGHBOURING_DAYS", "NEXT_DAY", "Project"]
