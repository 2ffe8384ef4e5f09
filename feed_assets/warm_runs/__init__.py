"""Processes that stay up and execute Dagster runs one after the other, each with a Spark that stays warm.

Here: the processes (`worker`) and what they keep (`warm`), the pool that starts them and hands runs to them (`pool`),
the socket between Dagster and the pool (`requests`), and the run launcher for `dagster.yaml` (`launcher`). Not here:
what a run does. The pool's own process loads neither Dagster nor Spark, so it starts workers without delay.
"""
