"""The IO manager: assets take and return DataFrames, it reads feeds and raw data and stages updates.

Here: File Feed, Dagster and Spark together. Not here: business rules (a project's own), and the audit (`checks`).
"""
