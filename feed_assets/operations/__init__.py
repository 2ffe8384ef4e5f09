"""What commands and pages are made of: backfill, explanation, report, and the listing of records set aside.

Here: functions that answer a person's question or carry out an order. Not here: the command line (`cli`).
"""
