"""Expectations over an update, and the counts that decide them.

Here: rules, the update under audit, counting for them. Not here: publishing or rejecting (`steps`), Dagster (`checks`).
"""
