"""What is complete and good, and what may therefore start: slots, completeness, revisions, marks, the gate.

No Dagster, no Spark. Not here: the calendars of slots (`datasets`), starting a run once (`starts`), and why raw data or
an input has changed (`late_data`).
"""
