"""Workflows: tasks that flow through stages as data lands, each committed exactly once. They need only a blackboard.

Here: the names of a workflow's objects (`places`), who reigns over it (`epochs`, `reigns`), its journal (`entries`,
`history`) and its snapshots (`snapshots`). Not here: Dagster, Spark, and what a task does. The journal knows a
mutation as bytes only.
"""
