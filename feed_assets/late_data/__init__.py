"""Decisions on late data, each with its reason: raw data that has grown, and feeds behind their inputs.

Here: growth, due days, empty days and what updates were made from, without Dagster and Spark. Not here: the ledger of
requested runs (`starts`), and starting them (`sensors`).
"""
