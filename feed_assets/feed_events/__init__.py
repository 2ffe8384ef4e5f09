"""What Dagster shows of feeds: declarations, metadata, materializations, and the results of audits.

Here: the words and the events, from updates and records. Not here: reading and writing (`io_manager`), and deciding
(`checks`, `sensors`).
"""
