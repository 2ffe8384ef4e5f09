"""Workflows: work that never ends, in tasks that flow through stages, each committed exactly once.

Here: the state machine (`tasks`, `state`, `queues`, `machine`), its journal and its one writer (`entries`, `reigns`,
`snapshots`), the master that serves it (`master`, `service`), and its clients (`client`, `worker`). It needs a
blackboard and nothing else. Not here: when a slot's work is due (`dependencies`), and what Dagster shows of it.
"""
