"""A Dagster project whose assets are feeds: its settings, sources, days and definitions.

Here: the parts that all projects share, the worked example included (`assembly`), and loading a project by the name of
its module (`loading`). Not here: the assets of a project.
"""

from typing import TYPE_CHECKING

from feed_assets.lazy import loaded_when_used

if TYPE_CHECKING:
    from feed_assets.partitions.days import NEIGHBOURING_DAYS, NEXT_DAY
    from feed_assets.project.assembly import Project

__all__ = ["NEIGHBOURING_DAYS", "NEXT_DAY", "Project"]

__getattr__ = loaded_when_used(
    __name__,
    {
        "NEIGHBOURING_DAYS": "feed_assets.partitions.days",
        "NEXT_DAY": "feed_assets.partitions.days",
        "Project": "feed_assets.project.assembly",
    },
)
