"""What may or must run, from what is on the blackboard: growth of raw data, and feeds behind their inputs.

Here: decisions, each with its reason, and the record of what was asked for. Not here: starting runs (`sensors`), and
what is computed. No module here knows Dagster or Spark: `graph` names the feeds and the questions about them.
"""
