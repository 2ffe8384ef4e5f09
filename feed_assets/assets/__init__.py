"""Dagster assets for sources of any kind: their raw partitions, and the feed that is cleaned from them.

Here: wiring, metadata, descriptions, and in `ads` the assets of the worked example. Not here: business rules, reading
and writing (`io_manager`), checks (`checks`).
"""
