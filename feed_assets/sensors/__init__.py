"""Dagster's sensors: they request runs, report what has landed or changed, and send alerts and reports.

Here: cursors, run requests, asset events. Not here: the decisions (`late_data`).
"""
