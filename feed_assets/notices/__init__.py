"""Telling people about late data: what a run has changed, as messages that are sent once, and as reports that are kept.

Here: comparing two updates, the texts, mail and webhooks, delivery, and the feed of reports. Not here: what is late
(`late_data`), when a run has ended (`sensors.late_reports`), and the rows in the state database (`notices.tables`).
"""
