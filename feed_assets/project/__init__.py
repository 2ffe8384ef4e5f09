"""A Dagster project whose assets are feeds: its settings, sources, days and definitions.

Here: the parts that all projects share, the worked example included. Not here: the assets of a project.
"""

from feed_assets.partitions import NEIGHBOURING_DAYS, NEXT_DAY
from feed_assets.project.assembly import Project

__all__ = ["NEIGHBOURING_DAYS", "NEXT_DAY", "Project"]
