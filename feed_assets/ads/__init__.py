"""The worked example: how effective ads were, as pure Spark.

Here: the columns, rules and results of ads and clicks, as pure functions. No other room on this level or below knows
ads. Not here: Dagster, reading, writing, the clock, and calls that make Spark compute (`count`, `collect`, `cache`).
"""
