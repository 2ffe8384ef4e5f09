"""Partners' logs: their descriptions, how they land in raw partitions, and how raw partitions change.

Here: sources described in YAML; raw partitions: landing, listing, reading, growth. Not here: the kinds and cleaning
rules of a project (`ads` is an example), and publishing (`file_feed`). Import names that need Spark from their own
modules: `canonical`, `landing`, `expressions`.
"""
