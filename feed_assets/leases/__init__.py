"""Leases: the right to work on something until a time, with a number that fences off whoever had it before.

Here: what a lease is (`port`), where leases are kept (`in_database`, `on_blackboard`), and renewing them while work
goes on (`holding`). Not here: what is worked on. A lease only saves work: its holder may stand still and go on after
its end, so what it publishes must be decided by a condition of storage, or by the lease's number.
"""
