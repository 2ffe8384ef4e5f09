"""The functions behind commands and pages: backfill, explanation, report, doctor, listing of quarantined records.

Here: functions that answer a user's question or carry out a command. Not here: the command line (`cli`).
"""
