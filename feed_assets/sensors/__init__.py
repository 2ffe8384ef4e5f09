"""Dagster's sensors: they request runs, report what has landed or changed, and send alerts and reports.

Here: cursors, run requests, asset events. Not here: the decisions (`late_data`).
"""

from feed_assets.sensors.alerts import alerts
from feed_assets.sensors.complete_hours import complete_hours
from feed_assets.sensors.data_catalog import data_catalog
from feed_assets.sensors.landings import landings
from feed_assets.sensors.late_growth import late_growth
from feed_assets.sensors.late_reports import late_reports
from feed_assets.sensors.new_manifests import new_manifests
from feed_assets.sensors.warehouse_loads import warehouse_loads

__all__ = [
    "alerts",
    "complete_hours",
    "data_catalog",
    "landings",
    "late_growth",
    "late_reports",
    "new_manifests",
    "warehouse_loads",
]
