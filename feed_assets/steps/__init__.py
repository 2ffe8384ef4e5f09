"""One step of a pipeline, without Dagster: claim and resolve, transform, write and stage, audit, publish.

Here: the work of a run between its inputs and its updates. A `Step` stages updates; `audit_output` decides on them.
Not here: starting a run, and the protocol (`file_feed`).
"""
