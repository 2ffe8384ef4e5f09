"""One step of a pipeline, without Dagster: claim and resolve, transform, write and stage, audit, publish.

Here: what a run does between its inputs and its updates. Begin a `Step`; then `audit_output` decides on what it staged.
Not here: who starts it, and the protocol (`file_feed`).
"""

from feed_assets.steps.audit import Audited, audit_output
from feed_assets.steps.run import Output, Run
from feed_assets.steps.step import MissingUpdateError, Reading, Step

__all__ = ["Audited", "MissingUpdateError", "Output", "Reading", "Run", "Step", "audit_output"]
