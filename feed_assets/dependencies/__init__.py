"""Decisions on what to run, each with its reason: raw data that has grown, and feeds behind their inputs.

Here: the decisions and the record of requested runs, without Dagster and Spark. Not here: starting runs (`sensors`).
"""
