"""What makes runs happen by itself: raw data that grew, and feeds that changed; and what raw data has landed.

Here: the sensors, the decisions they make and the requests they send. Not here: how growth is
measured (`sources.growth`) or what is latest (`file_feed`).
"""

from feed_assets.sensors.alerts import alerts
from feed_assets.sensors.growth import SourceDecision, growth_decisions
from feed_assets.sensors.landings import landings
from feed_assets.sensors.late_growth import late_growth
from feed_assets.sensors.new_manifests import new_manifests
from feed_assets.sensors.staleness import Staleness, staleness

__all__ = [
    "SourceDecision",
    "Staleness",
    "alerts",
    "growth_decisions",
    "landings",
    "late_growth",
    "new_manifests",
    "staleness",
]
