"""Computing assets in a worker, as a run of Dagster does: the same assets, audits and attempts, on a warm Spark.

Here: a task as a run inside this process. Not here: which requests of sensors become tasks (`handing_over`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final
from uuid import uuid4

import dagster as dg

from feed_assets.feed_events.failures import errors
from feed_assets.workflow.errors import StageError

ASSETS: Final = "assets"
PARTITION: Final = "partition"
TAGS: Final = "tags"


def payload_of(request: dg.RunRequest) -> dict[str, Any]:
    """The payload of the task that computes what a request asks for."""
    return {
        ASSETS: [each.to_user_string() for each in request.asset_selection or ()],
        PARTITION: request.partition_key,
        TAGS: dict(request.tags),
    }


@dataclass(frozen=True, slots=True)
class RunsOfAssets:
    """Runs assets and their audits inside this process. See `workflow.flow.Computer`."""

    definitions: dg.Definitions
    run_config: Mapping[str, Any]

    def compute(self, payload: Any) -> None:
        """Compute and audit the assets of a payload. A rejected update is no failure: people are told by its record.

        Raises StageError if a step fails.
        """
        keys = [dg.AssetKey.from_user_string(each) for each in payload[ASSETS]]
        job = self.definitions.resolve_implicit_global_asset_job_def()
        checks = self._checks(keys)
        with dg.DagsterInstance.ephemeral() as instance:
            result = job.get_subset(asset_selection={*keys}, asset_check_selection=checks).execute_in_process(
                instance=instance,
                run_id=str(uuid4()),
                partition_key=payload[PARTITION],
                tags=payload[TAGS],
                run_config={**self.run_config, "loggers": {}},
                raise_on_error=False,
            )
        if reasons := errors(result.all_events):
            raise StageError("; ".join(reasons))

    def _checks(self, keys: Sequence[dg.AssetKey]) -> set[dg.AssetCheckKey]:
        graph = self.definitions.resolve_asset_graph()
        return {each for key in keys for each in graph.get_check_keys_for_assets({key})}
