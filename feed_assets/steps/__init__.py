"""One step of a pipeline, without Dagster: claim and resolve, transform, write and stage, audit, publish.

Here: the work of a run between its inputs and its updates. A `Step` stages updates; `audit_output` decides on them.
Not here: starting a run, and the protocol (`file_feed`).
"""

from feed_assets.steps.audit import Audited, audit_output
from feed_assets.steps.day_records import DayRecords
from feed_assets.steps.run import Output, Run
from feed_assets.steps.step import MissingUpdateError, Reading, Step

__all__ = ["Audited", "DayRecords", "MissingUpdateError", "Output", "Reading", "Run", "Step", "audit_output"]
