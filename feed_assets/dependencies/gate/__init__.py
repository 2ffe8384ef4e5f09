"""What may start: what a trigger says, and the decision on a slot of a flow.

Here: values and pure decisions; questions to persons. Not here: starting (`starts`), and Dagster.
"""
